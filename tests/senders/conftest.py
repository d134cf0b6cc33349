"""A resolver for the tests, and messages signed with the tests' keys."""

from threading import Lock

import pytest

from signing import Signer
from tmpmaild.model import Envelope
from tmpmaild.senders.resolver import Lookup, Resolver
from zones import Zones


@pytest.fixture(scope="session")
def signer():
    return Signer()


@pytest.fixture
def zones():
    with Zones() as served:
        yield served


def lookup_at(place):
    """Return the lookup for one check, which queries the resolver at an address."""
    turn = Lock()
    turn.acquire()
    return Lookup(Resolver(place), 20, turn)


@pytest.fixture
def lookup(zones):
    return lambda: lookup_at(zones.place)


def envelope(sender="bounce@shop.example", *, helo="mx.shop.example", ip="192.0.2.1"):
    return Envelope(sender, ("b@x.example",), helo, ip, tls=False)
