"""The operator's settings: the keys, their validators, and the file that they are read from."""
