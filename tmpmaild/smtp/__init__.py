"""The SMTP edge: from octets on a socket to ``InboxService.deliver``, and back to replies."""
