"""JSON Schemas put into words for people, and examples made of them; ``docspage.py`` shows both."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tmpmaild.http.markup import Html, html, tag

Schema = Mapping[str, Any]

_EMPTY = {"object": {}, "array": [], "integer": 0, "number": 0, "boolean": False, "string": ""}


def type_text(schema: Schema) -> Html:
    """Return the type as text, such as ``string, date-time | null``; a type with a name is a link to its section."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return tag("a", name, href=f"#type-{name}")
    if "anyOf" in schema:
        return Html(" | ").join([type_text(one) for one in schema["anyOf"]])
    if "prefixItems" in schema:
        return Html(f"[{', '.join(type_text(one) for one in schema['prefixItems'])}]")
    if schema.get("type") == "array":
        return Html(f"array of {type_text(schema['items'])}")
    parts = [schema.get("type", "string"), schema.get("format")]
    return html(", ".join(part for part in parts if part))


def facts(schema: Schema) -> Html:
    """Return what a schema says besides its type: choices, default, bounds, pattern, an example."""
    return Html(" · ").join(list(_facts(schema)))


def _facts(schema: Schema) -> Iterator[Html]:
    if "enum" in schema:
        yield Html("one of " + ", ".join(_code(value) for value in schema["enum"]))
    if "default" in schema:
        yield Html(f"default {_code(schema['default'])}")
    for low, high, unit in (("minimum", "maximum", ""), ("minLength", "maxLength", " characters")):
        if low in schema or high in schema:
            yield html(_bounds(schema.get(low), schema.get(high)) + unit)
    if "pattern" in schema:
        yield Html(f"matches {_code(schema['pattern'])}")
    if "examples" in schema:
        yield Html(f"for example {_code(schema['examples'][0])}")
    for inner in schema.get("anyOf", ()):
        yield from _facts(inner)


def _bounds(low: float | None, high: float | None) -> str:
    if low == high:
        return str(low)
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"{low} to {high}"


def _code(value: object) -> Html:
    return tag("code", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def example(schema: Schema, types: Mapping[str, Schema]) -> Any:
    """Return a value that fits a schema, made of the examples in it. ``types`` are the schemas that it refers to."""
    if "$ref" in schema:
        return example(types[schema["$ref"].rpartition("/")[2]], types)
    for given in ([schema["default"]] if "default" in schema else [], schema.get("examples"), schema.get("enum")):
        if given:
            return given[0]
    if "anyOf" in schema:
        return example(schema["anyOf"][0], types)
    if "properties" in schema:
        return {name: example(one, types) for name, one in schema["properties"].items()}
    if schema.get("type") == "array":
        return [example(one, types) for one in schema.get("prefixItems") or [schema["items"]]]
    return schema.get("minimum", _EMPTY[schema.get("type", "string")])
