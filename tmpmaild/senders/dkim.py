"""Verifies DKIM (RFC 6376, RFC 8463) and ARC (RFC 8617) with dkimpy, whose input is limited.

dkimpy receives the fields as split by our parser, but never the body. ``canonical`` hashes the body piece by piece in
linear time. In contrast, dkimpy would match patterns against the whole body while no other thread can run. One of these
patterns takes quadratic time for a run of spaces.
"""

import logging
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

import dkim
from dkim.canonicalization import CanonicalizationPolicy
from dkim.util import InvalidTagValueList, parse_tag_value

from tmpmaild import hostnames
from tmpmaild.mail import headers, multipart
from tmpmaild.model import ArcVerdict, DkimVerdict
from tmpmaild.senders.canonical import Form, body_digest
from tmpmaild.senders.resolver import Lookup, Unresolved, printable

_MAX_SIGNATURES: Final = 5
_MAX_HEADER_BYTES: Final = 64 * 1024
_MAX_FIELDS: Final = 1000
_MAX_SIGNED_FIELDS: Final = 256
_MAX_FIELD_BYTES: Final = 8 * 1024
_MAX_KEY_BYTES: Final = 4096
_MAX_KEY_BITS: Final = 4096
_MAX_EXPONENT: Final = 1 << 32
_LONG_SPACE: Final = re.compile(rb"\s{100}")  # a pattern in dkimpy takes quadratic time for such white space
_LITERAL: Final = re.compile(r"b'([^']*)'")  # bytes as printed by dkimpy
_EXPIRED: Final = "the signature has expired (x=)"
_NO_TAGS: Final[Mapping[bytes, bytes]] = {}
_OPTIONAL: Final = ("date", "message-id")  # message lists show the time of receipt instead
_SLOP_SECONDS: Final = 300  # tolerated clock error
_MAX_SPACE_BYTES: Final = 256 * 1024  # the limit for added white space; more could push text out of the view

_quiet = logging.getLogger("tmpmaild.senders.dkimpy")
_quiet.disabled = True  # errors are reported in the verdict


class Signature(NamedTuple):
    """The verdict on a signature and, if it is valid, the canonical form of the message that it covers."""

    verdict: DkimVerdict
    form: Form | None = None

    @property
    def is_relaxed(self) -> bool:
        """Whether the signature is valid but does not cover all white space."""
        return self.form is not None and any(self.form)


def check(raw: bytes, lookup: Lookup, received_at_seconds: float) -> tuple[tuple[Signature, ...], ArcVerdict]:
    """Check the first signatures of a message, and its ARC chain.

    A valid signature authenticates only the form that it covers; ``shown`` checks whether the message is shown in this
    form.
    """
    lowered = raw[:_MAX_HEADER_BYTES].lower()
    if b"dkim-signature" not in lowered and b"arc-seal" not in lowered:
        return (), ArcVerdict("none")
    try:
        header = _header(raw)
    except _Refused as error:
        result, reason = _outcome(error)
        return (Signature(DkimVerdict(result, reason=reason)),), ArcVerdict(result, reason)
    verifier = _Dkim(header, received_at_seconds)
    fields = [value for name, value in verifier.headers if name.lower() == b"dkim-signature"]
    found = [_signature(verifier, number, fields[number], lookup) for number in range(len(fields[:_MAX_SIGNATURES]))]
    if left := len(fields) - len(found):
        found.append(Signature(DkimVerdict("none", reason=f"{left} more signatures were not checked")))
    return tuple(found), _chain(_Arc(header, received_at_seconds), lookup)


class _Refused(Exception):
    """A signature was refused; the arguments are the result and the reason."""


class _QueryKey(Protocol):
    """Returns the key record at a name in the form that dkimpy expects; ``sig`` contains the signature's tags."""

    def __call__(self, name: bytes, timeout: float = 0, sig: Mapping[bytes, bytes] = _NO_TAGS) -> bytes: ...


