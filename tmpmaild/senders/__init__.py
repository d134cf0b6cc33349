"""Who sent a mail, as SPF, DKIM and DMARC tell by the DNS: the one room that asks a resolver."""
