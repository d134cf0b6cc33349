"""The process and its host: sockets, logs, the supervisor, memory."""
