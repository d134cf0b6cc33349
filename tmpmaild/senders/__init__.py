"""Who sent a mail, as SPF, DKIM and DMARC tell by the DNS: the one package that asks a resolver."""

PACKAGES = "'dkimpy[ed25519]' dnspython publicsuffixlist pyspf"
"""What pip installs for it, as its extra has it."""
