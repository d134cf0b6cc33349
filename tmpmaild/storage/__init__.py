"""What lasts: the storage contract, its SQLite engine, the writer and the migrations; no rule of the product."""
