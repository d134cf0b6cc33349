"""What the service answers, as typed values. Fields that are not known here are ignored."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct, field

Time = Annotated[datetime, Meta(tz=True)]


class Fault(Struct, frozen=True, omit_defaults=True):
    """The next ``times`` that a mail comes to a step, the answer is late by ``delay_seconds``, and ``reply`` if given.

    ``at`` is "rcpt", "data" or "end" (the dot). A reply is a code from 400 to 599 and a text, as in
    "451 4.7.1 Greylisted"; one with 421 closes the connection as well.
    """

    at: str
    reply: str | None = None
    times: int = 1
    delay_seconds: float = 0


class WebhookCall(Struct, frozen=True):
    """The last call of a webhook; ``result`` is the status of the answer, or why there was none."""

    at: Time
    result: str = ""


class Webhook(Struct, frozen=True, omit_defaults=True):
    """Who is called when something happens: ``events`` are "message", "verdict" and "expired".

    A message counts if it has all of ``has`` ("code", "link", "attachment"). The service fills in the rest, ``secret``
    (which signs the calls) only when the webhook is set. ``failures`` are those in a row.
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
    """An address; ``token`` only in the answer to create, ``faults`` and ``webhook`` only where they are allowed."""

    address: str
    expires_at: Time
    token: str | None = None
    faults: tuple[Fault, ...] = ()
    webhook: Webhook | None = None
    created_at: Time | None = None

    def __repr__(self) -> str:
        return f"Address({self.address!r}, expires_at={self.expires_at.isoformat()})"


class Code(Struct, frozen=True):
    """A one-time password or verification code, as one would type it; ``confidence`` is between 0 and 1."""

    value: str
    confidence: float = 0.0


class Link(Struct, frozen=True):
    """A link to the web, ``href`` exactly as in the mail; ``confidence`` (0 to 1) is that it is the one to follow."""

    href: str
    text: str = ""
    confidence: float = 0.0


class BodyLink(Struct, frozen=True):
    """A web address in a text, ``text[start:end]``."""

    start: int
    end: int
    href: str = ""


class AttachmentItem(Struct, frozen=True):
    """What is known of an attachment without fetching it; size and hash are of its decoded content."""

    index: int
    filename: str = ""
    content_type: str = "application/octet-stream"
    size_bytes: int = field(name="size", default=0)
    sha256: str = ""
    is_inline: bool = field(name="inline", default=False)
    content_id: str | None = None


LIKELY = 0.3
"""From this confidence on a link is one to follow, for every client and on the page (docs/api.md)."""


class Message(Struct, frozen=True):
    """A message as a list shows it.

    ``id`` sorts by arrival. ``sender`` is the bare address (``""`` without one), ``recipient`` the envelope's as the
    sender wrote it. ``size_bytes`` is that of the source. ``text`` is cut where ``truncated`` is true. ``dmarc`` is the
    result by which ``authenticated`` is known, None before that. ``recipients`` are the envelope's, in the list of all
    messages alone.
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
        """The link to follow, if one of them is likely to be that."""
        return self.links[0].href if self.links and self.links[0].confidence >= LIKELY else None


class MessageList(Struct, frozen=True):
    """A page of messages; ``reason`` says why a wait found none."""

    messages: tuple[Message, ...]
    reason: str = ""


class DeletedMessages(Struct, frozen=True):
    """How many messages a request has deleted."""

    deleted: int


class Person(Struct, frozen=True):
    """A mailbox that a header field names."""

    address: str = ""
    name: str = ""


class Envelope(Struct, frozen=True):
    """The SMTP transaction that brought a message."""

    sender: str = field(name="from", default="")
    recipient: str = field(name="to", default="")
    helo: str = ""
    remote_ip: str = ""
    tls: bool = False


class SessionRecipient(Struct, frozen=True):
    """An address that the sender named, and when it was accepted (RCPT)."""

    address: str
    accepted_at: Time


class Handover(Struct, frozen=True):
    """How a mail was handed over over SMTP; ``recipients`` are this inbox's alone.

    ``tls_version`` and ``tls_cipher`` are None without TLS, ``auth`` (the mechanism) without a login. ``parameters``
    are those of MAIL, as they were written.
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
    """What one method says of the sender: the word of RFC 8601, and why. Not every method fills every field.

    ``unsigned`` names those of the fields "date" and "message-id" that anyone may have changed all the same.
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
    """What the service's resolver said to a question."""

    name: str
    type: str
    answer: str = ""


class Authentication(Struct, frozen=True):
    """Who sent a mail, so far as the DNS can tell; ``dns`` are the answers that the service saw."""

    spf: Verdict
    dkim: tuple[Verdict, ...]
    dmarc: Verdict
    arc: Verdict
    dns: tuple[DnsAnswer, ...] = ()

    def __str__(self) -> str:
        signed = [f"DKIM: {one}" for one in self.dkim] or ["DKIM: no signature"]
        asked = [f"DNS: {one.name} {one.type}: {one.answer}" for one in self.dns]
        return "\n".join([f"DMARC: {self.dmarc}", f"SPF: {self.spf}", *signed, *asked])


class Details(Struct, frozen=True):
    """What only a message that is asked for alone shows; its ``text`` is never cut.

    ``html`` is as it was received (None without), ``headers`` are pairs of name and decoded value, in order, ``date``
    is what the Date field says, ``warnings`` tell what the parser had to forgive. ``body_links`` are the web addresses
    in ``text``, in order.
    ``session`` is None where the mail did not come over SMTP, ``authentication`` until it is known who sent it.
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
    """The domains that addresses can be created at; the first is the default."""

    domains: tuple[str, ...]


class Refusal(Struct, frozen=True):
    """A command of an SMTP client that was refused, or how a connection ended that brought no mail."""

    at: Time
    client: str = ""
    command: str = ""
    reason: str = ""


class RefusalList(Struct, frozen=True):
    """What was refused lately, oldest first."""

    refusals: tuple[Refusal, ...]


class View(Struct, frozen=True):
    """Where a message can be looked at: ``url`` is a path."""

    url: str


class Deletion(Struct, frozen=True):
    """What a ``deleted`` event says: which message, or, without an id, that it was the address."""

    id: str | None = None


class Extension(Struct, frozen=True):
    """What an ``extended`` event says."""

    expires_at: Time


class ProblemDocument(Struct, frozen=True):
    """A problem document (RFC 9457 §3); without ``code`` it is not one of ours."""

    code: str
    detail: str = ""
    errors: tuple[dict[str, object], ...] = ()
