"""Types for the responses of the service. Unknown fields are ignored."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct, field

Time = Annotated[datetime, Meta(tz=True)]


class Fault(Struct, frozen=True, omit_defaults=True):
    """Delays the SMTP reply at one step of the next ``times`` messages, and replaces it with ``reply`` if given.

    ``at`` is "rcpt", "data" or "end" (the final dot). A reply is a code from 400 to 599 followed by text, such as "451
    4.7.1 Greylisted". A 421 reply also closes the connection.
    """

    at: str
    reply: str | None = None
    times: int = 1
    delay_seconds: float = 0


class WebhookCall(Struct, frozen=True):
    """The last call of a webhook; ``result`` is the status of the response, or the reason why no response arrived."""

    at: Time
    result: str = ""


class Webhook(Struct, frozen=True, omit_defaults=True):
    """A URL that is called for ``events``: any of "message", "verdict" and "expired".

    A message causes a call if it has all of ``has`` ("code", "link", "attachment"). The service sets the other fields.
    The service returns ``secret``, which signs the calls, only when the webhook is set. ``failures`` counts consecutive
    failures.
    """

    url: str
    events: tuple[str, ...] = ("message",)
    has: tuple[str, ...] = ()
    secret: str | None = None
    failures: int = 0
    last_call: WebhookCall | None = None
    next_call_at: Time | None = None

    def __repr__(self) -> str:
        return f"Webhook({self.url!r}, events={self.events!r}, has={self.has!r}, failures={self.failures})"


class Address(Struct, frozen=True):
    """An address.

    ``token`` is set only on creation; ``faults`` and ``webhook`` are set only if the service allows them.
    """

    address: str
    expires_at: Time
    token: str | None = None
    faults: tuple[Fault, ...] = ()
    webhook: Webhook | None = None
    created_at: Time | None = None

    def __repr__(self) -> str:
        return f"Address({self.address!r}, expires_at={self.expires_at.isoformat()})"


class Code(Struct, frozen=True):
    """A one-time password or verification code, as a person would type it; ``confidence`` is between 0 and 1."""

    value: str
    confidence: float = 0.0


class Link(Struct, frozen=True):
    """A web link.

    ``href`` is unchanged, and ``confidence`` (0 to 1) is the likelihood that this is the link to follow.
    """

    href: str
    text: str = ""
    confidence: float = 0.0


class BodyLink(Struct, frozen=True):
    """A URL in a text, at ``text[start:end]``."""

    start: int
    end: int
    href: str = ""


class AttachmentItem(Struct, frozen=True):
    """The metadata of an attachment; size and hash refer to the decoded content."""

    index: int
    filename: str = ""
    content_type: str = "application/octet-stream"
    size_bytes: int = field(name="size", default=0)
    sha256: str = ""
    is_inline: bool = field(name="inline", default=False)
    content_id: str | None = None


LIKELY = 0.3
"""The lowest confidence of a link to follow, in all clients and on the page (docs/api.md)."""


class Message(Struct, frozen=True):
    """A message as shown in lists.

    Ids sort by arrival. ``sender`` is the bare address or ``""``, and ``recipient`` is the envelope recipient as
    the sender wrote it. ``size_bytes`` is the size of the source. ``text`` is cut if ``truncated`` is true. ``dmarc``
    is the result on which ``authenticated`` is based, or None before the check. ``recipients`` are the envelope
    recipients; they are only set in the list of all messages.
    """

    id: str
    received_at: Time
    sender: str = field(name="from", default="")
    sender_name: str = field(name="from_name", default="")
    recipient: str = field(name="to", default="")
    subject: str = ""
    text: str = field(name="body", default="")
    size_bytes: int = field(name="size", default=0)
    has_html: bool = False
    attachments: tuple[AttachmentItem, ...] = ()
    codes: tuple[Code, ...] = ()
    links: tuple[Link, ...] = ()
    authenticated: str | None = None
    truncated: bool = False
    dmarc: str | None = None
    recipients: tuple[str, ...] = ()

    @property
    def code(self) -> str | None:
        """The best code."""
        return self.codes[0].value if self.codes else None

    @property
    def link(self) -> str | None:
        """The best link, if its confidence is at least ``LIKELY``."""
        return self.links[0].href if self.links and self.links[0].confidence >= LIKELY else None


class MessageList(Struct, frozen=True):
    """A page of messages; ``reason`` explains why a wait found no message."""

    messages: tuple[Message, ...]
    reason: str = ""


class DeletedMessages(Struct, frozen=True):
    """The number of messages that a request has deleted."""

    deleted: int


class Person(Struct, frozen=True):
    """A mailbox in a header field."""

    address: str = ""
    name: str = ""


class Envelope(Struct, frozen=True):
    """The SMTP transaction that delivered a message."""

    sender: str = field(name="from", default="")
    recipient: str = field(name="to", default="")
    helo: str = ""
    remote_ip: str = ""
    tls: bool = False


class SessionRecipient(Struct, frozen=True):
    """An envelope recipient, and the time at which it was accepted (RCPT)."""

    address: str
    accepted_at: Time


class Handover(Struct, frozen=True):
    """The SMTP session that delivered a message; ``recipients`` contains only this inbox's recipients.

    ``tls_version`` and ``tls_cipher`` are None without TLS; ``auth`` (the mechanism) is None without a login.
    ``parameters`` are the parameters of MAIL as written.
    """

    remote_ip: str = ""
    helo: str = ""
    greeting: str = ""
    tls_version: str | None = None
    tls_cipher: str | None = None
    auth: str | None = None
    parameters: tuple[str, ...] = ()
    recipients: tuple[SessionRecipient, ...] = ()
    data_at: Time | None = None
    committed_at: Time | None = None


class Verdict(Struct, frozen=True):
    """The result of one method of sender authentication (RFC 8601), and its reason. Some fields depend on the method.

    ``unsigned`` lists which of the fields "date" and "message-id" are not signed. Anyone may have changed these fields,
    although the result is pass.
    """

    result: str
    domain: str = ""
    selector: str = ""
    policy: str = ""
    reason: str = ""
    unsigned: tuple[str, ...] = ()

    def __str__(self) -> str:
        named = {"domain": self.domain, "selector": self.selector, "policy": self.policy}
        shown = "".join(f" {name}={value}" for name, value in named.items() if value)
        return f"{self.result}{shown}{f' ({self.reason})' if self.reason else ''}"


class DnsAnswer(Struct, frozen=True):
    """The answer from the service's resolver to a DNS query."""

    name: str
    type: str
    answer: str = ""


