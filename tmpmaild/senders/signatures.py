"""DKIM (RFC 6376, RFC 8463) and ARC (RFC 8617): dkimpy reads and verifies; bounds, and hashing the body, are ours."""

import logging
import re
from base64 import b64decode
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import dkim
from dkim.canonicalization import CanonicalizationPolicy
from dkim.util import InvalidTagValueList, parse_tag_value

from tmpmaild.senders import bodies
from tmpmaild.senders.resolver import Lookup, Unresolved, printable
from tmpmaild.verdicts import ArcVerdict, DkimVerdict

_MOST_SIGNATURES: Final = 5
_MOST_HEADER_BYTES: Final = 64 * 1024
_MOST_FIELDS: Final = 1000
_MOST_SIGNED_FIELDS: Final = 256
_MOST_FIELD_BYTES: Final = 8 * 1024
_MOST_KEY_BYTES: Final = 4096
_MOST_KEY_BITS: Final = 4096
_MOST_EXPONENT: Final = 1 << 32
_LONG_SPACE: Final = re.compile(rb"\s{100}")  # dkimpy has a pattern that takes the square of it
_LITERAL: Final = re.compile(r"b'([^']*)'")  # as dkimpy writes octets
_EXPIRED: Final = "x= value is past"

_quiet = logging.getLogger("tmpmaild.senders.dkimpy")
_quiet.disabled = True  # its errors are in the verdict


class _Refused(Exception):
    """A signature is not accepted; the arguments are result and reason."""


class _Body(NamedTuple):
    raw: bytes
    start: int

    def check(self, sig: dict[bytes, bytes]) -> None:
        """Compare the hash of the body with what is signed. Raises ``_Refused``."""
        policy = CanonicalizationPolicy.from_c_value(sig.get(b"c", b"simple/simple"))
        is_relaxed = policy.body_algorithm.name == b"relaxed"
        covered = int(sig[b"l"]) if b"l" in sig else None
        digest, length = bodies.digest(self.raw, self.start, relaxed=is_relaxed, most=covered)
        if covered is not None and covered > length:
            raise _Refused("permerror", f"l={covered} is more than the {length} octets of the body")
        if digest != b64decode(re.sub(rb"\s+", b"", sig[b"bh"])):
            raise _Refused("fail", "the body was changed after it was signed (bh= is another hash)")
        if covered is not None and covered < length:
            raise _Refused("policy", f"l={covered} leaves {length - covered} octets of the body unsigned")


class _OwnBody:
    """Keeps dkimpy from hashing the body: it does so only where there is ``bh``."""

    own_body: _Body
    refused: _Refused | None = None

    def verify_sig(self, sig: dict[bytes, bytes], include: list[bytes], field: Any, ask: Callable[..., bytes]) -> bool:
        """Check the signature without the body, then the body, and what else is not accepted."""
        if not sig[b"a"].startswith(b"rsa-sha256") and sig[b"a"] != b"ed25519-sha256":
            raise _Refused("policy", f"{sig[b'a'].decode(errors='replace')} is not accepted any more (RFC 8301)")
        if len(include) > _MOST_SIGNED_FIELDS:
            raise _Refused("permerror", f"h= names more than {_MOST_SIGNED_FIELDS} fields")
        if b"bh" in sig:
            if b"from" not in include:
                raise _Refused("permerror", "h= does not name the From field")
            self._refusal(sig)
        without = {name: value for name, value in sig.items() if name != b"bh"}
        is_good: bool = super().verify_sig(without, include, field, partial(ask, algorithm=sig[b"a"]))  # type: ignore[misc]
        return is_good

    def _refusal(self, sig: dict[bytes, bytes]) -> None:
        try:
            self.own_body.check(sig)
        except _Refused as refused:
            if refused.args[0] != "policy":
                raise
            self.refused = refused  # unless the signature is wrong, which says more


class _Dkim(_OwnBody, dkim.DKIM):  # type: ignore[misc]
    pass


class _Arc(_OwnBody, dkim.ARC):  # type: ignore[misc]
    pass


def _key(lookup: Lookup, notes: list[str], name: bytes, timeout: float = 0, algorithm: bytes = b"") -> bytes:
    """Return a key record as dkimpy takes it. Raises ``_Refused``, ``Unresolved``, and what dkimpy does."""
    del timeout  # the check has a deadline
    answer = lookup.ask(name.decode(), "TXT")
    record: bytes = next((value for value in answer.values if b"p=" in value), b"")
    if len(record) > _MOST_KEY_BYTES:
        raise _Refused("permerror", f"the key record has {len(record)} octets")
    if not record:
        raise _Refused("permerror", f"no key at {printable(name.decode())}")
    tags = parse_tag_value(record)
    if not tags.get(b"p"):
        raise _Refused("permerror", "the key was revoked (p= is empty)")
    try:
        key, bits, kind, _ = dkim.evaluate_pk(name, record)
    except dkim.KeyFormatError as error:  # which dkimpy would take for a wrong signature
        raise _Refused("permerror", f"the key cannot be read: {error}") from error
    if not algorithm.startswith(kind + b"-"):
        raise _Refused("permerror", f"a= wants another key than the {kind.decode()} key of the record")
    if kind == b"rsa" and (bits > _MOST_KEY_BITS or key["publicExponent"] > _MOST_EXPONENT):
        raise _Refused("permerror", f"the key is too large ({bits} bits)")
    if b"y" in [flag.strip() for flag in tags.get(b"t", b"").split(b":")]:
        notes.append("the key is in test mode (t=y)")
    return record


