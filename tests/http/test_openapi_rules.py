"""Check the description against the standard and the rules of a public linter.

The rules and their names are from Spectral's ruleset ``spectral:oas``: those about a whole OpenAPI 3 document.
"""

import json

import jsonschema
import openapi_spec_validator
import pytest

from tmpmaild.http.app import describe_api
from tmpmaild.http.schemas import Serializer
from tmpmaild.model import Attachment, Message

DOCUMENT = json.loads(describe_api())
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, item in (DOCUMENT["paths"] | DOCUMENT["webhooks"]).items()
    for method, operation in item.items()
}


def everything(value, where="#"):
    """Yield each object of the document and its position."""
    if isinstance(value, dict):
        yield where, value
        for name, inner in value.items():
            yield from everything(inner, f"{where}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from everything(inner, f"{where}/{number}")


NODES = dict(everything(DOCUMENT))
SCHEMAS = {where: node for where, node in NODES.items() if {"type", "$ref", "anyOf", "enum"} & node.keys()}


def operations_that(is_wrong):
    return [name for name, operation in OPERATIONS.items() if is_wrong(operation)]


def nodes_that(is_wrong):
    return [where for where, node in NODES.items() if is_wrong(node)]


def examples_that_do_not_fit():
    for where, schema in SCHEMAS.items():
        # The document is included so that references can be resolved.
        kind = jsonschema.Draft202012Validator
        fitting = kind(DOCUMENT | {"$ref": where}, format_checker=kind.FORMAT_CHECKER)
        given = [*schema.get("examples", []), *([schema["default"]] if "default" in schema else [])]
        yield from (f"{where}: {example}" for example in given if not fitting.is_valid(example))


def types_that_enumerated_values_do_not_have():
    for where, node in NODES.items():
        if isinstance(node.get("enum"), list):
            kind = {"string": str, "integer": int}.get(node.get("type", "string"))
            yield from (where for value in node["enum"] if not isinstance(value, kind))


def unused_components():
    used = {node["$ref"] for node in NODES.values() if "$ref" in node}
    used |= {
        f"#/components/securitySchemes/{name}" for one in OPERATIONS.values() for s in one["security"] for name in s
    }
    return [
        f"{kind}/{name}"
        for kind, components in DOCUMENT["components"].items()
        for name in components
        if f"#/components/{kind}/{name}" not in used
    ]


def unknown_security_schemes():
    known = DOCUMENT["components"]["securitySchemes"]
    return operations_that(lambda one: any(name not in known for scheme in one["security"] for name in scheme))


INFO, TAGS, SERVERS = DOCUMENT["info"], DOCUMENT["tags"], DOCUMENT["servers"]
TAG_NAMES = [tag["name"] for tag in TAGS]
RULES = {
    "array-items": lambda: nodes_that(lambda node: node.get("type") == "array" and not node.get("items")),
    "duplicated-entry-in-enum": lambda: nodes_that(
        lambda node: isinstance(node.get("enum"), list) and len(set(node["enum"])) < len(node["enum"])
    ),
    "oas3-operation-security-defined": unknown_security_schemes,
    "oas3-parameter-description": lambda: operations_that(
        lambda one: not all(parameter.get("description") for parameter in one.get("parameters", []))
    ),
    "oas3-unused-component": unused_components,
    "oas3-valid-schema-example": examples_that_do_not_fit,
    "operation-description": lambda: operations_that(lambda one: not one.get("description")),
    "operation-operationId": lambda: operations_that(lambda one: not one.get("operationId")),
    "operation-singular-tag": lambda: operations_that(lambda one: len(one["tags"]) != 1),
    "operation-success-response": lambda: operations_that(
        lambda one: not any(status[0] in "23" for status in one["responses"])
    ),
    "operation-tag-defined": lambda: operations_that(lambda one: not set(one["tags"]) <= set(TAG_NAMES)),
    "typed-enum": lambda: list(types_that_enumerated_values_do_not_have()),
}


def test_it_is_a_document_of_openapi_3_1_that_older_generators_read():
    openapi_spec_validator.validate(DOCUMENT)
    assert nodes_that(lambda node: any(node.get(name) in (True, False) for name in ("items", "schema"))) == []


@pytest.mark.parametrize("event", ["message.received", "verdict.reached", "inbox.expired"])
def test_webhook_documents_match_their_description(event):
    pdf = Attachment(0, "a.pdf", "application/pdf", 1, "0" * 64, inline=False, content_id=None)
    texts = (f"msg_{0:026}", 0, "ada@mail.example.com", "ann@example.org", "Ann", "hello", "text\n")
    message = Message(*texts, truncated=True, size_bytes=9, has_html=False, attachments=(pdf,))
    body = json.loads(Serializer("").webhook_body(event, 0, texts[2], None if event == "inbox.expired" else message))
    (described,) = DOCUMENT["webhooks"][event]["post"]["requestBody"]["content"].values()
    kind = jsonschema.Draft202012Validator
    fitting = kind(DOCUMENT | described["schema"], format_checker=kind.FORMAT_CHECKER)
    fitting.validate(body)
    assert not fitting.is_valid(body | {"type": "other"})
    assert not fitting.is_valid(body | {"data": {}})


@pytest.mark.parametrize("rule", RULES)
def test_the_description_follows_the_rule(rule):
    assert list(RULES[rule]()) == []


def test_every_response_with_a_body_states_its_type():
    untyped = [
        f"{name} {status} {media_type}"
        for name, operation in OPERATIONS.items()
        for status, answer in operation["responses"].items()
        for media_type, content in answer.get("content", {}).items()
        if not content["schema"].keys() & {"type", "$ref"}
    ]
    assert untyped == []
