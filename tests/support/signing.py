"""Messages signed with our test keys, and the DNS zones that publish the keys."""

from base64 import b64encode
from pathlib import Path

import dkim
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from nacl.encoding import Base64Encoder
from nacl.signing import SigningKey

from zones import text_record

KEYS = Path(__file__).parents[1] / "senders"  # contains large keys for tests, because generating them is slow
RAW = b"From: Shop <a@shop.example>\r\nTo: b@x.example\r\nSubject: hello\r\n\r\nThe body.\r\n"


class Signer:
    """Signs messages for shop.example; ``zone`` publishes its key."""

    def __init__(self, bits=1024, tags="v=DKIM1; k=rsa; ") -> None:
        drawn = KEYS / f"rsa{bits}.pem"
        if drawn.exists():
            key = serialization.load_pem_private_key(drawn.read_bytes(), None, unsafe_skip_rsa_key_validation=True)
        else:
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
