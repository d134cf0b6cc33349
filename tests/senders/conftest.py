"""A resolver of our own, and mails that are signed with keys of ours."""

from base64 import b64encode
from threading import Lock

import dkim
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from nacl.encoding import Base64Encoder
from nacl.signing import SigningKey

from tmpmaild.model import Envelope
from tmpmaild.senders.resolver import Lookup, Resolver
from zones import Zones, text_record

RAW = b"From: Shop <a@shop.example>\r\nTo: b@x.example\r\nSubject: hello\r\n\r\nThe body.\r\n"


class Signer:
    """Signs mails for shop.example; ``zone`` publishes its key."""

    def __init__(self, bits=1024, tags="v=DKIM1; k=rsa; ") -> None:
        key = rsa.generate_private_key(65537, bits)
        plain = serialization.NoEncryption()
        self.key = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain)
        public = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.public = b64encode(key.public_key().public_bytes(*public)).decode()
        self.zone = text_record("s1._domainkey.shop.example", f"{tags}p={self.public}")

    def sign(self, raw=RAW, selector=b"s1", domain=b"shop.example", **more):
        return dkim.sign(raw, selector, domain, self.key, **more) + raw


class Ed25519Signer(Signer):
    def __init__(self) -> None:
        key = SigningKey.generate()
        self.key = key.encode(Base64Encoder)
        self.zone = text_record(
            "s1._domainkey.shop.example", f"v=DKIM1; k=ed25519; p={key.verify_key.encode(Base64Encoder).decode()}"
        )

    def sign(self, raw=RAW, **more):
        return super().sign(raw, signature_algorithm=b"ed25519-sha256", **more)


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
