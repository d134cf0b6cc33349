"""Turns what the service returns into the JSON forms of ``schemas.py``."""

from collections.abc import Callable
from functools import lru_cache
from typing import get_args
from urllib.parse import quote
from weakref import ReferenceType

from msgspec import UNSET, Struct, json

from tmpmaild import model
from tmpmaild.http import schemas
from tmpmaild.http.atom import FeedUrls
from tmpmaild.inboxes.filtering import rest_of
from tmpmaild.inboxes.following import BacklogShown, Event, InboxExpired
from tmpmaild.inboxes.reading import ShownMessage
from tmpmaild.inboxes.viewing import Grant
from tmpmaild.model import Envelope, Inbox, Listing, Message, Page
from tmpmaild.times import rfc3339
from tmpmaild.webhookmodel import Webhook, WebhookEvent, WebhookState

_time = lru_cache(maxsize=4096)(rfc3339)  # a client that polls gets the same times again


class Wire:
    """Turns what the service returns into JSON forms; paths are below ``base_path``, that of ``http.public_url``.

    ``origin`` is the rest of that, "" if it is not set.
    """

    def __init__(self, base_path: str, origin: str = "") -> None:
        self.base_path = base_path
        self._origin = origin
        self._pages: dict[int, tuple[ReferenceType[Listing], bytes]] = {}

    def address(self, inbox: Inbox, extendable_until_ms: int) -> schemas.AddressResource:
        """Return an address."""
        return schemas.AddressResource(
            address=inbox.address,
            created_at=rfc3339(inbox.created_at_ms),
            expires_at=rfc3339(inbox.expires_at_ms),
            extendable_until=rfc3339(extendable_until_ms),
            private=inbox.private,
            message_count=inbox.message_count,
        )

    def webhook(self, webhook: Webhook, state: WebhookState) -> schemas.WebhookItem:
        """Return a webhook without its secret."""
        called_at_ms = state.called_at_ms
        return schemas.WebhookItem(
            webhook.url,
            [one for one in get_args(WebhookEvent) if one in webhook.events],
            sorted(webhook.has),
            state.failures,
            None if called_at_ms is None else schemas.WebhookCall(rfc3339(called_at_ms), state.result),
            rfc3339(state.next_at_ms) if state.failures else None,
        )

    def message_list(self, listing: Listing) -> schemas.MessageList:
        """Return a page of messages."""
        return schemas.MessageList([self._message(listing.inbox.address, message) for message in listing.messages])

    def page(self, listing: Listing) -> bytes:
        """Return a page of messages as JSON, made once for as long as the page is remembered."""
        kept, key = self._pages.get(id(listing)), id(listing)
        if kept is not None and kept[0]() is listing:
            return kept[1]
        body = json.encode(self.message_list(listing))
        self._pages[key] = ReferenceType(listing, lambda _: self._pages.pop(key, None)), body
        return body

    def full_message(self, shown: ShownMessage) -> schemas.FullMessageItem:
        """Return one message, whole."""
        full, details, address = shown.full, shown.details, shown.inbox.address
        envelope = full.envelope
        item = self._message(address, full.message)
        return schemas.FullMessageItem(
            **{name: getattr(item, name) for name in item.__struct_fields__},
            html=full.html,
            headers=list(full.headers),
            cc=list(details.cc),
            reply_to=list(details.reply_to),
            date=None if details.date_ms is None else rfc3339(details.date_ms),
            message_id=details.message_id,
            envelope=schemas.EnvelopeItem(
                envelope.sender, envelope.recipients[0], envelope.helo, envelope.remote_ip, envelope.tls
            ),
            authentication=full.message.authentication,
            session=_session(envelope, full.message.received_at_ms),
            raw_url=f"{self._message_path(address, full.message.id)}/raw",
            warnings=list(full.warnings),
        )

    def event(  # noqa: PLR0911 - one for each event
        self, address: str, event: Event, extendable_until_ms: Callable[[Inbox], int]
    ) -> tuple[str, Struct]:
        """Return the name and the data of an event."""
        match event:
            case Message():
                return "message", self._message(address, event)
            case model.MessageDeleted():
                return "deleted", schemas.Deletion(event.message_id)
            case model.InboxDeleted():
                return "deleted", schemas.Deletion()
            case model.VerdictReached():
                return "verdict", schemas.Checked(event.message_id, event.dmarc, event.authenticated)
            case model.ExpiryMoved():
                return "extended", schemas.Extension(rfc3339(event.expires_at_ms))
            case BacklogShown():
                return "inbox", self.address(event.inbox, extendable_until_ms(event.inbox))
            case InboxExpired():
                return "expired", schemas.Nothing()

    def webhook_body(self, kind: str, at_ms: int, address: str, message: Message | None) -> bytes:
        """Return the JSON document that a webhook is told; without a message its inbox has ended."""
        at = rfc3339(at_ms)
        if message is None:
            return json.encode(schemas.WebhookExpiry(kind, at, schemas.EndedAddress(address)))
        return json.encode(schemas.WebhookMessage(kind, at, self._message(address, message)))

    def view(self, secret: str, grant: Grant, remote_images: int) -> schemas.ViewItem:
        """Return the view of a message."""
        return schemas.ViewItem(self.view_path(secret), rfc3339(grant.expires_at_ms), remote_images)

    def view_path(self, secret: str) -> str:
        """Return the path of a view."""
        return f"{self.base_path}/view/{secret}"

    def address_path(self, address: str) -> str:
        """Return the path of an address; never with a host."""
        return f"{self.base_path}/api/v1/addresses/{quote(address, safe='@')}"

    def feed(self, inbox: Inbox, secret: str | None) -> schemas.FeedItem:
        """Return where the feed of an address is; with a secret no token is needed."""
        return schemas.FeedItem(self._feed_path(inbox.address, secret), rfc3339(inbox.expires_at_ms))

    def feed_urls(self, address: str, secret: str | None) -> FeedUrls:
        """Return what a feed refers to; without an origin paths, which are relative to the feed."""
        inbox, messages = f"{self.base_path}/#{quote(address, safe='@')}", f"{self.address_path(address)}/messages"
        return FeedUrls(*[f"{self._origin}{path}" for path in (self._feed_path(address, secret), inbox, messages)])

    def _feed_path(self, address: str, secret: str | None) -> str:
        return f"{self.address_path(address)}/feed" + (f"/{quote(secret, safe='')}" if secret else "")

    def next_page_link(self, listing: Listing, page: Page) -> str:
        """Return the Link field (RFC 8288) to the next page."""
        rest = rest_of(page, listing.looked_to or listing.messages[-1].id)
        query = [
            ("limit", str(rest.limit)),
            ("order", "asc" if rest.ascending else None),
            ("from", rest.sender),
            ("subject", rest.subject),
            ("q", rest.text),
            *[("has", held) for held in sorted(rest.has)],
            ("after", rest.after),
            ("before", rest.before),
        ]
        joined = "&".join(f"{name}={quote(value, safe='')}" for name, value in query if value)
        return f'<{self.address_path(listing.inbox.address)}/messages?{joined}>; rel="next"'

    def _message_path(self, address: str, message_id: str) -> str:
        return f"{self.address_path(address)}/messages/{message_id}"

    def _message(self, address: str, message: Message) -> schemas.MessageItem:
        return schemas.MessageItem(
            message.id,
            message.from_address,
            message.from_name,
            message.recipient,
            message.subject,
            message.body,
            _time(message.received_at_ms),
            message.size_bytes,
            message.has_html,
            [self._attachment(address, message.id, attachment) for attachment in message.attachments],
            [schemas.CodeItem(code.value, code.confidence) for code in message.findings.codes],
            [schemas.LinkItem(link.href, link.text, link.confidence) for link in message.findings.links],
            message.authentication.authenticated if message.authentication else None,
            message.authentication.dmarc.result if message.authentication else None,
            truncated=True if message.truncated else UNSET,
        )

    def _attachment(self, address: str, message_id: str, attachment: model.Attachment) -> schemas.AttachmentItem:
        url = f"{self._message_path(address, message_id)}/attachments/{attachment.index}"
        return schemas.AttachmentItem(
            attachment.index,
            attachment.filename,
            attachment.content_type,
            attachment.size_bytes,
            attachment.sha256,
            attachment.inline,
            attachment.content_id,
            url,
        )


def _session(envelope: Envelope, received_at_ms: int) -> schemas.SessionItem | None:
    session = envelope.session
    if not session.greeting:
        return None
    return schemas.SessionItem(
        remote_ip=envelope.remote_ip,
        helo=envelope.helo,
        greeting=session.greeting,
        tls_version=session.tls_version or None,
        tls_cipher=session.tls_cipher or None,
        auth=session.auth or None,
        parameters=session.parameters.split(),
        recipients=[schemas.SessionRecipient(one.address, rfc3339(one.at_ms)) for one in session.recipients],
        data_at=rfc3339(session.data_at_ms),
        committed_at=rfc3339(received_at_ms),
    )
