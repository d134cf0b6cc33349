"""The responses of API version 1 as types, from which the OpenAPI document is generated, and their serializer.

Requests are in ``inputs.py``.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, get_args
from urllib.parse import quote

from msgspec import UNSET, Meta, Struct, UnsetType, field, json

from tmpmaild import model
from tmpmaild.http.inputs import EXAMPLE_DOMAIN, FaultItem, MessageId
from tmpmaild.inboxes.access import ALL_MAIL
from tmpmaild.inboxes.counting import recipients_of
from tmpmaild.inboxes.filtering import rest_of
from tmpmaild.inboxes.following import BacklogShown, Event, InboxExpired
from tmpmaild.inboxes.reading import ShownMessage
from tmpmaild.inboxes.viewing import Grant
from tmpmaild.model import (
    Authentication,
    Envelope,
    Feature,
    Inbox,
    Listing,
    Message,
    Page,
    Person,
    Webhook,
    WebhookEvent,
    WebhookState,
    rfc3339,
)

Time = Annotated[str, Meta(examples=["2026-11-21T03:00:00.000Z"], extra_json_schema={"format": "date-time"})]
Path = Annotated[str, Meta(description="A path under the path of the server's public URL; it never includes a host.")]
Confidence = Annotated[float, Meta(ge=0, le=1, examples=[0.95])]
MailAddressText = Annotated[str, Meta(examples=["no-reply@shop.example"])]
Recipient = Annotated[
    str,
    Meta(description="As written by the sender, including any tag.", examples=[f"k7m3wq9xt2ab+shop@{EXAMPLE_DOMAIN}"]),
]
HeaderField = Annotated[
    Sequence[str],
    # Both keywords are needed: validators and typed clients read "prefixItems", but linters and older generators
    # require a schema in "items".
    Meta(min_length=2, max_length=2, extra_json_schema={"prefixItems": [{"type": "string"}, {"type": "string"}]}),
]

_time = lru_cache(maxsize=4096)(rfc3339)  # a polling client receives the same times repeatedly


class WebhookCall(Struct, frozen=True):
    """The most recent call to a webhook."""

    at: Time
    result: Annotated[
        str, Meta(description="The response status, or the reason why there was no response.", examples=["204"])
    ]


class WebhookItem(Struct, frozen=True):
    """The webhook of an address, and the state of its calls."""

    url: Annotated[str, Meta(examples=["https://hooks.example.org/mail"])]
    events: list[WebhookEvent]
    has: list[Feature]
    failures: Annotated[int, Meta(description="The number of consecutive failed calls.", examples=[0])]
    last_call: WebhookCall | None
    next_call_at: Annotated[Time | None, Meta(description="Null unless the last call failed.")]
    secret: (
        Annotated[
            str,
            Meta(
                description="The secret that signs the calls. Present only in the response to the request that set it.",
                examples=["whsec_…"],
            ),
        ]
        | UnsetType
    ) = UNSET


class AddressResource(Struct, frozen=True):
    """An address. ``token`` is present only on creation; ``faults`` and ``webhook`` require the token."""

    address: Annotated[str, Meta(examples=[f"k7m3wq9xt2ab@{EXAMPLE_DOMAIN}"])]
    created_at: Time
    expires_at: Time
    extendable_until: Annotated[Time, Meta(description="The latest time to which `expires_at` can be set.")]
    private: bool
    message_count: Annotated[int, Meta(examples=[1])]
    token: (
        Annotated[
            str,
            Meta(description="Present only in the response to the request that created the address.", examples=["…"]),
        ]
        | UnsetType
    ) = UNSET
    faults: (
        Annotated[
            list[FaultItem],
            Meta(description="The pending faults; present only with the token, and if the operator allows faults."),
        ]
        | UnsetType
    ) = UNSET
    webhook: (
        Annotated[
            WebhookItem | None,
            Meta(description="The webhook; present only with the token, and if the operator allows webhooks."),
        ]
        | UnsetType
    ) = UNSET


class AttachmentItem(Struct, frozen=True, gc=False):
    """An attachment; size and hash refer to its decoded content."""

    index: int
    filename: Annotated[str, Meta(examples=["terms.pdf"])]
    content_type: Annotated[str, Meta(examples=["application/pdf"])]
    size: Annotated[int, Meta(examples=[48213])]
    sha256: str
    inline: Annotated[
        bool, Meta(description="Whether the attachment is an image that the HTML refers to by its `content_id`.")
    ]
    content_id: str | None
    url: Path


class CodeItem(Struct, frozen=True, gc=False):
    """A one-time password or verification code, as a person would type it."""

    value: Annotated[str, Meta(examples=["481516"])]
    confidence: Confidence


class LinkItem(Struct, frozen=True, gc=False):
    """A web link; ``confidence`` is the likelihood that the message asks its reader to follow it."""

    href: Annotated[str, Meta(examples=["https://shop.example/confirm?token=a1b2c3"])]
    text: Annotated[str, Meta(examples=["Confirm my address"])]
    confidence: Confidence


class BodyLinkItem(Struct, frozen=True, gc=False):
    """A web address in the body of a message, from ``start`` to ``end`` in Unicode code points."""

    start: Annotated[int, Meta(examples=[21])]
    end: Annotated[int, Meta(examples=[50])]
    href: Annotated[str, Meta(examples=["https://shop.example/verify/1"])]


class MessageItem(Struct, frozen=True, gc=False):
    """A message in a list; ``to`` is the envelope's recipient as written."""

    id: MessageId
    sender: Annotated[
        MailAddressText,
        Meta(description="The bare address; empty if neither the header nor the envelope has an address."),
    ] = field(name="from")
    from_name: Annotated[str, Meta(examples=["The Shop"])]
    to: Recipient
    subject: Annotated[str, Meta(examples=["Confirm your address"])]
    body: Annotated[str, Meta(examples=["Your code is 481 516.\n"])]
    received_at: Time
    size: Annotated[int, Meta(examples=[2112])]
    has_html: bool
    attachments: list[AttachmentItem]
    codes: list[CodeItem]
    links: list[LinkItem]
    authenticated: Annotated[
        str | None,
        Meta(
            description="The domain of the From field if DMARC verified it; null if DMARC did not verify it, or if the"
            " sender has not been checked.",
            examples=["shop.example"],
        ),
    ]
    dmarc: Annotated[
        str | None,
        Meta(
            description="The DMARC result for the From field: `pass`, `fail`, `none` or `temperror`; null if the sender"
            " has not been checked.",
            examples=["pass"],
        ),
    ]
    recipients: (
        Annotated[list[Recipient], Meta(description="All envelope recipients; present only in lists of all messages.")]
        | UnsetType
    ) = UNSET
    truncated: Annotated[bool, Meta(description="Present and true if the body was cut to 1 KiB.")] | UnsetType = UNSET


