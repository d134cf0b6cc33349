"""The PostgreSQL engine, for several daemons on one or more machines. ``engine.py`` opens the engine."""
