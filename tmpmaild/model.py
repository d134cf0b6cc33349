"""Domain types: immutable values without behaviour that are passed between packages.

Times are Unix times in whole milliseconds (``_ms``); sizes are in bytes (``_bytes``).
"""

from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final, Literal

from msgspec import Struct


class SpfVerdict(Struct, frozen=True, gc=False):
    """The SPF result: whether the client may send for MAIL FROM's domain, or HELO's if MAIL FROM is null (RFC 7208)."""

    result: str
    domain: str = ""
    reason: str = ""


class DkimVerdict(Struct, frozen=True, gc=False):
    """The DKIM result: whether a signature is valid (RFC 6376, RFC 8463).

    ``unsigned`` lists the fields ("date" or "message-id") that a valid signature does not cover.
    """

    result: str
    domain: str = ""
    selector: str = ""
    reason: str = ""
    unsigned: tuple[str, ...] = ()


class DmarcVerdict(Struct, frozen=True, gc=False):
    """The DMARC result: whether the domain of the From field authorised the message (RFC 7489), and its ``policy``.

    ``unsigned`` lists the fields ("date" or "message-id") that no signature used for the result covers.
    """

    result: str
    policy: str = ""
    domain: str = ""
    reason: str = ""
    unsigned: tuple[str, ...] = ()


class ArcVerdict(Struct, frozen=True, gc=False):
    """The ARC result: whether the chain of forwarders is valid (RFC 8617)."""

    result: str
    reason: str = ""


class DnsAnswer(Struct, frozen=True, gc=False):
    """The resolver's answer to a query: the records as text, one per line, or the reason why there are none."""

    name: str
    type: str
    answer: str


class Authentication(Struct, frozen=True):
    """The sender authentication of a message; the results are the keywords of RFC 8601."""

    spf: SpfVerdict
    dkim: tuple[DkimVerdict, ...]
    dmarc: DmarcVerdict
    arc: ArcVerdict
    dns: tuple[DnsAnswer, ...] = ()

    @property
    def authenticated(self) -> str | None:
        """The domain of the From field if DMARC passed, else None."""
        return self.dmarc.domain if self.dmarc.result == "pass" else None


def unchecked(result: str, reason: str) -> Authentication:
    """Return the verdict for a message that was not checked."""
    return Authentication(
        SpfVerdict(result, reason=reason), (), DmarcVerdict(result, reason=reason), ArcVerdict(result, reason=reason)
    )


def counted(number: int, noun: str, plural: str = "", *, spec: str = "") -> str:
    """Return a number with its noun, such as ``1 inbox``; the default plural adds an s."""
    return f"{number:{spec}} {noun if number == 1 else plural or noun + 's'}"


class Attachment(Struct, frozen=True, gc=False):
    """A part that is neither the text nor the HTML of a message.

    ``index`` counts from 0 in message order. ``size_bytes`` and ``sha256`` (hex) describe the decoded content.
    ``inline`` is true for images that the HTML refers to (RFC 2392). ``part`` is the number of this part among all
    leaves of the message, used to find it again; it is -1 if version 1.0 stored the message.
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
    """A text that a message's bytes contain from ``start`` to ``end``, unchanged except for CRLF line endings.

    It is valid UTF-8 without NUL or lone CR.
    """

    start: int
    end: int


class ParsedMail(Struct, frozen=True):
    """The readable content of a message; every text is valid Unicode without lone surrogates or NUL.

    ``body`` is a text with LF line endings, or its position in the message. ``headers`` are decoded. ``warnings``
    describe malformed content.
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
    """A block set by the operator for a "client" (network), "name" (local part), "sender" or "target" (host).

    A sender is a domain or an address. ``expires_at_ms`` is None for a block that stays until it is removed.
    """

    kind: str
    value: str
    created_at_ms: int
    expires_at_ms: int | None = None


class AcceptedRecipient(Struct, frozen=True, gc=False):
    """A recipient as written by the client, and the time of the reply to RCPT."""

    address: str
    at_ms: int


