"""The engine on PostgreSQL, for several daemons and machines. ``engine.py`` opens it."""
