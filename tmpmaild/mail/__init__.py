"""The bytes of one message, and its content as a person sees it: parts, headers, addresses, HTML."""