class _Body(NamedTuple):
    """The body of a message, which starts at ``start``."""

    raw: bytes
    start: int

    def check(self, sig: dict[bytes, bytes]) -> None:
        """Compare the hash of the body with the signed hash. Raises ``_Refused``."""
        covered = int(sig[b"l"]) if b"l" in sig else None
        digest, length = body_digest(self.raw, self.start, relaxed=_form(sig).body, most=covered)
        if covered is not None and covered > length:
            raise _Refused("permerror", f"l={covered} exceeds the {length} bytes of the body")
        if digest != b64decode(re.sub(rb"\s+", b"", sig[b"bh"])):
            raise _Refused("fail", "the body was changed after it was signed (its hash does not match bh=)")
        if covered is not None and covered < length:
            raise _Refused("policy", f"l={covered} leaves {length - covered} bytes of the body unsigned")
        if (space := len(self.raw) - self.start - length) > _MAX_SPACE_BYTES:
            raise _Refused("policy", f"{space} bytes of white space in the body are unsigned")


class _Header(NamedTuple):
    """A message's fields in the form that dkimpy expects, and the number of occurrences of each field that is read."""

    fields: list[tuple[bytes, bytes]]
    read: Counter[str]
    body: _Body

    def check(self, include: list[bytes], least: int) -> None:
        """Raise ``_Refused`` if a field in ``read`` occurs more than ``least`` times and more often than signed."""
        signed = Counter(include)
        left = [
            f"{min(signed[name.encode()], times)} of {times} {name}"
            for name, times in self.read.items()
            if name not in _OPTIONAL and times > max(signed[name.encode()], least)
        ]
        if left:
            raise _Refused("policy", f"h= covers only {', '.join(left)}")

    def unsigned(self, include: list[bytes]) -> tuple[str, ...]:
        """Return the optional fields that occur more often than the signature covers."""
        signed = Counter(include)
        return tuple([name for name in _OPTIONAL if self.read[name] > signed[name.encode()]])


class _Verifier:
    """Passes dkimpy the fields as split by our parser, and removes ``bh`` so that dkimpy does not hash the body.

    A mixin that overrides methods of dkimpy's verifiers.
    """

    least_signed = 0
    refused: _Refused | None = None
    form: Form | None = None
    unsigned: tuple[str, ...] = ()

    def __init__(self, header: _Header, received_at_seconds: float) -> None:
        super().__init__(logger=_quiet)  # type: ignore[call-arg]
        self.headers = header.fields
        self.checked_header = header
        self.received_at_seconds = received_at_seconds

    def verify_sig(
        self, sig: dict[bytes, bytes], include: list[bytes], field: tuple[bytes, bytes], query: _QueryKey
    ) -> bool:
        """Check the conditions that always invalidate a signature, the body hash, and then the signature itself."""
        if not sig[b"a"].startswith(b"rsa-sha256") and sig[b"a"] != b"ed25519-sha256":
            raise _Refused("policy", f"{sig[b'a'].decode(errors='replace')} is no longer accepted (RFC 8301)")
        if len(include) > _MAX_SIGNED_FIELDS:
            raise _Refused("permerror", f"h= lists more than {_MAX_SIGNED_FIELDS} fields")
        _check_times(sig, self.received_at_seconds)
        if b"bh" in sig:
            if b"from" not in include:
                raise _Refused("permerror", "h= does not list the From field")
            self._check_coverage(sig, include)
            self.form, self.unsigned = _form(sig), self.checked_header.unsigned(include)
        place = {tag: sig[tag] if tag == b"s" and sig[tag].isascii() else _ascii(sig[tag], tag) for tag in (b"d", b"s")}
        without = {name: value for name, value in sig.items() if name != b"bh"}
        is_good: bool = super().verify_sig(without | place, include, field, partial(query, sig=sig))  # type: ignore[misc]
        return is_good

    def _check_coverage(self, sig: dict[bytes, bytes], include: list[bytes]) -> None:
        try:
            self.checked_header.body.check(sig)
            self.checked_header.check(include, self.least_signed)
        except _Refused as refused:
            if refused.args[0] != "policy":
                raise
            self.refused = refused  # reported only if the signature is otherwise valid


class _Dkim(_Verifier, dkim.DKIM):  # type: ignore[misc]
    """Verifies signatures."""


