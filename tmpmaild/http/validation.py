"""Validation: parses JSON bodies and queries into the types of ``inputs.py``, and reports all errors together."""

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import TypeVar, get_type_hints

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace
from starlette.datastructures import QueryParams
from starlette.requests import Request

from tmpmaild.errors import InvalidRequest
from tmpmaild.http.problems import BadRequest
from tmpmaild.http.requests import read_body
from tmpmaild.validation import InvalidValue, ValidationErrors, Validator, validate

T = TypeVar("T", bound=Struct)

_MAX_PARAMETERS = 200  # the maximum number of parameters, counted before the query is parsed
_BOOLEANS = {"true": True, "false": False}  # a parameter's values in a query
_BASES: dict[type, type] = {msgspec.inspect.IntType: int, msgspec.inspect.BoolType: bool}
_is_number = re.compile(r"[0-9]{1,9}").fullmatch


class _Validator(Validator, frozen=True):
    """The values that a member accepts. ``item`` is the type of an object, or of the objects in a list.

    ``most`` is the maximum number of items in a list, or 0 if the member is not a list.
    """

    item: type[Struct] | None = None
    most: int = 0


async def read_json(request: Request, struct: type[T], errors: ValidationErrors | None = None) -> T:
    """Read the body of a request as ``parse_json`` does."""
    return parse_json(await read_body(request), request.headers.get("content-type"), struct, errors)


def parse_json(body: bytes, content_type: str | None, struct: type[T], errors: ValidationErrors | None = None) -> T:
    """Parse a JSON object; an empty body counts as an empty object. Raises ``BadRequest``, ``InvalidRequest``.

    If ``errors`` is passed, errors are added to it and the valid members are returned, so that the caller can do
    further checks.
    """
    body = body.removeprefix(BOM_UTF8)  # RFC 8259 §8.1 allows parsers to ignore a byte order mark
    if not body:
        return _checked({}, struct, errors)
    if content_type is not None and content_type.partition(";")[0].strip().lower() != "application/json":
        raise BadRequest("unsupported-media-type")
    try:
        body.decode()
        # Raw, because unknown members are ignored regardless of their content, such as a number with 5,000 digits.
        msgspec.json.decode(body, type=msgspec.Raw)
        given = _members(body, struct)
    except msgspec.ValidationError as error:
        raise InvalidRequest(("", "expected an object")) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadRequest("malformed-request", "The body is not JSON.") from error
    return _checked(given, struct, errors)


def _members(json: bytes | msgspec.Raw, struct: type[Struct]) -> dict[str, object]:
    """Decode the known members of an object. Raises ``msgspec.ValidationError`` if it is not an object."""
    members, kinds = msgspec.json.decode(json, type=dict[str, msgspec.Raw]), _kinds(struct)
    return {name: _decoded(members[name], kinds[name]) for name in kinds if name in members}


def _decoded(raw: msgspec.Raw, kind: _Validator) -> object:
    """Decode a member; JSON without a Python equivalent, such as 1e999, becomes an object that no kind accepts."""
    try:
        if kind.item is not None and not kind.most:
            return None if bytes(raw).strip() == b"null" else _item(raw, kind.item)
        if kind.item is not None:
            items = msgspec.json.decode(raw, type=list[msgspec.Raw])
            return [_item(one, kind.item) for one in items[: kind.most + 1]]  # one excess item is enough for the error
        value = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return object()
    # In JSON Schema, which describes our bodies, a number without a fractional part is an integer: 100.0, 1e2.
    return int(value) if kind.base is int and isinstance(value, float) and value.is_integer() else value


def _item(raw: msgspec.Raw, struct: type[Struct]) -> object:
    try:
        return _members(raw, struct)
    except msgspec.ValidationError:
        return object()


