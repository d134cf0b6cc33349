"""What an operator can set: the keys, their kinds, and the file they are read from."""
