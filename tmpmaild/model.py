"""The types of the domain: frozen values that are passed between packages; no behaviour.

Times are Unix times in whole milliseconds (``_ms``), sizes are octets (``_bytes``).
"""

from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct


class SpfVerdict(Struct, frozen=True, gc=False):
    """Whether the client may send for the domain of MAIL FROM, or of HELO for the null path (RFC 7208)."""

    result: str
    domain: str = ""
    reason: str = ""


class DkimVerdict(Struct, frozen=True, gc=False):
    """Whether a signature holds (RFC 6376, RFC 8463).

    ``unsigned`` names those of the fields "date" and "message-id" that a signature which holds leaves out.
    """

    result: str
    domain: str = ""
    selector: str = ""
    reason: str = ""
    unsigned: tuple[str, ...] = ()


class DmarcVerdict(Struct, frozen=True, gc=False):
    """Whether the domain of the From field vouches for the mail (RFC 7489); ``policy`` is what it asks for if not.

    ``unsigned`` names those of the fields "date" and "message-id" that nothing covers of what vouches for the mail.
    """

    result: str
    policy: str = ""
    domain: str = ""
    reason: str = ""
    unsigned: tuple[str, ...] = ()


class ArcVerdict(Struct, frozen=True, gc=False):
    """Whether the chain of those who handed the mail on holds (RFC 8617)."""

    result: str
    reason: str = ""


class DnsAnswer(Struct, frozen=True, gc=False):
    """What the resolver said to a question: the records as text, one a line, or why there are none."""

    name: str
    type: str
    answer: str


class Authentication(Struct, frozen=True):
    """Who sent a mail, so far as the DNS can tell; results are the words of RFC 8601."""

    spf: SpfVerdict
    dkim: tuple[DkimVerdict, ...]
    dmarc: DmarcVerdict
    arc: ArcVerdict
    dns: tuple[DnsAnswer, ...] = ()

    @property
    def authenticated(self) -> str | None:
        """The domain of the From field if it is proven, else None."""
        return self.dmarc.domain if self.dmarc.result == "pass" else None


def unchecked(result: str, reason: str) -> Authentication:
    """Return what is said of a mail that was not checked."""
    return Authentication(
        SpfVerdict(result, reason=reason), (), DmarcVerdict(result, reason=reason), ArcVerdict(result, reason=reason)
    )


def counted(number: int, noun: str, plural: str = "", *, spec: str = "") -> str:
    """Return such as ``1 inbox``; ``plural`` is the noun with an s if not given, ``spec`` as in format()."""
    return f"{number:{spec}} {noun if number == 1 else plural or noun + 's'}"


class Attachment(Struct, frozen=True, gc=False):
    """A part that is neither the text nor the HTML of a mail.

    ``index`` counts from 0 in the order of the mail; ``size_bytes`` and ``sha256`` (hex) are of the
    decoded content; ``inline`` ones are images that the HTML refers to (RFC 2392). ``part`` counts all leaves of the
    mail, in which it is found again; -1 in what version 1.0 stored.
    """

    index: int
    filename: str
    content_type: str
    size_bytes: int
    sha256: str
    inline: bool
    content_id: str | None
    part: int = -1


class Verbatim(Struct, frozen=True, gc=False):
    """A text that is in the octets of a mail as it is, from ``start`` to ``end``, except for its CRLF line ends.

    It is valid UTF-8 without NUL or lone CR.
    """

    start: int
    end: int


class ParsedMail(Struct, frozen=True):
    """What a reader sees of a mail; every text is valid Unicode without lone surrogates or NUL.

    ``body`` has LF line ends, or says where it is. ``headers`` are decoded. ``warnings`` say what was malformed.
    """

    from_address: str
    from_name: str
    subject: str
    body: str | Verbatim
    html: str | None
    attachments: tuple[Attachment, ...]
    headers: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]


class Block(Struct, frozen=True, gc=False):
    """What the operator keeps out: a "client" (network), "name" (local part), "sender" (domain) or "target" (host).

    ``expires_at_ms`` is None for one that stays until it is removed.
    """

    kind: str
    value: str
    created_at_ms: int
    expires_at_ms: int | None = None


class AcceptedRecipient(Struct, frozen=True, gc=False):
    """An address of a transaction as it was written, and when RCPT was answered."""

    address: str
    at_ms: int


class SmtpSession(Struct, frozen=True):
    """How a mail was handed over, as evidence for who tests a sender; nothing depends on it.

    ``greeting`` is EHLO or HELO. ``tls_version`` and ``tls_cipher`` are "" without TLS, ``auth`` (the mechanism) is
    "" without a login. ``parameters`` are those of MAIL (RFC 5321 §4.1.2), as they were written. ``data_at_ms`` is
    when DATA was answered. ``recipients`` are those of all inboxes until the mail is stored, then of the reader's
    alone. What did not come over SMTP has the defaults.
    """

    greeting: str = ""
    tls_version: str = ""
    tls_cipher: str = ""
    auth: str = ""
    parameters: str = ""
    data_at_ms: int = 0
    recipients: tuple[AcceptedRecipient, ...] = ()