def _header(raw: bytes) -> tuple[bytes, _Body]:
    """Return the header with its empty line, and the body. Raises ``_Refused``."""
    end = 2 if raw.startswith(b"\r\n") else raw.find(b"\r\n\r\n") + 4
    header = raw if end == 3 else raw[:end]  # noqa: PLR2004 - not found
    if len(header) > _MOST_HEADER_BYTES or header.count(b"\n") > _MOST_FIELDS:
        raise _Refused("permerror", "the header is too large to be checked")
    return header, _Body(raw, len(header))


def check(raw: bytes, lookup: Lookup) -> tuple[tuple[DkimVerdict, ...], ArcVerdict]:
    """Check the first signatures of a mail, and its chain."""
    lowered = raw[:_MOST_HEADER_BYTES].lower()
    if b"dkim-signature" not in lowered and b"arc-seal" not in lowered:
        return (), ArcVerdict("none")
    try:
        header, body = _header(raw)
        verifier = _Dkim(header, logger=_quiet)
    except (_Refused, dkim.DKIMException, IndexError) as error:
        result, reason = _why(error)
        return (DkimVerdict(result, reason=reason),), ArcVerdict(result, reason)
    verifier.own_body = body
    fields = [value for name, value in verifier.headers if name.lower() == b"dkim-signature"]
    found = [_signature(verifier, number, fields[number], lookup) for number in range(len(fields[:_MOST_SIGNATURES]))]
    if left := len(fields) - len(found):
        found.append(DkimVerdict("none", reason=f"{left} more signatures were not checked"))
    return tuple(found), _chain(header, body, lookup)


def _signature(verifier: _Dkim, number: int, field: bytes, lookup: Lookup) -> DkimVerdict:
    notes: list[str] = []
    verifier.refused = None
    domain = selector = ""
    try:
        if _is_too_long(field):
            raise _Refused("permerror", "the signature is too long")  # noqa: TRY301
        tags = parse_tag_value(field)
        domain, selector = (printable(tags.get(tag, b"").decode("utf-8", "replace"), 255) for tag in (b"d", b"s"))
        is_good = verifier.verify(number, partial(_key, lookup, notes))
        if is_good and verifier.refused:
            raise verifier.refused  # noqa: TRY301
    except Exception as error:  # noqa: BLE001 - dkimpy raises what it meets in keys and fields that attack
        result, reason = _why(error)
    else:
        result, reason = ("pass", "") if is_good else ("fail", "the signature is not that of this header and key")
    return DkimVerdict(result, domain, selector, "; ".join(filter(None, [reason, *notes])))


def _chain(header: bytes, body: _Body, lookup: Lookup) -> ArcVerdict:
    try:
        verifier = _Arc(header, logger=_quiet)
        verifier.own_body = body
        fields = [value for name, value in verifier.headers if name.lower().startswith(b"arc-")]
        if not fields:
            return ArcVerdict("none")
        if len(fields) > 3 * _MOST_SIGNATURES or any(map(_is_too_long, fields)):
            return ArcVerdict("fail", "the chain is too long")
        result, _, reason = verifier.verify(partial(_key, lookup, []))
        if result == dkim.CV_Pass and verifier.refused:
            raise verifier.refused  # noqa: TRY301
    except Exception as error:  # noqa: BLE001 - as above
        return ArcVerdict("temperror" if isinstance(error, Unresolved) else "fail", _why(error)[1])
    return ArcVerdict((result or b"fail").decode(), "" if result == dkim.CV_Pass else printable(str(reason)))


def _is_too_long(field: bytes) -> bool:
    return len(field) > _MOST_FIELD_BYTES or _LONG_SPACE.search(field) is not None


def _why(error: Exception) -> tuple[str, str]:
    """Return result and reason of a signature that could not be verified."""
    match error:
        case _Refused():
            result, reason = error.args
        case Unresolved():
            result, reason = "temperror", str(error)
        case dkim.ValidationError() if str(error).startswith(_EXPIRED):
            result, reason = "fail", "the signature has expired (x=)"
        case dkim.DKIMException() | InvalidTagValueList():
            result, reason = "permerror", _LITERAL.sub(r"\1", str(error))
        case _:
            result, reason = "permerror", f"it cannot be read ({type(error).__name__})"
    return result, printable(reason)
