"""A self-hosted disposable e-mail service: addresses are created over HTTP, filled over SMTP, deleted after an hour."""

__version__ = "1.1.0"
