"""What an operator can set: the keys, their validators, and the file they are read from."""