class _Arc(_Verifier, dkim.ARC):  # type: ignore[misc]
    """Verifies an ARC chain."""

    least_signed = 1  # a forwarder signs fewer fields and does not authenticate the author


def _form(sig: dict[bytes, bytes]) -> Form:
    """Return the canonical form that the tag c= specifies. Raises dkimpy's exceptions."""
    policy = CanonicalizationPolicy.from_c_value(sig.get(b"c", b"simple/simple"))
    return Form(*[one.name == b"relaxed" for one in (policy.header_algorithm, policy.body_algorithm)])


def _check_times(sig: dict[bytes, bytes], received_at_seconds: float) -> None:
    """Compare t= and x= with the time of receipt (RFC 6376 §3.5), because the check may run much later."""
    if b"x" in sig and int(sig[b"x"]) < received_at_seconds - _SLOP_SECONDS:
        raise _Refused("fail", _EXPIRED)
    if b"t" in sig and int(sig[b"t"]) > received_at_seconds + _SLOP_SECONDS:
        raise _Refused("permerror", "the signature is dated in the future (t=)")


def _ascii(name: bytes, tag: bytes) -> bytes:
    """Return a name with A-labels for the query, because dnspython might map the original to a different name."""
    try:
        return hostnames.to_ascii(name.decode()).encode()
    except ValueError as error:
        raise _Refused("permerror", f"{tag.decode()}= is not a host name") from error


def _key(
    lookup: Lookup, notes: list[str], name: bytes, timeout: float = 0, sig: Mapping[bytes, bytes] = _NO_TAGS
) -> bytes:
    """Return a key record in the form that dkimpy expects.

    Raises ``_Refused``, ``Unresolved`` and dkimpy's exceptions.
    """
    del timeout  # the whole check has a deadline
    texts = lookup.query(name.decode(), "TXT").texts
    record = next((text for text in texts if b"p=" in text), b"")
    if len(record) > _MAX_KEY_BYTES:
        raise _Refused("permerror", f"the key record is too long ({len(record)} bytes)")
    if not record:
        raise _Refused("permerror", f"no key at {printable(name.decode())}")
    tags = parse_tag_value(record)
    if not tags.get(b"p"):
        raise _Refused("permerror", "the key was revoked (p= is empty)")
    if b"y" in _check_use(tags, sig):
        notes.append("the key is in test mode (t=y)")
    record = b"; ".join([tag + b"=" + tags[tag] for tag in (b"v", b"k", b"p") if tag in tags])
    _check_key(name, record, sig)
    return record


def _check_use(tags: dict[bytes, bytes], sig: Mapping[bytes, bytes]) -> list[bytes]:
    """Return the flags of a key. Raises ``_Refused`` if the key is not for this signature (RFC 6376 §3.6.1)."""
    services, hashes, flags = (
        [word.strip() for word in tags.get(tag, default).split(b":")]
        for tag, default in ((b"s", b"*"), (b"h", b"sha256"), (b"t", b""))
    )
    if b"*" not in services and b"email" not in services:
        raise _Refused("permerror", "the key is not for mail (s= in its record)")
    if b"sha256" not in hashes:
        raise _Refused("permerror", "the key is not for SHA-256 (h= in its record)")
    _, is_identity, domain = sig.get(b"i", b"").rpartition(b"@")  # for ARC, i= is a number
    if b"s" in flags and is_identity and domain.lower() != sig[b"d"].lower():
        raise _Refused("permerror", "the key is not for subdomains (t=s in its record, and i=)")
    return flags


def _check_key(name: bytes, record: bytes, sig: Mapping[bytes, bytes]) -> None:
    try:
        key, bits, kind, _ = dkim.evaluate_pk(name, record)
    except dkim.KeyFormatError as error:  # dkimpy would report an invalid signature
        raise _Refused("permerror", f"the key cannot be parsed: {error}") from error
    if not sig.get(b"a", b"").startswith(kind + b"-"):
        raise _Refused("permerror", f"a= does not match the {kind.decode()} key in the record")
    if kind == b"rsa" and (bits > _MAX_KEY_BITS or key["publicExponent"] > _MAX_EXPONENT):
        raise _Refused("permerror", f"the key is too large ({bits} bits)")


