"""HTML pages for problems and for ``/docs`` (generated from the OpenAPI document), and content negotiation.

The pages contain no scripts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

Node = Mapping[str, Any]

PAGE_HEADERS = {
    # A page that opened our page, or was opened by it, can neither navigate our page nor count its frames. A link
    # between pages with different values would make the browser start a new process.
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), clipboard-read=(), display-capture=(), geolocation=(), microphone=(), payment=()",
}
"""The headers of every HTML page, except views of messages."""

LOCAL_URL = "http://localhost:8025"
"""The URL in the examples if no URL is known, such as with a Unix socket. It is the default of ``http.listen``."""

_POLICY = (
    "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_NO_PLACE = (
    "Part of the link may be missing. The view of a message is valid for only a minute: open the message again "
    "in the inbox."
)
_CALLS = {
    "Create an address; the response contains the address and its token": 'curl -X POST "{}/api/v1/addresses"',
    "Wait for a message; the response lists codes and links": 'curl "{}/api/v1/addresses/$ADDRESS/messages?wait=30"',
    "Delete the address and its mail": (
        'curl -X DELETE "{}/api/v1/addresses/$ADDRESS" -H "Authorization: Bearer $TOKEN"'
    ),
}
_TOKEN = {0: "", 1: "It requires the token.", 2: "It requires the token if the address is private."}
_special_in_quotes = re.compile(r'([$`"\\])')
_MAX_ITEMS = 64  # maximum number of items per field; browsers send about twelve
_weighted = re.compile(r"([a-z0-9*_/.+-]{1,64})(?:[ \t]*;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?").fullmatch
_entity_tags = re.compile(r'"[^"]*"').findall


def prefers_gzip(accept_encoding: Sequence[str]) -> bool:
    """Return whether these fields (RFC 9110 §12.5.3) accept gzip and rank it at least as high as no compression."""
    weights = _weights(accept_encoding)
    gzip_weight = weights.get("gzip", weights.get("x-gzip", weights.get("*", 0)))
    return gzip_weight > 0 and gzip_weight >= weights.get("identity", 0)


def best_language(accept_language: Sequence[str], offered: Sequence[str], default: str) -> str:
    """Return the language of ``offered`` (tags in lower case) that these fields (RFC 9110 §12.5.4) prefer.

    Tags are matched by lookup (RFC 4647 §3.4): ``de-at`` finds ``de``, but ``de`` does not find ``de-at``. If no tag
    matches, the result is ``default``, or the first offered language that is not refused.
    """
    weights = _weights(accept_language)
    for wanted in sorted(weights, key=weights.__getitem__, reverse=True):
        for tag in _shortened(wanted) if weights[wanted] else ():
            if tag in offered and weights.get(tag, 1):
                return tag
    return next((tag for tag in (default, *offered) if weights.get(tag, 1)), default)


def accepts_html(accept: Sequence[str]) -> bool:
    """Return whether these fields (RFC 9110 §12.5.1) list HTML, as browsers do, and do not prefer JSON."""
    weights = _weights(accept)
    json = max(weights.get("application/json", 0), weights.get("application/problem+json", 0))
    return weights.get("text/html", 0) > 0 and weights["text/html"] >= json


def is_not_modified(headers: Headers, entity_tag: str) -> bool:
    """Return whether If-None-Match matches the entity tag, by weak comparison (RFC 9110 §13.1.2)."""
    stated = ",".join(headers.getlist("if-none-match"))
    return stated.strip() == "*" or entity_tag in _entity_tags(stated)


def _weights(fields: Sequence[str]) -> dict[str, float]:
    """Return the weight of each item; malformed items are ignored."""
    items = ",".join(fields).lower().split(",", _MAX_ITEMS)[:_MAX_ITEMS]
    read = [_weighted(item.strip()) for item in items]
    return {item[1]: float(item[2] or 1) for item in read if item}


def _shortened(tag: str) -> Iterator[str]:
    while tag:
        yield tag
        tag = tag.rpartition("-")[0]


class Html(str):
    """Text that is already HTML; any other ``str`` is escaped when it is added to a page."""

    __slots__ = ()


def tag(name: str, *children: str, **attributes: str) -> Html:
    """Return an HTML element. A trailing underscore is removed from attribute names, as in ``class_``."""
    given = "".join(f' {key.rstrip("_")}="{escape(value)}"' for key, value in attributes.items())
    inside = "".join(child if isinstance(child, Html) else escape(child) for child in children)
    return Html(f"<{name}{given}>{inside}</{name}>")


def _page(title: str, root: str, *content: Html) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'{tag("title", title)}\n<link rel="icon" href="data:,">\n'
        f'<link rel="stylesheet" href="{escape(root)}docs.css">\n</head>\n<body>\n'
        f"{tag('main', tag('h1', title), *content)}\n</body>\n</html>\n"
    )


def is_problem_wanted(request: Request) -> bool:
    """Return whether an error should be shown as a page because a browser tab requested a path outside the API.

    Without Fetch Metadata (over plain HTTP), a view is assumed to be in a frame, as it usually is; our pages are not
    shown in frames.
    """
    path = request.scope["path"]
    if path.startswith("/api/") or request.method not in ("GET", "HEAD"):
        return False
    usual = "iframe" if path.startswith("/view/") else "document"
    shown_in = request.headers.get("sec-fetch-dest", usual)
    return shown_in == "document" and accepts_html(request.headers.getlist("accept"))


def vary(request: Request) -> dict[str, str]:
    """Return the Vary field that lists the request fields which ``is_problem_wanted`` uses."""
    return {} if request.scope["path"].startswith("/api/") else {"Vary": "Accept, Sec-Fetch-Dest"}


def problem(root: str, code: str, status: int, title: str, detail: str) -> str:
    """Return the page about the problem ``code``. ``root`` is the URL of the inbox without a trailing slash."""
    parts = [tag("p", detail), *([tag("p", _NO_PLACE)] if code == "not-found" else [])]
    way = tag("p", tag("a", "Open the inbox", href=f"{root}/"))
    return _page(f"{status} {title}", f"{root}/", *parts, way, tag("p", "Code: ", tag("code", code)))


def response(text: str, status: int, headers: dict[str, str] | None = None) -> Response:
    """Return a response with the page about a problem."""
    fields = {**PAGE_HEADERS, "Content-Security-Policy": _POLICY, **(headers or {})}
    return Response(text, status, fields, media_type="text/html")


def docs(document: bytes, base_url: str = "") -> bytes:
    """Return the ``/docs`` page, with three example requests to ``base_url`` and an OpenAPI document's operations."""
    described = msgspec.json.decode(document)
    info = described["info"]
    base = _special_in_quotes.sub(r"\\\1", base_url.rstrip("/") or LOCAL_URL)
    calls = [
        tag("li", title, tag("pre", tag("code", call.format(base)), tabindex="0")) for title, call in _CALLS.items()
    ]
    links = tag("p", tag("a", "Inbox", href="./"), " ", tag("a", "OpenAPI", href="api/v1/openapi.json"))
    version = tag("p", f"Version {info['version']}")
    start = [links, version, *_prose(info["description"]), tag("h2", "The first three calls"), tag("ol", *calls)]
    return _page(f"{info['title']} API", "", *start, *_operations(described)).encode()


