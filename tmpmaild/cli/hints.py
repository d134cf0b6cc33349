"""The error text for an address that the service does not have: address, service, and what may be wrong."""

from collections.abc import Sequence

from tmpmaild import hostnames
from tmpmaild.client import AddressNotFound


def address_not_found(
    error: AddressNotFound, url: str, address: str, token: str | None, domains: Sequence[str]
) -> AddressNotFound:
    """Return the error with a better text. ``domains`` are those of the service, empty if they are not known."""
    if domains and address.rpartition("@")[2].lower() not in hostnames.Domains(domains):
        hint = f"; it serves {', '.join(domains)}"
    elif token is None:
        hint = ", or it is private: then set --token or $TMPMAILD_TOKEN"
    else:
        hint = ", or the token is that of another"
    return AddressNotFound(error.status, error.code, f"{url} has no address {address}{hint}")
