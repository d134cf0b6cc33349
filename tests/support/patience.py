"""The time limit for an event that a test waits for."""

PATIENCE_SECONDS = 120
"""No passing test waits this long, so that a slow machine changes no result; it only ends a test that hangs."""
