"""The HTTP edge: from a request to ``InboxService``, and back to JSON or a problem document."""