def _header(raw: bytes) -> _Header:
    """Return the header as shown to the reader. Raises ``_Refused`` if other programs might read it differently."""
    found, start = headers.of_mail(raw)
    block = raw[:start]
    if start > _MAX_HEADER_BYTES or block.count(b"\n") > _MAX_FIELDS:
        raise _Refused("permerror", "the header is too large to be checked")
    if found.has_other_lines:
        raise _Refused("permerror", "the header has a line that is not a field")
    fields = [(name.encode(), f"{value}\n".encode("ascii", "surrogateescape")) for name, value in found.fields]
    if not block.count(b"\r") == block.count(b"\n") == block.count(b"\r\n"):
        raise _Refused("permerror", "a line of the header does not end with CRLF")
    whole = b"".join([name + b":" + value for name, value in fields])
    if block not in (whole, whole + b"\r\n"):
        raise _Refused("permerror", "a header field has white space before its colon")
    warnings = dict[str, None]()
    multipart.leaves(raw, headers.shown(found, {}), start, warnings)
    if headers.HEADER_CUT in warnings:
        raise _Refused("permerror", "the header of a part is too large to be checked")
    read = Counter([name.lower() for name, _ in found.fields if headers.is_read(name)])
    return _Header(fields, read, _Body(raw, start))


def _signature(verifier: _Dkim, number: int, field: bytes, lookup: Lookup) -> Signature:
    notes: list[str] = []
    verifier.refused = verifier.form = None
    verifier.unsigned = ()
    domain = selector = ""
    try:
        if _is_too_long(field):
            raise _Refused("permerror", "the signature is too long")  # noqa: TRY301
        tags = parse_tag_value(field)
        domain, selector = (printable(tags.get(tag, b"").decode("utf-8", "replace"), 255) for tag in (b"d", b"s"))
        is_good = verifier.verify(number, partial(_key, lookup, notes))
        if is_good and verifier.refused:
            raise verifier.refused  # noqa: TRY301
    except Exception as error:  # noqa: BLE001 - dkimpy may raise any exception for hostile keys and fields
        result, reason = _outcome(error)
    else:
        result, reason = ("pass", "") if is_good else ("fail", "the signature does not match this header and key")
    is_good = result == "pass"
    unsigned = verifier.unsigned if is_good else ()
    verdict = DkimVerdict(result, domain, selector, "; ".join(filter(None, [reason, *notes])), unsigned)
    return Signature(verdict, verifier.form if is_good else None)


def _chain(verifier: _Arc, lookup: Lookup) -> ArcVerdict:
    try:
        fields = [value for name, value in verifier.headers if name.lower().startswith(b"arc-")]
        if not fields:
            return ArcVerdict("none")
        if len(fields) > 3 * _MAX_SIGNATURES or any(map(_is_too_long, fields)):
            return ArcVerdict("fail", "the chain is too long")
        result, _, reason = verifier.verify(partial(_key, lookup, []))
        if result == dkim.CV_Pass and verifier.refused:
            raise verifier.refused  # noqa: TRY301
    except Exception as error:  # noqa: BLE001 - as above
        return ArcVerdict("temperror" if isinstance(error, Unresolved) else "fail", _outcome(error)[1])
    return ArcVerdict((result or b"fail").decode(), "" if result == dkim.CV_Pass else printable(str(reason)))


def _is_too_long(field: bytes) -> bool:
    return len(field) > _MAX_FIELD_BYTES or _LONG_SPACE.search(field) is not None


def _outcome(error: Exception) -> tuple[str, str]:
    """Return the result and the reason for a signature that could not be verified."""
    match error:
        case _Refused():
            result, reason = error.args
        case Unresolved():
            result, reason = "temperror", str(error)
        case dkim.ValidationError() if str(error).startswith("x= value is past"):
            result, reason = "fail", _EXPIRED
        case dkim.DKIMException() | InvalidTagValueList():
            result, reason = "permerror", _LITERAL.sub(r"\1", str(error))
        case _:
            result, reason = "permerror", f"the signature cannot be parsed ({type(error).__name__})"
    return result, printable(reason)
