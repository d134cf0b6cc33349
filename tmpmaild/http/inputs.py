"""Types that describe and validate the bodies and queries of API requests, and their conversion to service types.

``validation.py`` reads them. The responses are in ``schemas.py``.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from tmpmaild.inboxes.faults import MOST_FAULTS, Fault, Step
from tmpmaild.model import Feature, Page, WebhookEvent
from tmpmaild.webhooktargets import MOST_URL_CHARACTERS

EXAMPLE_DOMAIN = "mail.example.com"
"""The domain in all examples here and in ``schemas.py``; ``openapi.py`` replaces it with a domain of the server."""


def _takes(
    expected: str,
    description: str,
    *examples: object,
    pattern: str | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
) -> Meta:
    """Describe a value: ``expected`` for the error on an invalid value, ``description`` for the OpenAPI document."""
    return Meta(
        description=description,
        examples=list(examples) or None,
        extra={"expected": expected},
        pattern=pattern,
        min_length=min_length,
        max_length=max_length,
    )


def _text(description: str, example: str) -> Meta:
    return _takes("a string", description, example)


def _switch(description: str) -> Meta:
    return _takes("true or false", description)


def _number(lowest: int, highest: int | None, description: str, example: int) -> Meta:
    expected = f"a number from {lowest} to {highest}" if highest is not None else f"a number of {lowest} or more"
    return Meta(description=description, examples=[example], extra={"expected": expected}, ge=lowest, le=highest)


MessageId = Annotated[
    str,
    Meta(
        pattern=r"^msg_[0-7][0-9a-hjkmnp-tv-z]{25}$",
        min_length=30,  # the end of a pattern also matches before a line end
        max_length=30,
        examples=["msg_01m7y0sgyf0000000000000000"],
        extra={"expected": "a message id"},
    ),
]


Has = Annotated[
    list[Feature],
    _takes(
        "up to four of code, link, attachment and verdict",
        "What a message must have: a code, a link, an attachment that is not inline, a verdict.",
        ["code"],
        max_length=4,
    ),
]


class FaultItem(Struct, frozen=True):
    """A fault for the next messages; with only a delay, the usual reply comes late."""

    at: Annotated[
        Step,
        _takes(
            "rcpt, data or end", "What fails: RCPT, DATA, or the end of the message, which is then not stored.", "rcpt"
        ),
    ]
    reply: (
        Annotated[
            str,
            _takes(
                "a code from 400 to 599, a space, and 1 to 400 printable characters of ASCII",
                "The reply of the server; `421` also closes the connection.",
                "451 4.7.1 Greylisted",
                pattern=r"^[45][0-9]{2} [ -~]{1,400}(?![\s\S])$",
            ),
        ]
        | UnsetType
    ) = UNSET
    times: Annotated[int, _number(1, 100, "How many times it occurs; then come the usual replies.", 2)] = 1
    delay_seconds: Annotated[float, _number(0, 60, "How long the reply is delayed.", 3)] = 0


Faults = Annotated[
    list[FaultItem],
    _takes(
        f"a list of up to {MOST_FAULTS} objects",
        "For the next messages, replacing earlier faults; if the operator has set `smtp.faults`.",
        [],
        max_length=MOST_FAULTS,
    ),
]


class WebhookRequest(Struct, frozen=True):
    """A webhook, which is called when something happens to an address."""

    url: Annotated[
        str,
        _takes(
            f"a string of up to {MOST_URL_CHARACTERS} characters",
            "A URL that the operator allows, without user information and fragment.",
            "https://hooks.example.org/mail",
            max_length=MOST_URL_CHARACTERS,
        ),
    ]
    events: Annotated[
        list[WebhookEvent],
        _takes(
            "one to three of message, verdict and expired",
            "A message was received, its sender was checked, the address expired; default `message`.",
            ["message", "expired"],
            min_length=1,
            max_length=3,
        ),
    ] = field(default_factory=lambda: ["message"])
    has: Annotated[
        list[Literal["code", "link", "attachment"]],
        _takes(
            "up to three of code, link and attachment", "Only messages that have all of these.", ["code"], max_length=3
        ),
    ] = []


NewWebhook = Annotated[
    WebhookRequest | None,
    _takes(
        "an object or null",
        "Replaces the webhook; null removes it. If the operator has set `webhooks.allow`.",
    ),
]


class CreateRequest(Struct, frozen=True):
    """The properties of a new address; all are optional."""

    local_part: (
        Annotated[
            str,
            _text(
                "3 to 64 of `a-z 0-9 . _ -`, a letter or digit at both ends, no two dots together; in any case.",
                "signup-test",
            ),
        ]
        | UnsetType
    ) = UNSET
    domain: Annotated[str, _text("One of the server's domains; default the first.", EXAMPLE_DOMAIN)] | UnsetType = UNSET
    private: Annotated[bool, _switch("Whether reading needs the token too.")] = False
    expires_in_seconds: (
        Annotated[int, _number(1, None, "The lifetime, up to `max_lifetime_seconds`; default `lifetime_seconds`.", 600)]
        | UnsetType
    ) = UNSET
    faults: Faults | UnsetType = UNSET
    webhook: NewWebhook | UnsetType = UNSET


class ExtendRequest(Struct, frozen=True):
    """The new expiry, faults or webhook of an address; at least one of them."""

    expires_in_seconds: (
        Annotated[int, _number(1, None, "Counted from now; shortening is allowed.", 1800)] | UnsetType
    ) = UNSET
    faults: Faults | UnsetType = UNSET
    webhook: NewWebhook | UnsetType = UNSET


class ViewRequest(Struct, frozen=True):
    """The options of a view."""

    remote_images: Annotated[
        bool, _switch("Load remote images, which reveals to their servers that the message is read.")
    ] = False


class FollowedInbox(Struct, frozen=True):
    """An inbox to follow."""

    address: Annotated[
        str, _text("In any form that accepts mail; its events name it in this form.", f"k7m3wq9xt2ab@{EXAMPLE_DOMAIN}")
    ]
    token: Annotated[str, _text("Needed for a private address.", "…")] | UnsetType = UNSET
    after: Annotated[MessageId, Meta(description="Resume after this message.")] | UnsetType = UNSET
    has: Has | UnsetType = UNSET


class FollowRequest(Struct, frozen=True):
    """The inboxes to follow in one stream, the most important first."""

    inboxes: Annotated[
        list[FollowedInbox], Meta(min_length=1, max_length=20, extra={"expected": "a list of 1 to 20 objects"})
    ]


class PageQuery(Struct, frozen=True):
    """The messages of an inbox to return."""

    limit: Annotated[int, _number(1, 100, "The largest number of messages.", 20)] = 100
    order: Annotated[
        Literal["asc", "desc"], Meta(description="Oldest or newest first.", extra={"expected": "asc or desc"})
    ] = "desc"
    after: Annotated[MessageId, Meta(description="Only messages after this one, which need not exist.")] | None = None
    before: Annotated[MessageId, Meta(description="Only messages before this one, which need not exist.")] | None = None
    sender: Annotated[str, _text("A part of the sender's address or name; case is ignored.", "no-reply@")] = field(
        name="from", default=""
    )
    subject: Annotated[str, _text("A part of the subject; case is ignored.", "confirm")] = ""
    q: Annotated[
        str, _text("A part of sender, subject or the first 64 Ki characters of the text; case is ignored.", "code")
    ] = ""
    has: Has = []
    wait: Annotated[int, _number(0, 50, "Seconds to wait for the first match; then the list is empty.", 30)] = 0
    explain: Annotated[bool, _switch("Whether an empty list after a wait has a `reason`, for people.")] = False


class AllMailQuery(PageQuery, frozen=True):
    """The messages to return, of all."""

    to: Annotated[
        str, _text("A complete recipient of the envelope; case is ignored.", f"anna+shop@{EXAMPLE_DOMAIN}")
    ] = ""


class DeleteQuery(Struct, frozen=True):
    """The messages of an inbox to delete; all messages without parameters."""

    id: Annotated[
        list[MessageId],
        _takes(
            "up to 100 message ids",
            "The ids of the messages; missing messages are not counted. Not together with `up_to`.",
            ["msg_01m7y0sgyf0000000000000000"],
            max_length=100,
        ),
    ] = []
    up_to: (
        Annotated[MessageId, Meta(description="This message and all earlier messages; it need not exist.")] | None
    ) = None


class StreamQuery(Struct, frozen=True):
    """The start of a stream, and its messages."""

    after: (
        Annotated[MessageId, Meta(description="Resume after this message; `Last-Event-ID` takes precedence.")] | None
    ) = None
    has: Has = []


def page(query: PageQuery) -> Page:
    """Convert the parameters of a list to the service's type."""
    return Page(
        after=query.after,
        before=query.before,
        ascending=query.order == "asc",
        limit=query.limit,
        sender=query.sender or None,
        subject=query.subject or None,
        text=query.q or None,
        recipient=(query.to or None) if isinstance(query, AllMailQuery) else None,
        has=frozenset(query.has),
    )


def faults(items: Sequence[FaultItem] | UnsetType) -> tuple[Fault, ...]:
    """Convert faults to the service's type."""
    return tuple(Fault(one.at, one.reply or None, one.times, one.delay_seconds) for one in items or ())


def fault_items(faults: Sequence[Fault]) -> list[FaultItem]:
    """Convert faults to the form of the API."""
    return [FaultItem(one.at, one.reply or UNSET, one.times, one.delay_seconds) for one in faults]


def last_event_id(text: str | None) -> str | None:
    """Return the message id after which a stream resumes; a malformed one is ignored."""
    try:
        return msgspec.convert(text, MessageId)
    except msgspec.ValidationError:
        return None