class MessageList(Struct, frozen=True):
    """The response to *messages*. It has exactly one member, `messages`, unless the request has `explain=true`."""

    messages: list[MessageItem]
    reason: (
        Annotated[
            str,
            Meta(
                description="Only with `explain=true`: a human-readable reason why a wait found nothing, with the"
                " messages that arrived instead and the refusals.",
                examples=["no message arrived; refused: RCPT TO:<kate@mial.example.com>: 550 5.7.1 Relaying denied"],
            ),
        ]
        | UnsetType
    ) = UNSET


class EnvelopeItem(Struct, frozen=True):
    """The SMTP transaction that delivered a message; ``to`` is only this inbox's recipient."""

    sender: MailAddressText = field(name="from")
    to: Recipient
    helo: Annotated[str, Meta(examples=["mx.shop.example"])]
    remote_ip: Annotated[str, Meta(examples=["192.0.2.7"])]
    tls: bool


class SessionRecipient(Struct, frozen=True):
    """A recipient that the sender specified, and the time when it was accepted (RCPT)."""

    address: Recipient
    accepted_at: Time


class SessionItem(Struct, frozen=True):
    """The SMTP session that delivered a message; ``recipients`` contains only this inbox's recipients."""

    remote_ip: Annotated[str, Meta(examples=["192.0.2.7"])]
    helo: Annotated[str, Meta(examples=["mx.shop.example"])]
    greeting: Annotated[str, Meta(description="`EHLO` or `HELO`.", examples=["EHLO"])]
    tls_version: Annotated[str | None, Meta(description="Null without TLS.", examples=["TLSv1.3"])]
    tls_cipher: Annotated[str | None, Meta(examples=["TLS_AES_256_GCM_SHA384"])]
    auth: Annotated[str | None, Meta(description="The login mechanism; null without a login.", examples=["PLAIN"])]
    parameters: Annotated[
        list[str],
        Meta(
            description="The ESMTP parameters of the MAIL command, as written.",
            examples=[["SIZE=2112", "BODY=8BITMIME"]],
        ),
    ]
    recipients: list[SessionRecipient]
    data_at: Annotated[Time, Meta(description="When DATA was accepted.")]
    committed_at: Annotated[Time, Meta(description="When the message was written to disk; the same as `received_at`.")]


