"""How a request becomes the service's words: bodies and parameters, each described by the type that checks it."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from tmpmaild.errors import InvalidRequest
from tmpmaild.http.problems import BadRequest
from tmpmaild.http.resource import is_number
from tmpmaild.model import Page

T = TypeVar("T", bound=Struct)

EXAMPLE_DOMAIN = "tmpmaild.example"
"""Stands in the examples of all types here and in ``wire.py``; ``openapi.py`` puts a served one in its place."""

MessageId = Annotated[
    str,
    Meta(
        pattern=r"^msg_[0-7][0-9a-hjkmnp-tv-z]{25}$",
        min_length=30,  # a pattern's end may stand before a line end
        max_length=30,
        examples=["msg_01m7y0sgyf0000000000000000"],
        extra={"expected": "a message id"},
    ),
]


def _text(description: str, example: str) -> Meta:
    return Meta(description=description, examples=[example], extra={"expected": "a string"})


def _switch(description: str) -> Meta:
    return Meta(description=description, extra={"expected": "true or false"})


def _number(lowest: int, highest: int | None, description: str, example: int) -> Meta:
    expected = f"a number from {lowest} to {highest}" if highest is not None else f"a number of {lowest} or more"
    return Meta(ge=lowest, le=highest, description=description, examples=[example], extra={"expected": expected})


class CreateRequest(Struct, frozen=True):
    """What a client may ask of a new address; all of it may be left out."""

    local_part: (
        Annotated[
            str,
            _text(
                "3 to 64 of `a-z 0-9 . _ -`, a letter or digit at both ends, no two dots together; in any case.",
                "signup-test",
            ),
        ]
        | UnsetType
    ) = UNSET
    domain: Annotated[str, _text("One of the server's; default the first.", EXAMPLE_DOMAIN)] | UnsetType = UNSET
    private: Annotated[bool, _switch("Reading needs the token too.")] = False


class ExtendRequest(Struct, frozen=True):
    """When an address is to end."""

    expires_in_seconds: Annotated[int, _number(1, None, "Counted from now; shortening is allowed.", 1800)]


class ViewRequest(Struct, frozen=True):
    """How a message is to be looked at."""

    remote_images: Annotated[bool, _switch("Load images from elsewhere, which tells their owners.")] = False


class PageQuery(Struct, frozen=True):
    """Which messages of an inbox are asked for."""

    limit: Annotated[int, _number(1, 100, "How many messages at most.", 20)] = 100
    order: Annotated[
        Literal["asc", "desc"], Meta(description="Oldest or newest first.", extra={"expected": "asc or desc"})
    ] = "desc"
    after: Annotated[MessageId, Meta(description="Only what came after this message; it need not exist.")] | None = None
    before: Annotated[MessageId, Meta(description="Only what came before this message; it need not exist.")] | None = (
        None
    )
    sender: Annotated[str, _text("A part of the sender's address or name, in any case.", "no-reply@")] = field(
        name="from", default=""
    )
    subject: Annotated[str, _text("A part of the subject, in any case.", "confirm")] = ""
    q: Annotated[
        str, _text("A part of sender, subject or the first 64 Ki characters of the text, in any case.", "code")
    ] = ""
    wait: Annotated[int, _number(0, 50, "Seconds to wait for the first match; then the list is empty.", 30)] = 0


class StreamQuery(Struct, frozen=True):
    """Where a stream begins."""

    after: Annotated[MessageId, Meta(description="Where to go on; `Last-Event-ID` beats it.")] | None = None


def read_body(octets: bytes, content_type: str | None, kind: type[T]) -> T:
    """Read an object of JSON; none at all is an empty one. Raises ``BadRequest``, ``InvalidRequest``."""
    if not octets:
        return _checked({}, kind)
    if content_type is not None and content_type.partition(";")[0].strip().lower() != "application/json":
        raise BadRequest("unsupported-media-type", "")
    try:
        octets.decode()
        # Raw, since what is not known is not looked at: a number of 5,000 digits there is nobody's business.
        msgspec.json.decode(octets, type=msgspec.Raw)
        members = msgspec.json.decode(octets, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError as error:
        raise InvalidRequest(("", "expected an object")) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadRequest("malformed-request", "The body is no JSON.") from error
    fields = _fields(kind)
    return _checked({name: _decoded(raw, fields[name]) for name, raw in members.items() if name in fields}, kind)


def _decoded(raw: msgspec.Raw, one: "_Field") -> Any:
    """Decode a member; what is JSON but no value here, such as 1e999, is one that fits nothing."""
    try:
        value = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return object()
    # To JSON Schema, which describes our bodies, a number without a fractional part is an integer: 100.0, 1e2.
    return int(value) if one.is_number and isinstance(value, float) and value.is_integer() else value


def read_query(parameters: Mapping[str, str], kind: type[T]) -> T:
    """Read parameters; unknown ones are ignored. Raises ``InvalidRequest``."""
    given: dict[str, Any] = {name: parameters[name] for name in _fields(kind) if name in parameters}
    for name, text in given.items():
        if _fields(kind)[name].is_number and is_number(text):
            given[name] = int(text)
    return _checked(given, kind, prefix="")


def page(query: PageQuery) -> Page:
    """Turn the parameters of a list into the service's words."""
    return Page(
        after=query.after,
        before=query.before,
        ascending=query.order == "asc",
        limit=query.limit,
        sender=query.sender or None,
        subject=query.subject or None,
        text=query.q or None,
    )


def last_event_id(text: str | None) -> str | None:
    """Return the id where a stream is to be resumed; a malformed one counts as none."""
    try:
        return msgspec.convert(text, MessageId)
    except msgspec.ValidationError:
        return None


def _checked(given: dict[str, Any], kind: type[T], prefix: str = "/") -> T:
    """Check each member on its own, so that all mistakes are reported at once."""
    mistakes = []
    for name, one in _fields(kind).items():
        if name in given:
            if not _fits(given[name], one.hint):
                mistakes.append((f"{prefix}{name}", f"expected {one.expected}"))
        elif one.required:
            mistakes.append((f"{prefix}{name}", f"expected {one.expected}, found nothing"))
    if mistakes:
        raise InvalidRequest(*mistakes)
    return msgspec.convert(given, kind)


def _fits(value: Any, hint: Any) -> bool:
    try:
        msgspec.convert(value, hint)
    except msgspec.ValidationError:
        return False
    return True


class _Field(Struct, frozen=True):
    hint: Any
    expected: str
    is_number: bool
    required: bool


@lru_cache
def _fields(kind: type[Struct]) -> dict[str, _Field]:
    """Return what each field takes, by its name outside."""
    hints = get_type_hints(kind, include_extras=True)
    return {one.encode_name: _field(hints[one.name], one) for one in msgspec.structs.fields(kind)}


def _field(hint: Any, one: msgspec.structs.FieldInfo) -> _Field:
    info = msgspec.inspect.type_info(hint)
    (described, *_) = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    assert isinstance(described, msgspec.inspect.Metadata)
    assert described.extra is not None
    is_number = isinstance(described.type, msgspec.inspect.IntType)
    return _Field(hint, described.extra["expected"], is_number, one.required)
