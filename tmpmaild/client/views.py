"""The parts of inboxes, messages and attachments that need no request; ``aio.py`` and ``sync.py`` add the requests."""

import re
from collections.abc import Awaitable, Sequence
from datetime import datetime
from difflib import get_close_matches
from itertools import islice
from typing import Protocol, TypedDict, TypeVar, Unpack

from msgspec.structs import replace

from tmpmaild.client.errors import NotAuthenticated, NotInMail, listing, printable
from tmpmaild.client.models import AttachmentItem, Authentication, Code, Details, Link, Message
from tmpmaild.client.remote import Feature, Filter, RemoteInbox
from tmpmaild.client.waiting import Goal

T = TypeVar("T")

_MAX_OTHERS = 10
_OTHER_ARGUMENTS = ("timeout", "within", "count", "limit", "pattern", "link_text", "url")


class Page(Protocol):
    """A browser page, such as Playwright's."""

    def goto(self, url: str, /) -> object:
        """Open the URL."""


class AsyncPage(Protocol):
    """An asynchronous browser page."""

    def goto(self, url: str, /) -> Awaitable[object]:
        """Open the URL."""


class InboxView:
    """An inbox: its ``address``, its ``token`` (None if unknown), and its expiry."""

    def __init__(self, remote: RemoteInbox) -> None:
        self._remote = remote

    @property
    def address(self) -> str:
        """The address of the inbox."""
        return self._remote.address

    @property
    def token(self) -> str | None:
        """The token that allows changing and deleting the inbox; keep it out of logs."""
        return self._remote.token

    @property
    def webhook_secret(self) -> str | None:
        """The secret of the webhook, if this object or ``create`` has set it; keep it out of logs."""
        return self._remote.webhook_secret

    @property
    def expires_at(self) -> datetime:
        """The expiry in UTC, as last read or set by this object."""
        return self._remote.expires_at

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address}>"


class MailView:
    """A message as shown in lists. If ``truncated`` is true, ``text`` is cut; ``details`` contains the whole text."""

    def __init__(self, remote: RemoteInbox, message: Message) -> None:
        self._remote = remote
        self._message = message
        self._details: Details | None = None

    @property
    def id(self) -> str:
        """The id; ids sort by arrival."""
        return self._message.id

    @property
    def sender(self) -> str:
        """The bare address of the From field, else of the envelope, else ``""``."""
        return self._message.sender

    @property
    def sender_name(self) -> str:
        """The name in the From field, or ``""``."""
        return self._message.sender_name

    @property
    def recipient(self) -> str:
        """The envelope recipient as the sender wrote it, including a tag."""
        return self._message.recipient

    @property
    def recipients(self) -> tuple[str, ...]:
        """All envelope recipients, including Bcc, in the list of all messages; otherwise only the inbox's recipient."""
        return self._message.recipients or (self._message.recipient,)

    @property
    def subject(self) -> str:
        """The decoded subject, or ``""``."""
        return self._message.subject

    @property
    def text(self) -> str:
        """The text part, else the text of the HTML, with LF line endings."""
        return self._details.text if self._details else self._message.text

    @property
    def truncated(self) -> bool:
        """Whether ``text`` was cut, which happens to huge messages and in long lists."""
        return self._message.truncated and self._details is None

    @property
    def received_at(self) -> datetime:
        """The time at which the message arrived, in UTC."""
        return self._message.received_at

    @property
    def size_bytes(self) -> int:
        """The size of the source."""
        return self._message.size_bytes

    @property
    def has_html(self) -> bool:
        """Whether there is an HTML part."""
        return self._message.has_html

    @property
    def authenticated(self) -> str | None:
        """The verified sender's domain (DMARC), at the time this message was fetched, or None."""
        return self._message.authenticated

    @property
    def codes(self) -> tuple[Code, ...]:
        """The one-time passwords and verification codes in the message, best first."""
        return self._message.codes

    @property
    def code(self) -> str | None:
        """The best of ``codes``, or None."""
        return self._message.code

    @property
    def links(self) -> tuple[Link, ...]:
        """The web links, best first; the best link is the link for confirming or logging in."""
        return self._message.links

    @property
    def link(self) -> str | None:
        """The target of the best link if it is likely the link to follow (confidence 0.3 or more), or None."""
        return self._message.link

    def _taken(self, goal: Goal[T]) -> T:
        """Return the value that a goal extracts from this message. Raises ``NotInMail``, which shows the message."""
        message = replace(self._message, text=self.text)
        taken = goal.take([message])
        if taken is None:
            others = "".join(f"\n  has: {printable(one)}" for one in islice(goal.others(message), _MAX_OTHERS))
            mail = listing([message], with_text=True)
            raise NotInMail(f"the message to {self._remote.address} does not have {goal.name}:{mail}{others}")
        return taken

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} from {self.sender!r}: {self.subject!r}>"


