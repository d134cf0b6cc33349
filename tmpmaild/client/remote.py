"""The requests to the service and for an inbox, as steps that a driver performs; this module does no I/O."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, TypeVar
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import msgspec
from msgspec import Struct

from tmpmaild.client import errors, models
from tmpmaild.client.transport import READ_SECONDS, OpenStream, Reply, Request, SendRequest, Sleep, Steps

T = TypeVar("T")

_PROXY_STATUSES = (502, 503, 504)
_next_page = re.compile(r'<([^<>]*)>; *rel="?next\b').search  # RFC 8288
MAX_PAGE = 100
_MAX_IDS = 100
_MAX_REPEATING_SECONDS = 60
_UNKNOWN = datetime.max.replace(tzinfo=UTC)
Feature = Literal["code", "link", "attachment", "verdict"]
_FEATURES: dict[str, str] = {"code": "a code", "link": "a link", "attachment": "an attachment", "verdict": "a verdict"}


class Filter(Struct, frozen=True):
    """Selects messages by parts of their subject, sender (address or name) or text, and by features and position.

    ``to`` matches a complete recipient in the list of all messages of a catcher. Messages must have all features in
    ``has``. Raises ValueError for invalid text (a lone surrogate) and for an unknown feature.
    """

    subject: str | None = None
    sender: str | None = None
    text: str | None = None
    after: str | None = None
    has: tuple[Feature, ...] = ()
    to: str | None = None

    def __post_init__(self) -> None:
        _ensure_text(subject=self.subject, sender=self.sender, text=self.text, after=self.after, to=self.to)
        if not _FEATURES.keys() >= set(self.has):
            raise ValueError(f"has may contain {', '.join(_FEATURES)}, not {', '.join(map(repr, self.has))}")

    @property
    def takes_any(self) -> bool:
        """Whether every message after ``after`` matches."""
        return not (self.subject or self.sender or self.text or self.has or self.to)

    def query(self) -> dict[str, str | tuple[str, ...]]:
        """Return the query parameters; a tuple stands for a repeated parameter."""
        given = {
            "subject": self.subject,
            "from": self.sender,
            "q": self.text,
            "has": self.has,
            "after": self.after,
            "to": self.to,
        }
        return {name: value for name, value in given.items() if value}

    def __str__(self) -> str:
        given = {"recipient": self.to, "subject": self.subject, "sender": self.sender, "text": self.text}
        parts = [f"{name} {errors.printable(value)!r}" for name, value in given.items() if value]
        return " and ".join(parts + [_FEATURES[one] for one in dict.fromkeys(self.has)])


class RemoteService:
    """The service at a URL. ``clock`` returns a monotonically increasing time in seconds.

    Requests raise ``ServiceUnreachable``, ``NotTmpmaild`` and ``Problem``. With ``wait_out_rate_limit``, a request that
    the rate limit refuses is retried for up to a minute.
    """

    def __init__(self, url: str, *, clock: Callable[[], float], wait_out_rate_limit: bool) -> None:
        self.url = url
        self.clock = clock
        self._repeating_seconds = _MAX_REPEATING_SECONDS if wait_out_rate_limit else 0

    def create(
        self,
        local_part: str | None = None,
        *,
        domain: str | None = None,
        private: bool = False,
        expires_in_seconds: int | None = None,
        faults: Sequence[models.Fault] = (),
        webhook: models.Webhook | None = None,
    ) -> Steps["RemoteInbox"]:
        """Create an address; the service chooses omitted values. Raises ValueError for invalid text."""
        _ensure_text(local_part=local_part, domain=domain)
        given = {
            "local_part": local_part,
            "domain": domain,
            "private": private or None,
            "expires_in_seconds": expires_in_seconds,
            "faults": faults or None,
            "webhook": webhook,
        }
        members = {name: value for name, value in given.items() if value is not None}
        created = decoded(
            (yield from self.send(self.request("POST", "addresses", body=members or None))), models.Address
        )
        return RemoteInbox(self, created, created.token)

    def find(self, address: str, token: str | None) -> Steps["RemoteInbox"]:
        """Find an existing address. Raises the errors of ``named``."""
        named = self.named(address, token)
        reply = yield from self.send(self.request("GET", _address(named.address), token=token))
        return RemoteInbox(self, decoded(reply, models.Address), token)

    def named(self, address: str, token: str | None) -> "RemoteInbox":
        """Return an address without sending a request; its expiry is unknown.

        Raises ValueError for a malformed token and for invalid text.
        """
        _ensure_text(address=address)
        if token is not None and not _looks_like_a_token(token):
            raise ValueError("a token consists of printable ASCII characters")
        return RemoteInbox(self, models.Address(address, _UNKNOWN), token)

    def all_mail(self) -> "RemoteAllMail":
        """Return the list of all messages of a catcher."""
        return RemoteAllMail(self, models.Address("this service", _UNKNOWN), None)

    def domains(self) -> Steps[list[str]]:
        """List the domains."""
        reply = yield from self.send(self.request("GET", "domains"))
        return list(decoded(reply, models.DomainList).domains)

    def refusals(self) -> Steps[list[models.Refusal]]:
        """List the recent refusals of the mail server."""
        reply = yield from self.send(self.request("GET", "refusals"))
        return list(decoded(reply, models.RefusalList).refusals)

    def request(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        read_seconds: float = READ_SECONDS,
    ) -> Request:
        """Return a request to a path of the API."""
        content = None if body is None else msgspec.json.encode(body)
        return Request(self.url, method, f"/api/v1/{path}", token, headers or {}, content, read_seconds)

    def send(self, request: Request) -> Steps[Reply]:
        """Send a request, and retry it if the rate limit refuses it; return the successful reply."""
        return (yield from self._repeated(SendRequest(request)))

    def open_stream(self, request: Request) -> Steps[Reply]:
        """Open a stream, retrying as ``send`` does."""
        return (yield from self._repeated(OpenStream(request)))

    def _repeated(self, action: SendRequest | OpenStream) -> Steps[Reply]:
        deadline = self.clock() + self._repeating_seconds
        while True:
            try:
                return checked((yield action))
            except errors.RateLimited as error:
                pause_seconds = error.retry_after_seconds or 1
                if self.clock() + pause_seconds > deadline:
                    raise
            yield Sleep(pause_seconds)


class RemoteInbox:
    """One inbox of a service, and its token if it is known."""

    def __init__(self, service: RemoteService, shown: models.Address, token: str | None) -> None:
        self.service = service
        self.address = shown.address
        self.created_at = shown.created_at
        self.expires_at = shown.expires_at
        self.token = token
        self.webhook_secret = shown.webhook.secret if shown.webhook else None

    def extend(self, seconds: int) -> Steps[datetime]:
        """Set the expiry to ``seconds`` from now; return the new expiry."""
        reply = yield from self._send("PATCH", body={"expires_in_seconds": seconds})
        self.expires_at = decoded(reply, models.Address).expires_at
        return self.expires_at

    def set_faults(self, faults: Sequence[models.Fault]) -> Steps[None]:
        """Replace the faults."""
        yield from self._send("PATCH", body={"faults": faults})

    def faults(self) -> Steps[list[models.Fault]]:
        """Return the pending faults."""
        return list(decoded((yield from self._send("GET")), models.Address).faults)

    def set_webhook(self, webhook: models.Webhook | None) -> Steps[models.Webhook | None]:
        """Replace or remove the webhook; return the new webhook with its secret."""
        set_now = decoded((yield from self._send("PATCH", body={"webhook": webhook})), models.Address).webhook
        self.webhook_secret = set_now.secret if set_now else None
        return set_now

    def webhook(self) -> Steps[models.Webhook | None]:
        """Return the webhook without its secret."""
        return decoded((yield from self._send("GET")), models.Address).webhook

    def delete(self) -> Steps[None]:
        """Delete the address."""
        yield from self._send("DELETE")

    def messages(self, wanted: Filter, limit: int | None) -> Steps[list[models.Message]]:
        """List messages, newest first, with as many page requests as necessary."""
        found: list[models.Message] = []
        query: str | None = urlencoded({**wanted.query(), "limit": min(limit or MAX_PAGE, MAX_PAGE)})
        before: str | None = None
        while query is not None and (limit is None or len(found) < limit):
            reply = yield from self.service.send(self.list_request(query))
            found += decoded(reply, models.MessageList).messages
            query = next_page_query(reply)
            last_before, before = before, _before(query)
            # A page may be empty although another page follows. Each page must be older than the previous page, because
            # otherwise this loop might never end.
            if query is not None and (before is None or (last_before is not None and before >= last_before)):
                raise not_tmpmaild(reply)
        return found[:limit]

    def message(self, message_id: str) -> Steps[models.Message]:
        """Read a message in the form used in lists, but with its whole text."""
        return decoded((yield from self._send("GET", _message(message_id))), models.Message)

    def details(self, message_id: str) -> Steps[models.Details]:
        """Read the details of one message."""
        return decoded((yield from self._send("GET", _message(message_id))), models.Details)

    def raw(self, message_id: str) -> Steps[bytes]:
        """Read the source of a message."""
        return (yield from self._send("GET", f"{_message(message_id)}/raw")).body

    def attachment(self, message_id: str, index: int) -> Steps[bytes]:
        """Read the content of an attachment."""
        return (yield from self._send("GET", f"{_message(message_id)}/attachments/{index}")).body

    def view_url(self, message_id: str, *, remote_images: bool) -> Steps[str]:
        """Return the URL of a message's view, which is valid for a minute."""
        body = {"remote_images": remote_images}
        reply = yield from self._send("POST", f"{_message(message_id)}/view", body=body)
        _, found, secret = decoded(reply, models.View).url.partition("/view/")
        if not found:
            raise not_tmpmaild(reply)
        return f"{self.service.url}/view/{secret}"  # without the path of public_url: a proxy may use a different path

    def delete_message(self, message_id: str) -> Steps[None]:
        """Delete one message."""
        yield from self._send("DELETE", _message(message_id))

    def delete_messages(self, message_ids: Sequence[str] | None, up_to: str | None) -> Steps[int]:
        """Delete the messages with these ids, all messages up to and including ``up_to``, or all messages.

        Raises ValueError if both arguments are given.
        """
        if message_ids is None:
            return (yield from self._delete_messages({} if up_to is None else {"up_to": up_to}))
        if up_to is not None:
            raise ValueError("delete either the given messages or all up to one, not both")
        count = 0
        for start in range(0, len(message_ids), _MAX_IDS):
            count += yield from self._delete_messages({"id": tuple(message_ids[start : start + _MAX_IDS])})
        return count

    def delete_messages_to(self, recipient: str) -> Steps[int]:
        """Delete the messages to a recipient; only the list of all messages accepts this."""
        return (yield from self._delete_messages({"to": recipient}))

    def _delete_messages(self, query: Mapping[str, object]) -> Steps[int]:
        path = f"/messages?{urlencoded(query)}" if query else "/messages"
        return decoded((yield from self._send("DELETE", path)), models.DeletedMessages).deleted

    def mbox(self) -> Steps[bytes]:
        """Read all messages as one file."""
        return (yield from self._send("GET", "/messages.mbox")).body

    def list_request(self, query: str, read_seconds: float = READ_SECONDS) -> Request:
        """Return the request for a page of messages."""
        return self.service.request(
            "GET", self._path(f"/messages?{query}"), token=self.token, read_seconds=read_seconds
        )

    def details_request(self, message_id: str, read_seconds: float) -> Request:
        """Return the request for the details of one message."""
        path = self._path(_message(message_id))
        return self.service.request("GET", path, token=self.token, read_seconds=read_seconds)

    def events_request(
        self, after: str | None, last_event_id: str | None, has: Sequence[Feature], read_seconds: float
    ) -> Request:
        """Return the request for the event stream, which only contains messages with all features in ``has``."""
        given = {"after": after, "has": has}
        query = urlencoded({name: value for name, value in given.items() if value})
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_event_id} if last_event_id else {})
        path = self._path(f"/events?{query}" if query else "/events")
        return self.service.request("GET", path, token=self.token, headers=headers, read_seconds=read_seconds)

    def _send(self, method: str, path: str = "", body: Mapping[str, object] | None = None) -> Steps[Reply]:
        return self.service.send(self.service.request(method, self._path(path), token=self.token, body=body))

    def _path(self, path: str) -> str:
        return _address(self.address) + path


