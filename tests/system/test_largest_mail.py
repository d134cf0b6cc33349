"""The highest message limit: messages of 100 MiB arrive complete, and need memory for only a few copies."""

import base64
import hashlib
import random
import urllib.request

from daemons import NO_LIMITS

MIB = 1024 * 1024
MAX_MESSAGE_BYTES = 100 * MIB
PEAK_MIB = 600  # while a message is received, stored and decoded, there are three or four copies of it
SETTINGS = {
    "TMPMAILD_SMTP__MAX_MESSAGE_BYTES": str(MAX_MESSAGE_BYTES),
    "TMPMAILD_SMTP__MAX_INFLIGHT_BYTES": str(512 * MIB),
    "TMPMAILD_ADDRESSES__MAX_BYTES": str(1024 * MIB),
    "TMPMAILD_ADDRESSES__MAX_MESSAGES": "10000",
    "TMPMAILD_ADDRESSES__MAX_SHARE_PER_CLIENT": "1.0",
}
HEAD = (
    b"Subject: large\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nhello\r\n--b\r\n"
    b"Content-Type: application/pdf; name=large.pdf\r\nContent-Transfer-Encoding: base64\r\n\r\n"
)
END = b"\r\n--b--\r\n"


def digest_of(url):
    """Return the digest of a response body, without the trace fields at the start of a raw message."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        octets = answer.read()
    return hashlib.sha256(octets[octets.find(b"Subject: large") :] if url.endswith("/raw") else octets).digest()


def test_a_message_of_100_mib_is_stored_completely(start):
    daemon = start(**NO_LIMITS | SETTINGS)
    block = base64.encodebytes(random.Random(1).randbytes(57 * 1024)).replace(b"\n", b"\r\n")
    count = (MAX_MESSAGE_BYTES - len(HEAD) - len(END)) // len(block)
    mail = HEAD + block * count + END
    address = daemon.create()
    daemon.deliver_raw(address, mail)
    (message,) = daemon.messages(address)
    assert message["size"] == len(mail)
    here = f"{daemon.url}/api/v1/addresses/{address}/messages/{message['id']}"
    assert digest_of(f"{here}/raw") == hashlib.sha256(mail).digest()
    assert digest_of(f"{here}/attachments/0") == hashlib.sha256(base64.b64decode(block) * count).digest()
    assert daemon.memory_mib("VmHWM") < PEAK_MIB
    assert daemon.errors() == ""
