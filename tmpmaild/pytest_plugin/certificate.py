"""The certificate of the embedded daemon, and the authority that a test session makes for it."""

from pathlib import Path
from typing import NamedTuple

from tmpmaild.pytest_plugin.services import NoService


class Tls(NamedTuple):
    """The files of a certificate, and of the authority that issued it."""

    certificate: Path
    key: Path
    ca: Path


def issued(folder: Path) -> Tls:
    """Issue a certificate for the names under which this machine is reached, also from its containers.

    Raises ``NoService`` if trustme is not installed.
    """
    try:
        import trustme  # noqa: PLC0415 - an extra
    except ImportError:
        raise NoService("tmpmaild_tls needs trustme: pip install trustme") from None
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1", "::1", "host.docker.internal", "host.containers.internal")
    tls = Tls(folder / "certificate.pem", folder / "key.pem", folder / "ca.pem")
    for number, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(tls.certificate, append=number > 0)
    issued.private_key_pem.write_to_path(tls.key)
    authority.cert_pem.write_to_path(tls.ca)
    return tls