class SmtpSession(Struct, frozen=True):
    """Details of the SMTP session that delivered a message, for people who test a sender.

    Only ``recipients`` has a second use: PostgreSQL needs it to find the copies of a deleted message.

    ``greeting`` is EHLO or HELO. ``tls_version`` and ``tls_cipher`` are "" without TLS; ``auth``, the login mechanism,
    is "" without a login. ``parameters`` are the MAIL parameters (RFC 5321 §4.1.2), as written. ``data_at_ms`` is the
    time of the reply to DATA. ``recipients`` covers all inboxes until the message is stored, then only the reader's
    inbox. A message that did not arrive over SMTP has the default values.
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
    """The envelope of one SMTP transaction (RFC 5321 §2.3.1).

    ``recipients`` are the addresses as written by the client, including any tag.
    """

    sender: str
    recipients: tuple[str, ...]
    helo: str
    remote_ip: str
    tls: bool
    session: SmtpSession = NO_SESSION


class Code(Struct, frozen=True, gc=False):
    """A one-time password or verification code detected in a message, as a person would type it.

    ``confidence`` is above 0 and at most 1.
    """

    value: str
    confidence: float


class Link(Struct, frozen=True, gc=False):
    """A web link; ``href`` is copied from the message, with character references decoded.

    ``confidence`` (0 to 1) is the likelihood that the message asks its reader to follow the link.
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
    """The codes and links detected in a message, best first."""

    codes: tuple[Code, ...] = ()
    links: tuple[Link, ...] = ()


NO_FINDINGS = Findings()

NAME_HELD_MS = 24 * 60 * 60 * 1000
"""The time for which an expired address is reported as expired; during this time its name cannot be reused."""


class Purpose(Enum):
    """The purpose of a service: receiving mail from anyone, running tests, or catching all mail from an application."""

    MAIL = auto()
    TESTS = auto()
    CATCHING = auto()


class NewInbox(Struct, frozen=True):
    """An address to be created; ``creator`` is the client whose share contains its messages, or None.

    Its name is in use while the inbox is live, and for ``name_held_ms`` after that.
    """

    address: str
    created_at_ms: int
    expires_at_ms: int
    private: bool
    token_hash: bytes
    creator: str | None
    name_held_ms: int = NAME_HELD_MS


class Inbox(Struct, frozen=True):
    """An address, live or expired; while it is ``full``, it accepts no mail."""

    id: str
    address: str
    created_at_ms: int
    expires_at_ms: int
    private: bool
    token_hash: bytes | None
    message_count: int
    full: bool


class InboxEntry(Struct, frozen=True):
    """An inbox in the operator's list; ``stored_bytes`` is the disk space that its mail uses."""

    id: str
    address: str
    created_at_ms: int
    expires_at_ms: int
    private: bool
    message_count: int
    stored_bytes: int


class InboxPage(Struct, frozen=True):
    """A page of the inbox list; ``next`` is the position of the next page, None at the end."""

    inboxes: tuple[InboxEntry, ...]
    next: str | None


class NewMail(Struct, frozen=True):
    """A message to be stored in ``inbox_ids``, which correspond one to one to ``envelope.recipients``.

    A recipient may contain several addresses, one per line, in which case its inbox receives the message only once.

    ``client`` is the sending client, which has a share of the operator's inbox; None for a client without limits.
    """

    envelope: Envelope
    inbox_ids: tuple[str, ...]
    raw: bytes
    parsed: ParsedMail
    client: str | None = None


class MessageDeleted(Struct, frozen=True):
    """The inbox's owner has deleted a message."""

    message_id: str


class InboxDeleted(Struct, frozen=True):
    """The owner has deleted the inbox."""


class ExpiryMoved(Struct, frozen=True):
    """The expiry of the inbox has changed."""

    expires_at_ms: int


class VerdictReached(Struct, frozen=True):
    """A message's sender has been checked; ``dmarc`` and ``authenticated`` are copied from its ``Authentication``."""

    message_id: str
    dmarc: str = ""
    authenticated: str | None = None


class InboxChange(Struct, frozen=True):
    """The effect of a commit on an inbox. For new mail, it is only a signal to read the messages from storage.

    ``share_full`` means that the share of the inbox's creator is used up, so the creator's other inboxes accept no mail
    either. ``notice`` describes a change that cannot be read from storage afterwards.
    """

    inbox_id: str
    full: bool
    share_full: bool = False
    notice: MessageDeleted | InboxDeleted | ExpiryMoved | VerdictReached | None = None


Feature = Literal["code", "link", "attachment", "verdict"]
"""A feature by which messages can be filtered: a detected code or link, an attachment that is not ``inline``, or a
verdict."""

SEARCHED_CHARACTERS = 64 * 1024
"""The maximum number of characters of a body that a search examines."""


