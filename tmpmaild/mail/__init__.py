"""The octets of one mail, and what a reader sees of it."""
