"""The page that a person reads of a problem: what is wrong, and the way to the inbox. Programs get ``problems.py``."""

from starlette.requests import Request
from starlette.responses import Response

from tmpmaild.http.markup import Html, html, tag
from tmpmaild.http.negotiation import accepts_html

_POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_NO_PLACE = (
    "Perhaps a part of the link is missing. The view of a message works for a minute only: open the message again in "
    "the inbox."
)


def is_wanted(request: Request) -> bool:
    """Return whether a browser asks for something to show in a tab, outside of the API.

    Without Fetch Metadata (plain HTTP) a view counts as framed: it mostly is, and the frame shows no page of ours.
    """
    path = request.scope["path"]
    if path.startswith("/api/") or request.method not in ("GET", "HEAD"):
        return False
    usual = "iframe" if path.startswith("/view/") else "document"
    shown_in = request.headers.get("sec-fetch-dest", usual)
    return shown_in == "document" and accepts_html(request.headers.getlist("accept"))


def vary(request: Request) -> dict[str, str]:
    """Return the field that tells caches what ``is_wanted`` decides by."""
    return {} if request.scope["path"].startswith("/api/") else {"Vary": "Accept, Sec-Fetch-Dest"}


def page(root: str, code: str, status: int, title: str, detail: str) -> str:
    """Return the page about the problem ``code``. ``root`` is where the inbox is, without a slash at the end."""
    heading = f"{status} {title}"
    parts = [tag("p", detail), *([tag("p", _NO_PLACE)] if code == "not-found" else [])]
    about = tag("p", "Code: ", tag("code", code), class_="facts")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{tag('title', heading)}\n"
        f'<link rel="stylesheet" href="{html(root)}/docs.css">\n</head>\n<body>\n'
        f"{tag('main', _content(heading, parts, root), about, id='content')}\n</body>\n</html>\n"
    )


def response(text: str, status: int, headers: dict[str, str] | None = None) -> Response:
    """Return the answer that carries a page."""
    return Response(text, status, {"Content-Security-Policy": _POLICY, **(headers or {})}, media_type="text/html")


def _content(heading: str, parts: list[Html], root: str) -> Html:
    way = tag("p", tag("a", "Open the inbox", href=f"{root}/"))
    return tag("div", tag("h1", heading), tag("div", *parts, way, class_="prose"), class_="intro")