class FullMessageItem(MessageItem, frozen=True, gc=False, kw_only=True):
    """One message with all its parts."""

    body_links: Annotated[
        list[BodyLinkItem],
        Meta(description="The web addresses in `body`, in order; at most 1,000, from the first 128 Ki characters."),
    ]
    html: Annotated[str | None, Meta(description="As received: never insert it into a page without sanitising it.")]
    headers: Annotated[
        list[HeaderField], Meta(description="The name and decoded value of each header field, in order.")
    ]
    cc: list[Person]
    reply_to: list[Person]
    date: Annotated[Time | None, Meta(description="The time in the Date field.")]
    message_id: Annotated[str, Meta(description="The Message-ID field, without angle brackets.")]
    envelope: EnvelopeItem
    authentication: Annotated[Authentication | None, Meta(description="Null if the sender has not been checked.")]
    session: Annotated[SessionItem | None, Meta(description="Null for a message that did not arrive over SMTP.")]
    raw_url: Path
    warnings: Annotated[list[str], Meta(description="Errors in the message that the parser tolerated.")]


class EndedAddress(Struct, frozen=True):
    """The address that has expired."""

    address: str


class WebhookMessage(Struct, frozen=True):
    """The body of a webhook call about a message."""

    type: Annotated[str, Meta(extra_json_schema={"enum": ["message.received", "verdict.reached"]})]
    timestamp: Time
    data: MessageItem


class WebhookExpiry(Struct, frozen=True):
    """The body of a webhook call about an expired address."""

    type: Annotated[str, Meta(extra_json_schema={"enum": ["inbox.expired"]})]
    timestamp: Time
    data: EndedAddress


class ViewItem(Struct, frozen=True):
    """The path at which the sanitised HTML of a message can be viewed for a minute."""

    url: Path
    expires_at: Time
    remote_images: Annotated[int, Meta(description="The number of remote images in the message.")]


class FeedItem(Struct, frozen=True):
    """The path at which the messages of an address can be read as a feed, until the address expires."""

    url: Path
    expires_at: Time


class DomainList(Struct, frozen=True):
    """The domains in which addresses can be created, the default domain first, and the lifetimes of addresses."""

    domains: Annotated[list[str], Meta(examples=[[EXAMPLE_DOMAIN]])]
    lifetime_seconds: Annotated[int, Meta(description="The default lifetime of an address.", examples=[3600])]
    max_lifetime_seconds: Annotated[
        int, Meta(description="The longest lifetime that can be requested, counted from creation.", examples=[3600])
    ]
    catch_all: (
        Annotated[bool, Meta(description="Present and true if every recipient is accepted, at any domain.")] | UnsetType
    ) = UNSET


class RecipientItem(Struct, frozen=True):
    """A recipient of caught messages."""

    address: Recipient
    message_count: Annotated[int, Meta(examples=[12])]


class RecipientList(Struct, frozen=True):
    """The total number of caught messages, and their recipients, starting with the recipient of the newest message."""

    message_count: Annotated[int, Meta(description="The total number of messages.", examples=[32])]
    recipients: Annotated[
        list[RecipientItem],
        Meta(description="The 1,000 latest recipients; addresses that differ only in case count as one recipient."),
    ]


class RefusalItem(Struct, frozen=True):
    """A refused command of an SMTP client, or the end of a connection that delivered no message."""

    at: Time
    client: Annotated[str, Meta(description="Its IP address.", examples=["127.0.0.1"])]
    command: Annotated[
        str,
        Meta(
            description="The refused command, without the arguments of AUTH; empty if unknown.",
            examples=[f"RCPT TO:<k7m3wq9xt2ab@{EXAMPLE_DOMAIN}>"],
        ),
    ]
    reason: Annotated[
        str, Meta(description="The reply, or a description of the event.", examples=["550 5.1.1 No such address here"])
    ]