def parse_query(query: bytes, struct: type[T], errors: ValidationErrors, *, only_known: bool = False) -> T:
    """Parse query parameters; errors are added to ``errors``. Raises ``BadRequest``.

    Unknown parameters are ignored, unless ``only_known`` makes them errors.
    """
    if not query:
        defaults: T = _defaults(struct)
        return defaults
    if query.count(b"&") >= _MAX_PARAMETERS:
        raise BadRequest("malformed-request", f"The query has more than {_MAX_PARAMETERS} parameters.")
    parameters = QueryParams(query)
    kinds = _kinds(struct)
    if only_known:
        *names, last = kinds
        wanted = f"{', '.join(names)} and {last}" if names else last
        errors.errors += [(name, f"expected only {wanted}") for name in sorted(parameters.keys() - kinds)]
    given: dict[str, object] = {name: parameters[name] for name in kinds if name in parameters}
    for name in given:
        text = parameters[name]
        if kinds[name].most:
            given[name] = parameters.getlist(name)
        elif kinds[name].base is int and _is_number(text):
            given[name] = int(text)
        elif kinds[name].base is bool:
            given[name] = _BOOLEANS.get(text, text)
    return _checked(given, struct, errors, prefix="")


@lru_cache
def _defaults(struct: type[T]) -> T:
    """Return the parameters of a request without a query."""
    return _checked({}, struct, prefix="")


def _checked(given: dict[str, object], struct: type[T], errors: ValidationErrors | None = None, prefix: str = "/") -> T:
    valid, invalid = validate(given, _kinds(struct))
    if invalid:
        found = ValidationErrors() if errors is None else errors
        found.errors += _errors(invalid, struct, prefix)
        if errors is None or any(one.found is UNSET for one in invalid):
            found.raise_if_any()
    return msgspec.convert({name: given[name] for name in valid}, struct)


def _errors(invalid: Iterable[InvalidValue], struct: type[Struct], prefix: str) -> Iterator[tuple[str, str]]:
    kinds = _kinds(struct)
    for one in invalid:
        place, kind = f"{prefix}{one.place}", kinds[one.name]
        text = f"expected {one.expected}" + (", found nothing" if one.found is UNSET else "")
        yield from list(_errors_of_items(one.found, kind, place)) or [(place, text)]


def _errors_of_items(found: object, kind: _Validator, place: str) -> Iterator[tuple[str, str]]:
    """Yield the errors in an object, or in the items of a list unless its length is wrong."""
    if kind.item is not None and not kind.most and isinstance(found, dict):
        yield from _errors(validate(found, _kinds(kind.item))[1], kind.item, f"{place}/")
    if kind.item is None or not isinstance(found, list) or len(found) > kind.most:
        return
    for index, members in enumerate(found):
        if isinstance(members, dict):
            yield from _errors(validate(members, _kinds(kind.item))[1], kind.item, f"{place}/{index}/")
        else:
            yield f"{place}/{index}", "expected an object"


@lru_cache
def _kinds(struct: type[Struct]) -> dict[str, _Validator]:
    """Return the validator of each field, by the field's name in the API."""
    hints = get_type_hints(struct, include_extras=True)
    return {one.encode_name: _kind(hints[one.name], required=one.required) for one in msgspec.structs.fields(struct)}


def _kind(hint: object, *, required: bool) -> _Validator:
    info = msgspec.inspect.type_info(hint)
    (described, *_) = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    assert isinstance(described, msgspec.inspect.Metadata)
    assert described.extra is not None
    base = _BASES.get(type(described.type), object)
    kind = _Validator(described.extra["expected"], base, partial(msgspec.convert, type=hint), required=required)
    if isinstance(described.type, msgspec.inspect.UnionType):  # an object or null
        structs = [one.cls for one in described.type.types if isinstance(one, msgspec.inspect.StructType)]
        return replace(kind, item=structs[0])
    if not isinstance(described.type, msgspec.inspect.ListType):
        return kind
    of = described.type.item_type
    item = of.cls if isinstance(of, msgspec.inspect.StructType) else None
    return replace(kind, item=item, most=described.type.max_length or 0)