class Authentication(Struct, frozen=True):
    """The sender authentication of a message; ``dns`` contains the DNS answers that the service received."""

    spf: Verdict
    dkim: tuple[Verdict, ...]
    dmarc: Verdict
    arc: Verdict
    dns: tuple[DnsAnswer, ...] = ()

    def __str__(self) -> str:
        signed = [f"DKIM: {one}" for one in self.dkim] or ["DKIM: no signature"]
        answers = [f"DNS: {one.name} {one.type}: {one.answer}" for one in self.dns]
        return "\n".join([f"DMARC: {self.dmarc}", f"SPF: {self.spf}", *signed, *answers])


class Details(Struct, frozen=True):
    """The fields of a message that lists do not contain, and its whole ``text``.

    ``html`` is the HTML part as received, or None. ``headers`` contains pairs of a name and a decoded value, in order.
    ``date`` is the value of the Date field. ``warnings`` describe errors that the parser tolerated. ``body_links`` are
    the URLs in ``text``, in order. ``session`` is None if the message did not arrive over SMTP; ``authentication`` is
    None until the sender has been checked.
    """

    text: str = field(name="body", default="")
    body_links: tuple[BodyLink, ...] = ()
    html: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    cc: tuple[Person, ...] = ()
    reply_to: tuple[Person, ...] = ()
    date: Time | None = None
    message_id: str = ""
    envelope: Envelope = Envelope()
    session: Handover | None = None
    authentication: Authentication | None = None
    warnings: tuple[str, ...] = ()


class DomainList(Struct, frozen=True):
    """The domains at which addresses can be created; the first is the default."""

    domains: tuple[str, ...]


class Refusal(Struct, frozen=True):
    """A refused SMTP command, or the end of a connection that delivered no message."""

    at: Time
    client: str = ""
    command: str = ""
    reason: str = ""


class RefusalList(Struct, frozen=True):
    """The recent refusals, oldest first."""

    refusals: tuple[Refusal, ...]


class View(Struct, frozen=True):
    """The view of a message; ``url`` is a path."""

    url: str


class Deletion(Struct, frozen=True):
    """The data of a ``deleted`` event: the id of the message, or None if the address was deleted."""

    id: str | None = None


class Extension(Struct, frozen=True):
    """The data of an ``extended`` event."""

    expires_at: Time


class ProblemDocument(Struct, frozen=True):
    """A problem document (RFC 9457 §3); all problems of this API have a ``code``."""

    code: str
    detail: str = ""
    errors: tuple[dict[str, object], ...] = ()
