"""The process and its machine: sockets, logs, the supervisor, memory."""
