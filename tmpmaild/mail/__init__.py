"""The bytes of one message, and what a person sees of them: parts, headers, addresses, HTML."""
