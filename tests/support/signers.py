"""Third-party software that signs messages with the keys in a ``Keys``: dkimpy, opendkim and nodemailer."""

import json
import re
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path

import dkim
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from patience import PATIENCE_SECONDS
from peers import which
from zones import text_record

NODE_MODULES = Path(__file__).parents[2] / "clients/typescript/node_modules"
_PLAIN = serialization.NoEncryption()
_PEM, _RAW = serialization.Encoding.PEM, serialization.Encoding.Raw


class Keys:
    """An RSA key and an Ed25519 key in the programs' file formats, with the selectors rsa and ed."""

    def __init__(self, folder) -> None:
        self._rsa, self._ed = rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate()
        self.rsa_pem = self._rsa.private_bytes(_PEM, serialization.PrivateFormat.TraditionalOpenSSL, _PLAIN)
        self.ed_seed = b64encode(self._ed.private_bytes_raw())
        self.files = {
            "rsa": self.rsa_pem,
            "ed": self._ed.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, _PLAIN),
        }
        self.folder = folder
        for name, octets in self.files.items():
            (folder / name).write_bytes(octets)

    def zone(self, domain):
        """Return the DNS records that publish both keys."""
        der = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        records = {
            "rsa": b64encode(self._rsa.public_key().public_bytes(*der)),
            "ed": b64encode(self._ed.public_key().public_bytes_raw()),
        }
        kinds = {"rsa": "rsa", "ed": "ed25519"}
        return "".join(
            text_record(f"{name}._domainkey.{domain}", f"v=DKIM1; k={kinds[name]}; p={key.decode()}")
            for name, key in records.items()
        )


def by_dkimpy(keys, domain, raw, **more):
    """Return a message signed by dkimpy, with the Ed25519 key if ``signature_algorithm`` specifies it."""
    is_ed = more.get("signature_algorithm") == b"ed25519-sha256"
    key, selector = (keys.ed_seed, b"ed") if is_ed else (keys.rsa_pem, b"rsa")
    return dkim.sign(raw, selector, domain.encode(), key, **more) + raw


def by_opendkim(keys, domain, raw, key="rsa", **settings):
    """Return a message signed by opendkim with these settings, read from the output of opendkim's test mode."""
    folder = keys.folder
    (folder / "mail").write_bytes(raw)
    fixed = {"Mode": "s", "Domain": domain, "Selector": key, "KeyFile": folder / key, "RequireSafeKeys": "no"}
    algorithm = {"SignatureAlgorithm": "ed25519-sha256"} if key == "ed" else {}
    lines = [f"{name} {value}\n" for name, value in {**fixed, **algorithm, **settings}.items()]
    (folder / "opendkim.conf").write_text("".join(lines))
    command = [which("opendkim"), "-x", folder / "opendkim.conf", "-t", folder / "mail", "-vv"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_SECONDS)
    (value,) = re.findall(rb"hname='DKIM-Signature' hvalue='([^']+)'", done.stdout)
    return b"DKIM-Signature: " + value.replace(b"\n", b"\r\n") + b"\r\n" + raw


def by_nodemailer(keys, mails):
    """Return messages that nodemailer composes from ``sendMail`` arguments and signs with the sender domain's key."""
    for mail in mails:
        domain = mail["from"].rpartition("@")[2].rstrip(">")
        key = {"domainName": domain, "keySelector": "rsa", "privateKey": keys.rsa_pem.decode()}
        mail["dkim"] = mail.get("dkim", {}) | key
    given = {"input": json.dumps(mails).encode(), "cwd": NODE_MODULES, "capture_output": True}
    done = subprocess.run(["node", Path(__file__).with_suffix(".mjs")], check=True, **given)
    return [b64decode(one) for one in json.loads(done.stdout)]
