"""The service's use cases: creating, reading, changing and following inboxes, and delivering mail to them."""
