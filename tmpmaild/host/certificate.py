"""Reads the certificate that STARTTLS shows."""

import ssl

from tmpmaild.config.settings import Config
from tmpmaild.errors import StartError


def load(config: Config) -> ssl.SSLContext | None:
    """Return the context of the configured certificate, None where there is none. Raises ``StartError``."""
    if not config.smtp.tls_certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.smtp.tls_certificate, config.smtp.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise StartError(
            f"smtp.tls_certificate {config.smtp.tls_certificate}, smtp.tls_key {config.smtp.tls_key}: {error}"
        ) from error
    return context
