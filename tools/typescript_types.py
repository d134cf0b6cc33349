"""Generates ``clients/typescript/src/openapi.ts``, the TypeScript types of the API, from our OpenAPI document.

``stable.py`` runs it. It supports the parts of JSON Schema that our document uses, and raises KeyError for all other
parts.
"""

import json
import re
from pathlib import Path
from typing import Any

from tmpmaild.http.app import describe_api

TARGET = Path(__file__).resolve().parents[1] / "clients/typescript/src/openapi.ts"

HEADER = """\
// Request and response types. Generated from the OpenAPI document by tools/typescript_types.py: use tools/stable.py.
"""

_SIMPLE = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_codes = re.compile(r"`([a-z-]+)`: ").findall


def source(document: dict[str, Any]) -> str:
    """Return the module for an OpenAPI document: an interface for each schema, and the problem codes."""
    schemas = document["components"]["schemas"]
    blocks = [HEADER, *(_interface(name, schemas[name]) for name in sorted(schemas)), _problem_codes(document["paths"])]
    return "\n".join(blocks)


def _interface(name: str, schema: dict[str, Any]) -> str:
    required = schema["required"]
    lines = [_comment(schema, ""), f"export interface {name} {{\n"]
    for member, kind in schema["properties"].items():
        lines += [_comment(kind, "  "), f"  {member}{'' if member in required else '?'}: {type_text(kind)};\n"]
    return "".join([*lines, "}\n"])


def _comment(schema: dict[str, Any], indent: str) -> str:
    text = schema.get("description", "").replace("``", "`").replace("*/", "")
    return f"{indent}/** {' '.join(text.split())} */\n" if text else ""


def type_text(schema: dict[str, Any]) -> str:
    """Return the TypeScript type for a schema."""
    if "enum" in schema or "anyOf" in schema:
        return " | ".join([*map(json.dumps, schema.get("enum", [])), *map(type_text, schema.get("anyOf", []))])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    match schema["type"]:
        case "array":
            return _array(schema)
        case "object":
            return f"Record<string, {type_text(schema['additionalProperties'])}>"
    return _SIMPLE[schema["type"]]


def _array(schema: dict[str, Any]) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(map(type_text, schema['prefixItems']))}]"
    inner = type_text(schema["items"])
    return f"({inner})[]" if "|" in inner else f"{inner}[]"


def _problem_codes(paths: dict[str, Any]) -> str:
    answers = [
        answer
        for path in paths.values()
        for one in path.values()
        if "responses" in one
        for answer in one["responses"].values()
    ]
    codes = sorted({code for answer in answers for code in _codes(answer.get("description", ""))})
    lines = "".join(f"\n  | {json.dumps(code)}" for code in codes)
    return f"/** The `code` of a problem document. */\nexport type ProblemCode ={lines};\n"


def write() -> None:
    """Write the module."""
    TARGET.write_text(source(json.loads(describe_api())), encoding="utf-8")
