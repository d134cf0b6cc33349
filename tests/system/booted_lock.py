import sqlite3
import sys

database = sqlite3.connect("/var/lib/tmpmaild/tmpmaild.db", isolation_level=None)
database.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
