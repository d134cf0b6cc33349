"""Calls the webhooks of inboxes: what is told, how it is signed, who is connected to, and when it is tried again."""
