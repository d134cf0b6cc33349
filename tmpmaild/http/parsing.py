"""Reads request bodies and queries by their types, and names every mistake at once: which member, what was expected."""

from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import Any, TypeVar, get_type_hints

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace
from starlette.datastructures import QueryParams

from tmpmaild.checks import Kind, Mistake, Mistakes, check
from tmpmaild.errors import InvalidRequest
from tmpmaild.http.problems import BadRequest
from tmpmaild.http.resource import is_number

_MAX_PARAMETERS = 200  # of a query, counted before it is taken apart

T = TypeVar("T", bound=Struct)


class _Kind(Kind, frozen=True):
    """What a member takes; a list says how many, an object or a list of them what each of these is."""

    item: type[Struct] | None = None
    most: int = 0


def read_body(octets: bytes, content_type: str | None, struct: type[T], mistakes: Mistakes | None = None) -> T:
    """Read a JSON object; an empty body counts as an empty object. Raises ``BadRequest``, ``InvalidRequest``.

    With ``mistakes`` they are added to those, and what is right is returned, so that the caller can check it further.
    """
    if not octets:
        return _checked({}, struct, mistakes)
    if content_type is not None and content_type.partition(";")[0].strip().lower() != "application/json":
        raise BadRequest("unsupported-media-type", "")
    try:
        octets.decode()
        # Raw, since unknown members are ignored whatever they hold, a number of 5,000 digits for one.
        msgspec.json.decode(octets, type=msgspec.Raw)
        given = _members(octets, struct)
    except msgspec.ValidationError as error:
        raise InvalidRequest(("", "expected an object")) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadRequest("malformed-request", "The body is not JSON.") from error
    return _checked(given, struct, mistakes)


def _members(octets: bytes | msgspec.Raw, struct: type[Struct]) -> dict[str, Any]:
    """Decode the members of an object that are known. Raises ``msgspec.ValidationError`` if it is not an object."""
    members, kinds = msgspec.json.decode(octets, type=dict[str, msgspec.Raw]), _kinds(struct)
    return {name: _decoded(members[name], kinds[name]) for name in kinds if name in members}


def _decoded(raw: msgspec.Raw, kind: _Kind) -> Any:
    """Decode a member; for JSON that is not a value in Python, such as 1e999, return one that fits no kind."""
    try:
        if kind.item is not None and not kind.most:
            return None if bytes(raw).strip() == b"null" else _item(raw, kind.item)
        if kind.item is not None:
            items = msgspec.json.decode(raw, type=list[msgspec.Raw])
            return [_item(one, kind.item) for one in items[: kind.most + 1]]  # one too many is refused like thousands
        value = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return object()
    # To JSON Schema, which describes our bodies, a number without a fractional part is an integer: 100.0, 1e2.
    return int(value) if kind.base is int and isinstance(value, float) and value.is_integer() else value


def _item(raw: msgspec.Raw, struct: type[Struct]) -> Any:
    try:
        return _members(raw, struct)
    except msgspec.ValidationError:
        return object()


def read_query(octets: bytes, struct: type[T], mistakes: Mistakes | None = None, *, only_known: bool = False) -> T:
    """Read parameters; unknown ones are ignored, or with ``only_known`` a mistake; ``mistakes`` as for ``read_body``.

    Raises ``BadRequest``, ``InvalidRequest``.
    """
    if not octets:
        plain: T = _without_any(struct)
        return plain
    if octets.count(b"&") >= _MAX_PARAMETERS:
        raise BadRequest("malformed-request", f"The query has more than {_MAX_PARAMETERS} parameters.")
    parameters = QueryParams(octets)
    kinds = _kinds(struct)
    found = Mistakes() if mistakes is None else mistakes
    if only_known:
        found.errors += [(name, f"expected only {' and '.join(kinds)}") for name in sorted(parameters.keys() - kinds)]
    given: dict[str, Any] = {name: parameters[name] for name in kinds if name in parameters}
    for name, text in given.items():
        if kinds[name].most:
            given[name] = parameters.getlist(name)
        elif kinds[name].base is int and is_number(text):
            given[name] = int(text)
    read = _checked(given, struct, found, prefix="")
    if mistakes is None:
        found.end()
    return read


@lru_cache
def _without_any(struct: type[T]) -> T:
    """Return what most requests ask for."""
    return _checked({}, struct, prefix="")


def _checked(given: dict[str, Any], struct: type[T], mistakes: Mistakes | None = None, prefix: str = "/") -> T:
    right, wrong = check(given, _kinds(struct))
    if wrong:
        found = Mistakes() if mistakes is None else mistakes
        found.errors += _errors(wrong, struct, prefix)
        if mistakes is None or any(one.found is UNSET for one in wrong):
            found.end()
    return msgspec.convert({name: given[name] for name in right}, struct)


def _errors(mistakes: Iterable[Mistake], struct: type[Struct], prefix: str) -> Iterator[tuple[str, str]]:
    kinds = _kinds(struct)
    for mistake in mistakes:
        place, kind = f"{prefix}{mistake.place}", kinds[mistake.name]
        yield from list(_errors_of_items(mistake.found, kind, place)) or [(place, _worded(mistake))]


def _errors_of_items(found: object, kind: _Kind, place: str) -> Iterator[tuple[str, str]]:
    """Return what is wrong with an object, or with the items of a list if its length is not."""
    if kind.item is not None and not kind.most and isinstance(found, dict):
        yield from _errors(_mistakes(found, kind.item), kind.item, f"{place}/")
    if kind.item is None or not isinstance(found, list) or len(found) > kind.most:
        return
    for index, members in enumerate(found):
        if isinstance(members, dict):
            yield from _errors(_mistakes(members, kind.item), kind.item, f"{place}/{index}/")
        else:
            yield f"{place}/{index}", "expected an object"


def _mistakes(members: dict[str, Any], struct: type[Struct]) -> list[Mistake]:
    return check(members, _kinds(struct))[1]


def _worded(mistake: Mistake) -> str:
    return f"expected {mistake.expected}" + (", found nothing" if mistake.found is UNSET else "")


@lru_cache
def _kinds(struct: type[Struct]) -> dict[str, _Kind]:
    """Return what each field accepts, by its name in the API."""
    hints = get_type_hints(struct, include_extras=True)
    return {one.encode_name: _kind(hints[one.name], required=one.required) for one in msgspec.structs.fields(struct)}


def _kind(hint: Any, *, required: bool) -> _Kind:
    info = msgspec.inspect.type_info(hint)
    (described, *_) = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    assert isinstance(described, msgspec.inspect.Metadata)
    assert described.extra is not None
    base = int if isinstance(described.type, msgspec.inspect.IntType) else object
    kind = _Kind(described.extra["expected"], base, partial(msgspec.convert, type=hint), required=required)
    if isinstance(described.type, msgspec.inspect.UnionType):  # an object or null
        structs = [one.cls for one in described.type.types if isinstance(one, msgspec.inspect.StructType)]
        return replace(kind, item=structs[0])
    if not isinstance(described.type, msgspec.inspect.ListType):
        return kind
    of = described.type.item_type
    item = of.cls if isinstance(of, msgspec.inspect.StructType) else None
    return replace(kind, item=item, most=described.type.max_length or 0)
