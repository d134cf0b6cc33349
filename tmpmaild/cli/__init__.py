"""The command line: one module for each command or group of commands, and modules for their output."""
