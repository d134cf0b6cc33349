"""Certificates for tests, created in this process."""

import trustme


def make(folder, *names, certificate="cert.pem", key="key.pem", **options):
    """Write a certificate for these names, and its key, to a folder; ``ca.pem`` is the issuer's certificate."""
    ca = trustme.CA()
    ca.cert_pem.write_to_path(folder / "ca.pem")
    issued = ca.issue_cert(*names, **options)
    issued.cert_chain_pems[0].write_to_path(folder / certificate)
    issued.private_key_pem.write_to_path(folder / key)