class Page(Struct, frozen=True):
    """The requested messages of an inbox; ids are exclusive bounds and need not exist.

    A message must contain ``sender`` in the address or name of its From field, ``subject`` in its subject, and ``text``
    in any of these or in the first ``SEARCHED_CHARACTERS`` of its body. Case is ignored. The message must also have all
    features in ``has``. Bodies are included in full, newest first, while their total is at most ``bodies_bytes``. The
    page ends before all other data, such as the names of a thousand attachments, exceeds ``other_characters``.
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
        """The size up to which every body is complete; a larger body is complete if there is enough space left."""
        return self.bodies_bytes // max(self.limit, 1)


class Message(Struct, frozen=True):
    """A message as shown in a list; ``recipient`` is from the envelope, as written by the client.

    ``authentication`` is None until the sender has been checked. ``body_bytes`` is the size of the whole body; it is
    approximate if the source contains the body unchanged. Storage leaves ``findings`` empty.
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
    """The initial part of a message's body and HTML.

    ``is_of_html`` means that the message is HTML only and that the body is its text.
    """

    message_id: str
    body: str
    html: str
    is_of_html: bool = False


class FullMessage(Struct, frozen=True):
    """A message without its attachments; ``envelope`` contains only this inbox's recipient.

    ``head`` is the start of the source, including at least the header. ``html`` and the message's body are omitted
    (``complete`` is False) if the source is larger than requested, or if the ``source`` itself was requested.
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
    """A mailbox in a header field; a missing address or name is ""."""

    address: str
    name: str


class HeaderDetails(Struct, frozen=True):
    """Details from a message's header, except the sender and the subject.

    ``date_ms`` is None and ``message_id`` is "" if missing or unreadable; ``message_id`` has no angle brackets.
    """

    cc: tuple[Person, ...]
    reply_to: tuple[Person, ...]
    date_ms: int | None
    message_id: str


class Listing(Struct, frozen=True, weakref=True):
    """One page of an inbox, and whether more messages follow.

    ``searched_to`` is the newest message that a filter has examined. ``examined_to`` is the last message examined by a
    filter on findings or verdicts. The page may then be short or empty although more messages follow. ``characters`` is
    the approximate size of the page as JSON. Storage does not set these three fields.
    """

    inbox: Inbox
    messages: tuple[Message, ...]
    has_more: bool
    searched_to: str | None = None
    examined_to: str | None = None
    characters: int = 0


WebhookEvent = Literal["message", "verdict", "expired"]
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - not a password, but the prefix of every secret
"""The prefix of a webhook's secret, followed by its bytes in Base64 (Standard Webhooks)."""


class Webhook(Struct, frozen=True):
    """The URL to call for an inbox, set by the inbox's owner, and the events that trigger a call.

    A message triggers a call only if it has every feature in ``has``. ``secret`` signs the calls; only the client that
    set the webhook sees it.
    """

    url: str
    events: frozenset[WebhookEvent]
    has: frozenset[Feature]
    secret: str


class WebhookState(Struct, frozen=True):
    """The progress of a webhook's calls.

    ``reported_message_id`` is the last message whose arrival has been reported to the target, and
    ``reported_verdict_id`` is the last message whose verdict has been reported. These messages need not exist.
    ``failures`` counts consecutive failed calls. No call is made before ``next_at_ms``. ``result`` is the status of the
    last call, or the reason why it received no response. Before the first call, ``result`` is "" and ``called_at_ms``
    is None.
    """

    reported_message_id: str
    reported_verdict_id: str
    failures: int = 0
    next_at_ms: int = 0
    called_at_ms: int | None = None
    result: str = ""


class StoredWebhook(Struct, frozen=True):
    """A webhook and its inbox, which may have expired.

    The ids of all current messages of the inbox are at most ``newest_message_id``, and the ids of all later messages
    are greater. ``version`` distinguishes a webhook from its replacement; each lease and each result increments it.
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
        """Whether there may be an event to report for a live inbox."""
        positions = {"message": self.state.reported_message_id, "verdict": self.state.reported_verdict_id}
        return any(self.newest_message_id > positions[name] for name in self.webhook.events & positions.keys())


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - in UTC by definition; an aware datetime would end in +00:00, not Z


def rfc3339(time_ms: int) -> str:
    """Format a Unix time in milliseconds as RFC 3339 in UTC: ``2026-11-20T12:00:00.000Z``."""
    return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds") + "Z"
