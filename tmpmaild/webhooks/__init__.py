"""Calls the webhooks of inboxes: selects events, signs calls, connects to targets, and retries failed calls."""
