"""How long a test waits for an event that must happen."""

PATIENCE_SECONDS = 120
"""No passing test waits this long, so that a slow machine changes no result; it only ends a test that hangs."""