class RefusalList(Struct, frozen=True):
    """The last 100 refusals, oldest first."""

    refusals: list[RefusalItem]


class Deletion(Struct, frozen=True):
    """The message that was deleted, or the address if there is no id."""

    id: MessageId | UnsetType = UNSET


class DeletedMessages(Struct, frozen=True):
    """The response to a deletion request."""

    deleted: Annotated[int, Meta(description="The number of deleted messages.", examples=[32])]


class Checked(Struct, frozen=True):
    """A message whose sender has been checked."""

    id: MessageId
    dmarc: str
    authenticated: str | None


class Extension(Struct, frozen=True):
    """The new expiry of the address."""

    expires_at: Time


class Nothing(Struct, frozen=True):
    """The empty data of an event."""


class Serializer:
    """Converts the service's types to the JSON forms. Paths start with ``base_path``.

    ``base_path`` is the path of ``http.public_url``, and ``origin`` is the rest of that URL; both are "" if it is not
    set.
    """

    def __init__(self, base_path: str, origin: str = "") -> None:
        self.base_path = base_path
        self.origin = origin

    def address(self, inbox: Inbox, extendable_until_ms: int) -> AddressResource:
        """Return an address."""
        return AddressResource(
            address=inbox.address,
            created_at=rfc3339(inbox.created_at_ms),
            expires_at=rfc3339(inbox.expires_at_ms),
            extendable_until=rfc3339(extendable_until_ms),
            private=inbox.private,
            message_count=inbox.message_count,
        )

    def webhook(self, webhook: Webhook, state: WebhookState) -> WebhookItem:
        """Return a webhook without its secret."""
        called_at_ms = state.called_at_ms
        return WebhookItem(
            url=webhook.url,
            events=[one for one in get_args(WebhookEvent) if one in webhook.events],
            has=sorted(webhook.has),
            failures=state.failures,
            last_call=None if called_at_ms is None else WebhookCall(rfc3339(called_at_ms), state.result),
            next_call_at=rfc3339(state.next_at_ms) if state.failures else None,
        )

    def message_list(self, listing: Listing) -> MessageList:
        """Return a page of messages."""
        return MessageList([self._message(listing.inbox.address, message) for message in listing.messages])

    def full_message(self, shown: ShownMessage) -> FullMessageItem:
        """Return one message with all its members."""
        full, details, address = shown.full, shown.details, shown.inbox.address
        envelope = full.envelope
        item = self._message(address, full.message)
        return FullMessageItem(
            **{name: getattr(item, name) for name in item.__struct_fields__},
            body_links=[BodyLinkItem(one.start, one.end, one.href) for one in shown.body_links],
            html=full.html,
            headers=list(full.headers),
            cc=list(details.cc),
            reply_to=list(details.reply_to),
            date=None if details.date_ms is None else rfc3339(details.date_ms),
            message_id=details.message_id,
            envelope=EnvelopeItem(envelope.sender, item.to, envelope.helo, envelope.remote_ip, envelope.tls),
            authentication=full.message.authentication,
            session=_session(envelope, full.message.received_at_ms),
            raw_url=f"{self._message_path(address, full.message.id)}/raw",
            warnings=list(full.warnings),
        )

    def event(  # noqa: PLR0911 - one return for each event
        self, address: str, event: Event, extendable_until_ms: Callable[[Inbox], int]
    ) -> tuple[str, Struct]:
        """Return the name and the data of an event."""
        match event:
            case Message():
                return "message", self._message(address, event)
            case model.MessageDeleted():
                return "deleted", Deletion(event.message_id)
            case model.InboxDeleted():
                return "deleted", Deletion()
            case model.VerdictReached():
                return "verdict", Checked(event.message_id, event.dmarc, event.authenticated)
            case model.ExpiryMoved():
                return "extended", Extension(rfc3339(event.expires_at_ms))
            case BacklogShown():
                return "inbox", self.address(event.inbox, extendable_until_ms(event.inbox))
            case InboxExpired():
                return "expired", Nothing()

    def webhook_body(self, kind: str, at_ms: int, address: str, message: Message | None) -> bytes:
        """Return the body of a webhook call; without a message, the call is about the expired inbox."""
        at = rfc3339(at_ms)
        if message is None:
            return json.encode(WebhookExpiry(kind, at, EndedAddress(address)))
        return json.encode(WebhookMessage(kind, at, self._message(address, message)))

    def view(self, secret: str, grant: Grant, remote_images: int) -> ViewItem:
        """Return the view of a message."""
        return ViewItem(self.view_path(secret), rfc3339(grant.expires_at_ms), remote_images)

    def view_path(self, secret: str) -> str:
        """Return the path of a view."""
        return f"{self.base_path}/view/{secret}"

    def address_path(self, address: str) -> str:
        """Return the path of an address, which is the parent path of its messages; it never includes a host."""
        if address == ALL_MAIL:
            return f"{self.base_path}/api/v1"
        return f"{self.base_path}/api/v1/addresses/{quote(address, safe='@')}"

    def feed(self, inbox: Inbox, secret: str | None) -> FeedItem:
        """Return the path of an address's feed; with a secret, no token is needed."""
        return FeedItem(self.feed_path(inbox.address, secret), rfc3339(inbox.expires_at_ms))

    def feed_path(self, address: str, secret: str | None) -> str:
        """Return the path of a feed."""
        return f"{self.address_path(address)}/feed" + (f"/{quote(secret, safe='')}" if secret else "")

    def next_page_link(self, listing: Listing, page: Page) -> str:
        """Return the Link field (RFC 8288) to the next page."""
        rest = rest_of(page, listing.examined_to or listing.messages[-1].id)
        query = [
            ("limit", str(rest.limit)),
            ("order", "asc" if rest.ascending else None),
            ("from", rest.sender),
            ("subject", rest.subject),
            ("q", rest.text),
            ("to", rest.recipient),
            *[("has", feature) for feature in sorted(rest.has)],
            ("after", rest.after),
            ("before", rest.before),
        ]
        joined = "&".join(f"{name}={quote(value, safe='')}" for name, value in query if value)
        return f'<{self.address_path(listing.inbox.address)}/messages?{joined}>; rel="next"'

    def _message_path(self, address: str, message_id: str) -> str:
        return f"{self.address_path(address)}/messages/{message_id}"

    def _message(self, address: str, message: Message) -> MessageItem:
        authentication, findings = message.authentication, message.findings
        recipients = recipients_of(message.recipient) if address == ALL_MAIL else UNSET
        return MessageItem(
            id=message.id,
            sender=message.from_address,
            from_name=message.from_name,
            to=recipients[0] if recipients else message.recipient,
            recipients=recipients,
            subject=message.subject,
            body=message.body,
            received_at=_time(message.received_at_ms),
            size=message.size_bytes,
            has_html=message.has_html,
            attachments=[self._attachment(address, message.id, attachment) for attachment in message.attachments],
            codes=[CodeItem(code.value, code.confidence) for code in findings.codes],
            links=[LinkItem(link.href, link.text, link.confidence) for link in findings.links],
            authenticated=authentication.authenticated if authentication else None,
            dmarc=authentication.dmarc.result if authentication else None,
            truncated=True if message.truncated else UNSET,
        )

    def _attachment(self, address: str, message_id: str, attachment: model.Attachment) -> AttachmentItem:
        url = f"{self._message_path(address, message_id)}/attachments/{attachment.index}"
        return AttachmentItem(
            index=attachment.index,
            filename=attachment.filename,
            content_type=attachment.content_type,
            size=attachment.size_bytes,
            sha256=attachment.sha256,
            inline=attachment.inline,
            content_id=attachment.content_id,
            url=url,
        )


def _session(envelope: Envelope, received_at_ms: int) -> SessionItem | None:
    session = envelope.session
    if not session.greeting:
        return None
    return SessionItem(
        remote_ip=envelope.remote_ip,
        helo=envelope.helo,
        greeting=session.greeting,
        tls_version=session.tls_version or None,
        tls_cipher=session.tls_cipher or None,
        auth=session.auth or None,
        parameters=session.parameters.split(),
        recipients=[SessionRecipient(one.address, rfc3339(one.at_ms)) for one in session.recipients],
        data_at=rfc3339(session.data_at_ms),
        committed_at=rfc3339(received_at_ms),
    )