def _operations(described: Node) -> Iterator[Html]:
    types = described["components"]["schemas"]
    for group in described["tags"]:
        yield from (tag("h2", group["name"]), *_prose(group["description"]))
        for path, methods in described["paths"].items():
            yield from (
                _operation(f"{method.upper()} {path}", one, types)
                for method, one in methods.items()
                if one["tags"] == [group["name"]]
            )


def _operation(route: str, described: Node, types: Mapping[str, Node]) -> Html:
    """Describe the parameters, the response and the errors of an operation, but not the type of the response."""
    (status, response), *problems = described["responses"].items()
    body = described.get("requestBody", {"content": {}})["content"].get("application/json", {"schema": {}})["schema"]
    members = types[body["$ref"].rpartition("/")[2]]["properties"] if body else {}
    taken = [_item(one["name"], one["description"]) for one in described.get("parameters", ())]
    taken += [_item(name, f"In the JSON body. {one.get('description', '')}") for name, one in members.items()]
    errors = [tag("p", f"{code} ", *_marked(one["description"])) for code, one in problems]
    return tag(
        "article",
        tag("h3", described["summary"]),
        tag("p", tag("code", route)),
        *_prose(described.get("description", "")),
        *_prose(_TOKEN[len(described["security"])]),
        *([tag("ul", *taken)] if taken else []),
        tag("p", f"Response {status}: {response['description']}"),
        tag("details", tag("summary", "Errors"), *errors),
        id=described["operationId"],
    )


def _item(name: str, description: str) -> Html:
    return tag("li", tag("code", name), " ", *_marked(description))


def _prose(text: str) -> list[Html]:
    return [tag("p", *_marked(part)) for part in text.split("\n\n") if part]


def _marked(text: str) -> Iterable[str]:
    """Split a text at its backticks; the parts between two backticks become code elements."""
    return [tag("code", part) if index % 2 else part for index, part in enumerate(text.split("`"))]