class RemoteAllMail(RemoteInbox):
    """All messages of a catcher; the paths of the requests contain no address."""

    def _path(self, path: str) -> str:
        return path.removeprefix("/")


def _before(query: str | None) -> str | None:
    """Return the ``before`` parameter of a page's query, or None for the first page."""
    return parse_qs(query or "").get("before", [None])[0]


def _ensure_text(**given: str | None) -> None:
    """Raise ValueError for a string with a lone surrogate, which cannot be sent in a request."""
    for name, value in given.items():
        try:
            (value or "").encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} is not valid text: {value!r} has a lone surrogate") from None


def _address(address: str) -> str:
    return f"addresses/{quote(address, safe='@')}"


def _message(message_id: str) -> str:
    return f"/messages/{quote(message_id, safe='')}"


def _looks_like_a_token(text: str) -> bool:
    return text.isascii() and text.isprintable() and bool(text) and " " not in text


def urlencoded(query: Mapping[str, object]) -> str:
    """Return encoded query parameters for a URL."""
    return urlencode(query, doseq=True)


def checked(reply: Reply) -> Reply:
    """Return a successful reply. Raises ``Problem``, ``NotTmpmaild``, and ``ConnectionLost`` for a proxy's error."""
    if not 200 <= reply.status < 300:  # noqa: PLR2004 - the range of success statuses
        raise _problem(reply) or _unexpected(reply)
    return reply


