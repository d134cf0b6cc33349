"""The use cases: what can be done with addresses and their mail."""
