"""The JSON forms of API version 1, and how a request becomes the service's words. ``docs/api.md`` describes them."""

import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from tmpmaild import ids
from tmpmaild.errors import InvalidRequest
from tmpmaild.http.problems import BadRequest
from tmpmaild.model import Inbox, Listing, Message, Page
from tmpmaild.service import Wish
from tmpmaild.times import rfc3339

_MAX_LIMIT = 100
_is_number = re.compile(r"[0-9]{1,9}").fullmatch
_time = lru_cache(maxsize=4096)(rfc3339)  # who polls an inbox sees the same times again


class AddressResource(Struct, frozen=True):
    """An address; ``token`` only in the answer to create."""

    address: str
    created_at: str
    expires_at: str
    private: bool
    message_count: int
    token: str | UnsetType = UNSET


class AttachmentItem(Struct, frozen=True, gc=False):
    """What is known of an attachment."""

    index: int
    filename: str
    content_type: str
    size: int
    sha256: str
    inline: bool
    content_id: str | None


class MessageItem(Struct, frozen=True, gc=False):
    """A message in a list; ``to`` is the envelope's recipient as it was written."""

    id: str
    sender: str = field(name="from")
    from_name: str
    to: str
    subject: str
    body: str
    received_at: str
    size: int
    has_html: bool
    attachments: list[AttachmentItem]
    truncated: bool | UnsetType = UNSET


class MessageList(Struct, frozen=True):
    """The answer to *messages*: exactly this one field."""

    messages: list[MessageItem]


def address_resource(inbox: Inbox, token: str | UnsetType = UNSET) -> AddressResource:
    """Turn an inbox into its JSON form."""
    return AddressResource(
        address=inbox.address,
        created_at=rfc3339(inbox.created_at_ms),
        expires_at=rfc3339(inbox.expires_at_ms),
        private=inbox.private,
        message_count=inbox.message_count,
        token=token,
    )


def message_list(listing: Listing) -> MessageList:
    """Turn a page of messages into its JSON form."""
    return MessageList([_message_item(message) for message in listing.messages])


def _message_item(message: Message) -> MessageItem:
    return MessageItem(
        message.id,
        message.from_address,
        message.from_name,
        message.recipient,
        message.subject,
        message.body,
        _time(message.received_at_ms),
        message.size_bytes,
        message.has_html,
        [AttachmentItem(*msgspec.structs.astuple(attachment)) for attachment in message.attachments],
        truncated=True if message.truncated else UNSET,
    )


def read_wish(body: bytes, content_type: str | None) -> Wish:
    """Read the body of create; none at all is the plain wish. Raises ``BadRequest``, ``InvalidRequest``."""
    if not body:
        return Wish()
    if content_type is not None and content_type.partition(";")[0].strip().lower() != "application/json":
        raise BadRequest("unsupported-media-type", "")
    try:
        # Raw, since what is not known is not looked at: a number of 5,000 digits there is nobody's business.
        msgspec.json.decode(body, type=msgspec.Raw)
        return _wish(msgspec.json.decode(body, type=dict[str, msgspec.Raw]))
    except msgspec.ValidationError as error:
        raise InvalidRequest(("", "expected an object")) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadRequest("malformed-request", "The body is no JSON.") from error


def _wish(members: dict[str, msgspec.Raw]) -> Wish:
    expected = {"local_part": (str, "a string"), "domain": (str, "a string"), "private": (bool, "true or false")}
    given = {name: msgspec.json.decode(members[name]) for name in expected if name in members}
    mistakes = [
        (f"/{name}", f"expected {expected[name][1]}")
        for name, value in given.items()
        if not isinstance(value, expected[name][0])
    ]
    if mistakes:
        raise InvalidRequest(*mistakes)
    return Wish(**given)


def read_page(parameters: Mapping[str, str]) -> Page:
    """Read the parameters of a list; unknown ones are ignored. Raises ``InvalidRequest``."""
    mistakes = [
        (name, "expected a message id")
        for name in ("before", "after")
        if name in parameters and not ids.is_message_id(parameters[name])
    ]
    limit = parameters.get("limit", str(_MAX_LIMIT))
    if not _is_number(limit) or not 1 <= int(limit) <= _MAX_LIMIT:
        mistakes.append(("limit", f"expected a number from 1 to {_MAX_LIMIT}"))
    order = parameters.get("order", "desc")
    if order not in ("asc", "desc"):
        mistakes.append(("order", "expected asc or desc"))
    if mistakes:
        raise InvalidRequest(*mistakes)
    return Page(
        after=parameters.get("after"), before=parameters.get("before"), ascending=order == "asc", limit=int(limit)
    )


def address_path(base_path: str, address: str) -> str:
    """Return the path of an address below the path of ``http.public_url``; never with a host."""
    return f"{base_path}/api/v1/addresses/{quote(address, safe='@')}"


def next_page_link(base_path: str, listing: Listing, page: Page) -> str:
    """Return the Link field (RFC 8288) to the page behind this one."""
    last_id = listing.messages[-1].id
    after, before = (last_id, page.before) if page.ascending else (page.after, last_id)
    query = {"limit": str(page.limit), "order": "asc" if page.ascending else None, "after": after, "before": before}
    joined = "&".join(f"{name}={value}" for name, value in query.items() if value)
    return f'<{address_path(base_path, listing.inbox.address)}/messages?{joined}>; rel="next"'
