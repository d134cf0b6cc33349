"""What an answer means: a value, a problem of a known code, or an answer that is not from tmpmaild."""

import re
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from tmpmaild.client.actions import Reply
from tmpmaild.client.errors import PROBLEMS, ConnectionLost, FieldError, NotTmpmaild, Problem, TmpmaildError, printable
from tmpmaild.client.wire import ProblemDocument

T = TypeVar("T")

_PROXY_STATUSES = (502, 503, 504)
_next_page = re.compile(r'<([^<>]*)>; *rel="?next\b').search  # RFC 8288


def checked(reply: Reply) -> Reply:
    """Return a reply that is a success. Raises ``Problem``, ``NotTmpmaild``, ``ConnectionLost`` for a proxy's error."""
    if not 200 <= reply.status < 300:  # noqa: PLR2004 - the statuses of success
        raise _problem(reply) or _unexpected(reply)
    return reply


def decoded(reply: Reply, kind: type[T]) -> T:
    """Return what a successful reply says. Raises as ``checked``."""
    checked(reply)
    try:
        return msgspec.json.decode(reply.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unexpected(reply) from error


def not_tmpmaild(reply: Reply) -> NotTmpmaild:
    """Return the error for a reply that this API never gives."""
    service = reply.request.service_url
    what = f"{reply.status} {printable(reply.headers.get('content-type', 'without a type'))}"
    if "location" in reply.headers:
        return NotTmpmaild(f"{service} answered {what} and points to {printable(_place(reply))}; use that URL")
    return NotTmpmaild(f"{service} is not tmpmaild: it answered {what}; is the URL right?")


def next_page_query(reply: Reply) -> str | None:
    """Return the query of the next page, if there is one. Its path is left out: a proxy may serve us under another."""
    match = _next_page(reply.headers.get("link", ""))
    return match[1].partition("?")[2] if match else None


def _problem(reply: Reply) -> Problem | None:
    try:
        document = msgspec.json.decode(reply.body, type=ProblemDocument)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    retry_after = reply.headers.get("retry-after", "")
    return PROBLEMS.get(document.code, Problem)(
        reply.status,
        printable(document.code),
        document.detail,
        [FieldError(str(one.get("pointer", "")), str(one.get("detail", ""))) for one in document.errors],
        int(retry_after) if re.fullmatch("[0-9]{1,9}", retry_after) else None,
    )


def _unexpected(reply: Reply) -> TmpmaildError:
    if reply.status in _PROXY_STATUSES:
        return ConnectionLost(
            f"{reply.request.service_url}: {reply.status} from a proxy; is tmpmaild running behind it?"
        )
    return not_tmpmaild(reply)


def _place(reply: Reply) -> str:
    """Return where a redirect points, without the path of this one request."""
    target = urlsplit(reply.headers["location"])
    path = target.path.removesuffix(urlsplit(reply.request.path).path)
    return target._replace(path=path, query="", fragment="").geturl() or reply.headers["location"]
