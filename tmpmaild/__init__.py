"""A self-hosted disposable e-mail address service: addresses over HTTP, mail over SMTP, gone after an hour."""

__version__ = "1.1.0"
