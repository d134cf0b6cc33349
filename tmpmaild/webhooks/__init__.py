"""Calls the webhooks of inboxes: which events are reported, signatures, connections, and retries."""