class AttachmentView:
    """The metadata of an attachment; size and hash refer to the decoded content."""

    def __init__(self, remote: RemoteInbox, message_id: str, item: AttachmentItem) -> None:
        self._remote = remote
        self._message_id = message_id
        self._item = item

    @property
    def filename(self) -> str:
        """The file name from the message. Never use this name unchanged as a path to write to."""
        return self._item.filename

    @property
    def content_type(self) -> str:
        """The declared media type."""
        return self._item.content_type

    @property
    def size_bytes(self) -> int:
        """The size of the content."""
        return self._item.size_bytes

    @property
    def sha256(self) -> str:
        """The SHA-256 of the content, in hexadecimal."""
        return self._item.sha256

    @property
    def is_inline(self) -> bool:
        """Whether the attachment is an image that the view shows in the HTML, which refers to its ``content_id``."""
        return self._item.is_inline

    @property
    def content_id(self) -> str | None:
        """The Content-ID, without angle brackets."""
        return self._item.content_id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.filename!r} {self.content_type} {self.size_bytes} bytes>"


class Filters(TypedDict, total=False):
    """The filters for messages.

    ``subject`` and ``sender`` (address or name) match any part, ignoring case. ``text`` searches the subject, the
    sender and the text. ``has`` is "code", "link" or "attachment" (not inline), or several of these. ``after`` is a
    message or its id. With ``verdict``, only messages whose sender has been checked match.
    """

    subject: str | None
    sender: str | None
    text: str | None
    has: Feature | Sequence[Feature]
    after: MailView | str | None
    verdict: bool


class AllFilters(Filters, total=False):
    """The filters for the list of all messages; ``to`` matches a complete envelope recipient, ignoring case."""

    to: str | None


def wanted(**filters: Unpack[AllFilters]) -> Filter:
    """Return the filter for the given arguments. Raises TypeError for an unknown argument."""
    known = AllFilters.__annotations__
    for name in filters.keys() - known.keys():
        similar = get_close_matches(name, [*known, *_OTHER_ARGUMENTS], 1)
        hint = f", did you mean {similar[0]}?" if similar else f"; the filters are {', '.join(known)}"
        raise TypeError(f"unexpected argument {printable(name)}{hint}")
    has, after = filters.get("has", ()), filters.get("after")
    features: tuple[Feature, ...] = (has,) if isinstance(has, str) else tuple(has)
    features += ("verdict",) if filters.get("verdict") else ()
    return Filter(
        subject=filters.get("subject"),
        sender=filters.get("sender"),
        text=filters.get("text"),
        after=None if after is None else id_of(after),
        has=features,
        to=filters.get("to"),
    )


def id_of(mail: MailView | str) -> str:
    """Return the id of a message; an id is returned unchanged."""
    return mail.id if isinstance(mail, MailView) else mail


def ensure_authenticated(found: Authentication | None, domain: str) -> None:
    """Check that a domain is the verified sender. Raises ``NotAuthenticated``."""
    if found is None:
        raise NotAuthenticated(
            "the sender has not been checked yet: wait for the message with verdict=True (the service needs "
            "senders.resolver)"
        )
    if found.dmarc.result != "pass" or found.dmarc.domain != domain.lower():
        raise NotAuthenticated(f"the message is not verified to be from {domain}\n{found}")


def unsubscribe_link(details: Details) -> str | None:
    """Return the first https URI of the List-Unsubscribe field (RFC 2369 §2 and 3.2; RFC 8058 §3.1), or None.

    If there is no https URI, return the first http URI, because applications under test often do not use https.
    """
    fields = (value for name, value in details.headers if name.lower() == "list-unsubscribe")
    uris = ["".join(uri.split()) for uri in re.findall(r"<([^<>]*)>", next(fields, ""))]  # a URI may be folded anywhere
    return next((uri for scheme in ("https://", "http://") for uri in uris if uri.lower().startswith(scheme)), None)
