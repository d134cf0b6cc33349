"""The page ``/docs``: the OpenAPI document as HTML for people, with a curl command for each operation.

It is made once at start and holds no script. What is in it comes from the document and the table of operations.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tmpmaild.http.apioperations import OPERATIONS, Operation
from tmpmaild.http.markup import Html, html, tag
from tmpmaild.http.problems import PROBLEMS
from tmpmaild.http.schematexts import example, facts, type_text

LOCAL_URL = "http://localhost:8025"
"""Where the examples send requests when no URL is known, as with a Unix socket: the default of ``http.listen``."""

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect width='16' height='16' rx='4' fill='%230b6e66'/%3E%3C/svg%3E"
)
_marks = re.compile(r"(`+)(.+?)\1|\*(\w[^*]*)\*")
_placeholders = re.compile(r"{(\w+)}")
_special_in_quotes = re.compile(r'([$`"\\])')

Node = Mapping[str, Any]


def page(document: bytes, base_url: str = "") -> bytes:
    """Return the page for an OpenAPI document of ours. The examples send requests to ``base_url``."""
    return _Page(msgspec.json.decode(document), base_url.rstrip("/") or LOCAL_URL).whole().encode()


class _Page:
    """The parts of the page; each method returns one of them."""

    def __init__(self, document: Node, base_url: str) -> None:
        self._document = document
        self._base_url = base_url
        self._types: Mapping[str, Node] = document["components"]["schemas"]

    def whole(self) -> str:
        title = f"{self._document['info']['title']} API"
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"{tag('title', title)}\n"
            f'<link rel="icon" href="{_ICON}">\n<link rel="stylesheet" href="docs.css">\n</head>\n<body>\n'
            '<a class="skip" href="#content">Skip to the description</a>\n'
            f"{self._contents()}\n"
            f"{tag('main', self._intro(title), *self._groups(), self._all_types(), self._headers(), id='content')}\n"
            "</body>\n</html>\n"
        )

    def _contents(self) -> Html:
        groups = [
            Html(tag("h2", name) + tag("ul", *[_entry(one) for one in OPERATIONS if one.tag == name]))
            for name in [one["name"] for one in self._document["tags"]]
        ]
        types = [tag("li", tag("a", name, href=f"#type-{name}")) for name in self._types]
        rest = [tag("h2", "Types"), tag("ul", *types), tag("h2", tag("a", "Header fields", href="#header-fields"))]
        return tag("nav", tag("a", "← Back to the inbox", href="./"), *groups, *rest, aria_label="Contents")

    def _intro(self, title: str) -> Html:
        info = self._document["info"]
        return tag(
            "header",
            tag("h1", title),
            _prose(info["description"]),
            tag(
                "p",
                tag("span", f"Version {info['version']}"),
                tag("span", "Base ", tag("code", self._base_url)),
                tag("a", f"OpenAPI {self._document['openapi']}", href="api/v1/openapi.json"),
                class_="facts",
            ),
            class_="intro",
        )

    def _groups(self) -> Iterable[Html]:
        for one in self._document["tags"]:
            header = tag("header", tag("h2", one["name"]), _prose(one["description"]))
            operations = [self._operation(operation) for operation in OPERATIONS if operation.tag == one["name"]]
            yield tag("section", header, *operations, class_="group")

    def _operation(self, operation: Operation) -> Html:
        described = self._document["paths"][operation.path][operation.method.lower()]
        told = tag(
            "div",
            tag("h3", tag("a", operation.summary, href=f"#{operation.id}")),
            tag("p", tag("span", operation.method, class_="method"), " ", tag("code", operation.path), class_="route"),
            _prose(described.get("description", "")),
            _authorization(operation),
            _section("Parameters", *[_parameter(one) for one in described.get("parameters", ())]),
            self._body(described.get("requestBody")),
            self._answer(described["responses"][str(operation.answer.status)], operation.answer.status),
            _problems(operation, described["responses"]),
            class_="told",
        )
        shown = tag("div", *self._commands(operation, described), *self._sample(operation, described), class_="shown")
        return tag("article", told, shown, class_="operation", id=operation.id)

    def _body(self, described: Node | None) -> Html:
        if described is None:
            return Html()
        title = "Request body" if described["required"] else "Request body, optional"
        ((media_type, content),) = described["content"].items()
        reference = content["schema"]
        return Html().join(
            [
                tag("h4", title),
                tag("p", tag("code", media_type), " ", type_text(reference), class_="soft"),
                _members(self._types[reference["$ref"].rpartition("/")[2]]),
            ]
        )

    def _answer(self, described: Node, status: int) -> Html:
        bodies = [
            tag("p", tag("code", media_type), " ", type_text(content["schema"]), class_="soft")
            for media_type, content in described.get("content", {}).items()
        ]
        return Html().join(
            [
                tag("h4", "Answer"),
                tag("p", tag("b", str(status)), " ", _inline(described["description"])),
                *(bodies or [tag("p", "No body", class_="soft")]),
                tag("p", "Header fields: ", _header_links(described["headers"]), class_="more"),
            ]
        )

    def _commands(self, operation: Operation, described: Node) -> Iterable[Html]:
        body = described.get("requestBody")
        if body is None or not body["required"]:
            yield _block("curl", self._curl(operation, described, None))
        if body is not None:
            value = example(body["content"]["application/json"]["schema"], self._types)
            yield _block("curl, with a body", self._curl(operation, described, json.dumps(value, ensure_ascii=False)))

    def _curl(self, operation: Operation, described: Node, body: str | None) -> str:
        """Return a command for a shell. The token is a variable: what is copied may end up in a ticket."""
        in_path = {one["name"]: one["schema"] for one in described.get("parameters", ()) if one["in"] == "path"}
        path = _placeholders.sub(lambda found: _path_example(found[1], in_path[found[1]]), operation.path)
        options = {"GET": ""}.get(operation.method, f" -X {operation.method}") + _output_option(operation)
        url = _special_in_quotes.sub(r"\\\1", self._base_url) + path
        lines = [f'curl{options} "{url}"']
        if operation.security == "required":
            lines.append('-H "Authorization: Bearer $TOKEN"')
        if body is not None:
            lines += ["-H 'Content-Type: application/json'", f"-d {_quoted(body)}"]
        return " \\\n  ".join(lines)

    def _sample(self, operation: Operation, described: Node) -> Iterable[Html]:
        if operation.answer.kind is not None:
            status = str(operation.answer.status)
            value = example(described["responses"][status]["content"]["application/json"]["schema"], self._types)
            yield _block(f"{status}, for example", json.dumps(value, indent=2, ensure_ascii=False))

    def _all_types(self) -> Html:
        types = [
            tag("section", tag("h3", name), _prose(one.get("description", "")), _members(one), id=f"type-{name}")
            for name, one in self._types.items()
        ]
        return tag("section", tag("header", tag("h2", "Types")), *types, class_="group types")

    def _headers(self) -> Html:
        listed = [
            tag("li", tag("code", name, class_="name"), _prose(one["description"]), id=f"header-{name}")
            for name, one in self._document["components"]["headers"].items()
        ]
        title = tag("header", tag("h2", "Header fields of answers", id="header-fields"))
        return tag("section", title, tag("ul", *listed, class_="fields"), class_="group")


def _entry(operation: Operation) -> Html:
    link = tag("a", tag("span", operation.method, class_="method"), " ", operation.summary, href=f"#{operation.id}")
    return tag("li", link)


def _authorization(operation: Operation) -> Html:
    needed = {"optional": " is needed for a private address.", "required": " is required."}.get(operation.security)
    return _paragraph("Authorization", tag("code", "Authorization: Bearer <token>"), needed) if needed else Html()


def _paragraph(title: str, *children: str) -> Html:
    return Html(tag("h4", title) + tag("p", *children))


def _section(title: str, *items: Html) -> Html:
    return Html(tag("h4", title) + tag("ul", *items, class_="fields")) if items else Html()


def _parameter(described: Node) -> Html:
    required = described["in"] == "path"
    return _field(described["name"], described["schema"], described["description"], required, f"{described['in']} · ")


def _members(schema: Node) -> Html:
    required = schema.get("required", ())
    fields = [
        _field(name, one, one.get("description", ""), name in required) for name, one in schema["properties"].items()
    ]
    return tag("ul", *fields, class_="fields")


def _field(name: str, schema: Node, description: str, required: bool, place: str = "") -> Html:  # noqa: FBT001
    more = facts(schema)
    return tag(
        "li",
        tag("code", name, class_="name"),
        " ",
        tag("span", place, type_text(schema), class_="type"),
        tag("span", " required", class_="need") if required else Html(),
        _prose(description),
        tag("p", more, class_="more") if more else Html(),
    )


def _problems(operation: Operation, responses: Node) -> Html:
    listed = []
    for code in sorted(operation.problems, key=lambda code: PROBLEMS[code].status):
        status = str(PROBLEMS[code].status)
        link = tag("a", tag("code", code), href=f"problems/{code}")
        extra = [name for name in responses[status]["headers"] if not name.startswith("RateLimit")]
        fields = tag("p", "Header fields: ", _header_links(extra), class_="more") if extra else Html()
        listed.append(tag("li", tag("b", status), " ", link, " ", _inline(PROBLEMS[code].explanation), fields))
    body = tag("p", tag("code", "application/problem+json"), " ", _type_link("Document"), class_="soft")
    return tag("details", tag("summary", "Errors"), body, tag("ul", *listed, class_="fields"), class_="response")


def _type_link(name: str) -> Html:
    return tag("a", name, href=f"#type-{name}")


def _header_links(names: Iterable[str]) -> Html:
    return Html(", ").join([tag("a", tag("code", name), href=f"#header-{name}") for name in names])


def _block(title: str, text: str) -> Html:
    return tag("section", tag("header", title), tag("pre", tag("code", text), tabindex="0"), class_="block")


def _path_example(name: str, schema: Node) -> str:
    """Return an example for a part of a path; without one, a variable of the shell."""
    if "examples" in schema:
        return str(schema["examples"][0])
    return str(schema["minimum"]) if "minimum" in schema else f"${name.upper()}"


def _output_option(operation: Operation) -> str:
    media_type = operation.answer.media_types[0]
    if media_type == "text/event-stream":
        return " -N"
    return "" if media_type.startswith(("application/json", "text/")) else " -OJ"


def _quoted(text: str) -> str:
    quote = r"'\''"
    return f"'{text.replace(chr(39), quote)}'"


def _prose(text: str) -> Html:
    """Return paragraphs of a little Markdown: code and emphasis."""
    if not text:
        return Html()
    return tag("div", *[tag("p", _inline(part)) for part in text.strip().split("\n\n")], class_="prose")


def _inline(text: str) -> Html:
    parts, end = [], 0
    for found in _marks.finditer(text):
        parts += [html(text[end : found.start()]), tag("code", found[2]) if found[2] else tag("em", found[3])]
        end = found.end()
    return Html().join([*parts, html(text[end:])])
