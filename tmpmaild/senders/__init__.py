"""Sender authentication with SPF, DKIM and DMARC. This is the only package that queries a DNS resolver."""

PACKAGES = "'dkimpy[ed25519]' dnspython publicsuffixlist pyspf"
"""The dependencies of this package, as listed in the ``senders`` extra in pyproject.toml."""
