"""Sender authentication by SPF, DKIM and DMARC: the only package that queries a DNS resolver."""

PACKAGES = "'dkimpy[ed25519]' dnspython publicsuffixlist pyspf"
"""The packages that it needs, as in the extra of pyproject.toml."""