NO_SESSION = SmtpSession()


class Envelope(Struct, frozen=True):
    """One SMTP transaction without its content (RFC 5321 §2.3.1).

    ``recipients`` are the addresses as they were written, tag included.
    """

    sender: str
    recipients: tuple[str, ...]
    helo: str
    remote_ip: str
    tls: bool
    session: SmtpSession = NO_SESSION


class Code(Struct, frozen=True, gc=False):
    """A one-time password or verification code detected in a mail, as a person would type it.

    ``confidence`` is above 0 and at most 1.
    """

    value: str
    confidence: float


class Link(Struct, frozen=True, gc=False):
    """A link to the web, ``href`` as it is in the mail, with character references decoded.

    ``confidence`` (0 to 1) is how likely it is that the mail asks to follow it.
    """

    href: str
    text: str
    confidence: float


class BodyLink(Struct, frozen=True, gc=False):
    """A web address in a body, from ``start`` to ``end`` in code points."""

    start: int
    end: int
    href: str


class Findings(Struct, frozen=True):
    """The codes and links detected in a mail, best first."""

    codes: tuple[Code, ...] = ()
    links: tuple[Link, ...] = ()


NO_FINDINGS = Findings()

NAME_HELD_MS = 24 * 60 * 60 * 1000
"""How long an expired address still answers "expired" and its name cannot be created again."""


class NewInbox(Struct, frozen=True):
    """An address to be created; ``creator`` is the client whose share its messages count against, or None.

    Its name is taken while an inbox of that name is alive, and for ``name_held_ms`` after that.
    """

    address: str
    created_at_ms: int
    expires_at_ms: int
    private: bool
    token_hash: bytes
    creator: str | None
    name_held_ms: int = NAME_HELD_MS


class Inbox(Struct, frozen=True):
    """An address, live or expired; ``full`` says that it takes no mail now."""

    id: str
    address: str
    created_at_ms: int
    expires_at_ms: int
    private: bool
    token_hash: bytes | None
    message_count: int
    full: bool


class InboxEntry(Struct, frozen=True):
    """An inbox in a list for the operator; ``stored_bytes`` is what its mail takes on disk."""

    id: str
    address: str
    created_at_ms: int
    expires_at_ms: int
    private: bool
    message_count: int
    stored_bytes: int


class InboxPage(Struct, frozen=True):
    """Some inboxes of a list; ``next`` is where the list goes on, None at its end."""

    inboxes: tuple[InboxEntry, ...]
    next: str | None


class NewMail(Struct, frozen=True):
    """A message to be stored for ``inbox_ids``, which pair with ``envelope.recipients``.

    A recipient of several lines stands for the addresses in them: its inbox gets the message once for all of these.

    ``client`` sends it, and has a share of the operator's inbox; None is a client without limits.
    """

    envelope: Envelope
    inbox_ids: tuple[str, ...]
    raw: bytes
    parsed: ParsedMail
    client: str | None = None


class MessageDeleted(Struct, frozen=True):
    """A message has been deleted by the inbox's holder."""

    message_id: str


class InboxDeleted(Struct, frozen=True):
    """An inbox has been deleted by its holder."""


class ExpiryMoved(Struct, frozen=True):
    """The expiry of an inbox has been moved."""

    expires_at_ms: int


class VerdictReached(Struct, frozen=True):
    """It has been checked who sent a message; ``dmarc`` and ``authenticated`` are as in its ``Authentication``."""

    message_id: str
    dmarc: str = ""
    authenticated: str | None = None


class InboxChange(Struct, frozen=True):
    """What a commit did to an inbox. Of new mail it is only a wake-up: what came is read from storage.

    ``share_full``: its creator's share is used up, so that no other inbox of that creator takes mail either.
    ``notice`` tells what cannot be read afterwards.
    """

    inbox_id: str
    full: bool
    share_full: bool = False
    notice: MessageDeleted | InboxDeleted | ExpiryMoved | VerdictReached | None = None


Feature = Literal["code", "link", "attachment", "verdict"]
"""What a message may be asked to have: a detected code or link, an attachment that is not ``inline``, a verdict."""

SEARCHED_CHARACTERS = 64 * 1024
"""How much of a body a search looks at."""