def decoded(reply: Reply, kind: type[T]) -> T:
    """Decode the body of a successful reply. Raises the errors of ``checked``."""
    checked(reply)
    try:
        return msgspec.json.decode(reply.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unexpected(reply) from error


def not_tmpmaild(reply: Reply) -> errors.NotTmpmaild:
    """Return the error for a reply that this API never sends."""
    service = reply.request.service_url
    what = f"{reply.status} {errors.printable(reply.headers.get('content-type', 'without a type'))}"
    if "location" in reply.headers:
        return errors.NotTmpmaild(
            f"{service} returned {what} and points to {errors.printable(_place(reply))}; use that URL"
        )
    return errors.NotTmpmaild(f"{service} is not tmpmaild: it returned {what}; is the URL right?")


def next_page_query(reply: Reply) -> str | None:
    """Return the query of the next page, or None; the path is omitted because a proxy may use a different path."""
    match = _next_page(reply.headers.get("link", ""))
    return match[1].partition("?")[2] if match else None


def _problem(reply: Reply) -> errors.Problem | None:
    try:
        document = msgspec.json.decode(reply.body, type=models.ProblemDocument)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    retry_after = reply.headers.get("retry-after", "")
    detail = document.detail
    if document.code == "not-found" and urlsplit(reply.request.service_url).path:
        detail = f"{detail.rstrip('.')}; is the path of {reply.request.service_url} right?"
    return errors.PROBLEMS.get(document.code, errors.Problem)(
        reply.status,
        errors.printable(document.code),
        detail,
        [errors.FieldError(str(one.get("pointer", "")), str(one.get("detail", ""))) for one in document.errors],
        int(retry_after) if re.fullmatch("[0-9]{1,9}", retry_after) else None,
    )


def _unexpected(reply: Reply) -> errors.TmpmaildError:
    if reply.status in _PROXY_STATUSES:
        return errors.ConnectionLost(
            f"{reply.request.service_url}: {reply.status} from a proxy; is tmpmaild running behind it?"
        )
    return not_tmpmaild(reply)


def _place(reply: Reply) -> str:
    """Return the service URL that a redirect points to: its target without the path of this request."""
    target = urlsplit(reply.headers["location"])
    path = target.path.removesuffix(urlsplit(reply.request.path).path)
    return target._replace(path=path, query="", fragment="").geturl() or reply.headers["location"]
