"""Who sent a mail, as SPF, DKIM and DMARC tell by the DNS: the one room that asks a resolver."""

PACKAGES = "'dkimpy[ed25519]' dnspython publicsuffixlist pyspf"
"""What pip installs for this room, as its extra has it."""
