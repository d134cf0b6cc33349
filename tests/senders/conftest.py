"""A resolver of our own, and mails that are signed with keys of ours."""

from threading import Lock

import pytest

from signing import Ed25519Signer, Signer
from tmpmaild.model import Envelope
from tmpmaild.senders.resolver import Lookup, Resolver
from zones import Zones


@pytest.fixture(scope="session")
def signer():
    return Signer()


@pytest.fixture(scope="session")
def ed25519_signer():
    return Ed25519Signer()


@pytest.fixture
def zones():
    with Zones() as served:
        yield served


@pytest.fixture
def lookup(zones):
    """Return a function that returns the questions of one check, which may take so many seconds."""

    def made(seconds=20):
        turn = Lock()
        turn.acquire()
        return Lookup(Resolver(zones.place), seconds, turn)

    return made


def envelope(sender="bounce@shop.example", *, helo="mx.shop.example", ip="192.0.2.1"):
    return Envelope(sender, ("b@x.example",), helo, ip, tls=False)