class Page(Struct, frozen=True):
    """Which messages of an inbox are asked for; ids are exclusive bounds and need not exist.

    ``sender`` (in address or name of the From field), ``subject`` and ``text`` (in either of them, or in the first
    ``SEARCHED_CHARACTERS`` of the body) are parts that a message must have, upper and lower case alike; it must also
    have all of ``has``. Bodies are whole as long as all of them, newest first, fit ``bodies_bytes``; the page ends
    before what else the messages say, such as the names of a thousand attachments, passes ``other_characters``.
    """

    after: str | None = None
    before: str | None = None
    ascending: bool = False
    limit: int = 100
    sender: str | None = None
    subject: str | None = None
    text: str | None = None
    recipient: str | None = None
    has: frozenset[Feature] = frozenset()
    bodies_bytes: int = 4 * 1024 * 1024
    other_characters: int = 2 * 1024 * 1024

    @property
    def small_bytes(self) -> int:
        """Up to which size all bodies of the page are whole; a larger one is if it fits what those leave."""
        return self.bodies_bytes // max(self.limit, 1)


class Message(Struct, frozen=True):
    """A message as a list shows it; ``recipient`` is the envelope's, as it was written.

    ``authentication`` is None until it has been checked. ``body_bytes`` is the size of the whole body, roughly where
    it is in the source unchanged. Storage knows no findings.
    """

    id: str
    received_at_ms: int
    recipient: str
    from_address: str
    from_name: str
    subject: str
    body: str
    truncated: bool
    size_bytes: int
    has_html: bool
    attachments: tuple[Attachment, ...]
    authentication: Authentication | None = None
    findings: Findings = NO_FINDINGS
    body_bytes: int = 0


class Texts(Struct, frozen=True):
    """The beginnings of a message's two texts. ``is_of_html``: the mail is HTML alone, the body is the text of that."""

    message_id: str
    body: str
    html: str
    is_of_html: bool = False


class FullMessage(Struct, frozen=True):
    """All of a message but its attachments; of the recipients the ``envelope`` names this inbox's alone.

    ``head`` is the beginning of the source, at least its header. ``html`` and the message's body are left out
    (``complete`` is False) where the source is larger than was asked for, or where the ``source`` itself was asked for.
    """

    message: Message
    envelope: Envelope
    headers: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    head: bytes
    html: str | None
    complete: bool
    source: bytes | None = None


class Person(Struct, frozen=True):
    """A mailbox that a header field names; either is "" when absent."""

    address: str
    name: str


class HeaderDetails(Struct, frozen=True):
    """What the header of a mail says besides sender and subject.

    ``date_ms`` is None, ``message_id`` "" where there is none that can be read; the latter has no angle brackets.
    """

    cc: tuple[Person, ...]
    reply_to: tuple[Person, ...]
    date_ms: int | None
    message_id: str


class Listing(Struct, frozen=True, weakref=True):
    """One page of an inbox, and whether there is another behind it.

    ``searched_to`` is the newest message that a filter has looked at. ``looked_to`` is the last one that was looked at,
    where there may be others between the page and the next one; such a page may be short or empty. ``characters`` is
    roughly how large it is as JSON. Storage leaves out these three.
    """

    inbox: Inbox
    messages: tuple[Message, ...]
    has_more: bool
    searched_to: str | None = None
    looked_to: str | None = None
    characters: int = 0


WebhookEvent = Literal["message", "verdict", "expired"]
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - every secret starts with it
"""What a webhook's secret starts with, before its bytes in Base64 (Standard Webhooks)."""


class Webhook(Struct, frozen=True):
    """The URL that the holder of an inbox wants to be called at, and the events to call it for.

    A message counts if it has every feature in ``has``. ``secret`` signs the calls; only who set the webhook sees it.
    """

    url: str
    events: frozenset[WebhookEvent]
    has: frozenset[Feature]
    secret: str


class WebhookState(Struct, frozen=True):
    """How far the calls of a webhook have come.

    ``told_message_id`` is the last message whose arrival has been reported to the target, ``told_verdict_id`` the last
    one whose verdict has been; a message with that id need not exist. ``failures`` counts failed calls in a row. No
    call is made before ``next_at_ms``. ``result`` is the status of the last call, or why there was none; before the
    first call it is "" and ``called_at_ms`` is None.
    """

    told_message_id: str
    told_verdict_id: str
    failures: int = 0
    next_at_ms: int = 0
    called_at_ms: int | None = None
    result: str = ""


class StoredWebhook(Struct, frozen=True):
    """A webhook and its inbox, which may have expired.

    No message of the inbox has an id above ``newest_message_id``, and every later one will. ``version`` distinguishes
    a webhook from the one that replaces it; each lease and each result increments it.
    """

    inbox_id: str
    address: str
    expires_at_ms: int
    version: int
    webhook: Webhook
    state: WebhookState
    newest_message_id: str

    @property
    def is_waiting(self) -> bool:
        """Whether there may be an event of a live inbox to report."""
        positions = {"message": self.state.told_message_id, "verdict": self.state.told_verdict_id}
        return any(self.newest_message_id > positions[name] for name in self.webhook.events & positions.keys())


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC by definition; aware ones write +00:00 for Z


def rfc3339(time_ms: int) -> str:
    """Write a Unix time in milliseconds as RFC 3339 in UTC: ``2026-11-20T12:00:00.000Z``."""
    return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds") + "Z"
