"""Types that describe and validate the bodies and queries of API requests, and their conversion to service types.

``validation.py`` reads them. The responses are in ``schemas.py``.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from tmpmaild.inboxes.faults import MAX_FAULTS, Fault, Step
from tmpmaild.model import Feature, Page, WebhookEvent
from tmpmaild.webhooktargets import MAX_URL_CHARACTERS

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
    """Describe a value: ``expected`` for the error about an invalid value, ``description`` for the OpenAPI document."""
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
        min_length=30,  # ``$`` also matches before a final line end
        max_length=30,
        examples=["msg_01m7y0sgyf0000000000000000"],
        extra={"expected": "a message id"},
    ),
]


Has = Annotated[
    list[Feature],
    _takes(
        "up to four of code, link, attachment and verdict",
        "Features that a message must have: a code, a link, an attachment that is not inline, a verdict.",
        ["code"],
        max_length=4,
    ),
]


class FaultItem(Struct, frozen=True):
    """A fault for the next messages. If only the delay is set, the usual reply is sent after the delay."""

    at: Annotated[
        Step,
        _takes(
            "rcpt, data or end",
            "The step that fails: RCPT, DATA, or the end of the message (in which case the message is not stored).",
            "rcpt",
        ),
    ]
    reply: (
        Annotated[
            str,
            _takes(
                "a code from 400 to 599, a space, and 1 to 400 printable ASCII characters",
                "The reply of the server; `421` also closes the connection.",
                "451 4.7.1 Greylisted",
                pattern=r"^[45][0-9]{2} [ -~]{1,400}(?![\s\S])$",
            ),
        ]
        | UnsetType
    ) = UNSET
    times: Annotated[int, _number(1, 100, "How many times the fault occurs; after that, replies are normal.", 2)] = 1
    delay_seconds: Annotated[float, _number(0, 60, "The delay of the reply, in seconds.", 3)] = 0


Faults = Annotated[
    list[FaultItem],
    _takes(
        f"a list of up to {MAX_FAULTS} objects",
        "Faults for the next messages; they replace any earlier faults. Available only if the operator has set "
        "`smtp.faults`.",
        [],
        max_length=MAX_FAULTS,
    ),
]


class WebhookRequest(Struct, frozen=True):
    """A webhook that is called for an address's events."""

    url: Annotated[
        str,
        _takes(
            f"a string of up to {MAX_URL_CHARACTERS} characters",
            "A URL that the operator allows, without user information or fragment.",
            "https://hooks.example.org/mail",
            max_length=MAX_URL_CHARACTERS,
        ),
    ]
    events: Annotated[
        list[WebhookEvent],
        _takes(
            "one to three of message, verdict and expired",
            "Events to report: message received, sender checked, or address expired; default `message`.",
            ["message", "expired"],
            min_length=1,
            max_length=3,
        ),
    ] = field(default_factory=lambda: ["message"])
    has: Annotated[
        list[Literal["code", "link", "attachment"]],
        _takes(
            "up to three of code, link and attachment",
            "Only messages that have all of these features.",
            ["code"],
            max_length=3,
        ),
    ] = []


NewWebhook = Annotated[
    WebhookRequest | None,
    _takes(
        "an object or null",
        "Replaces the webhook; null removes it. Available only if the operator has set `webhooks.allow`.",
    ),
]


class CreateRequest(Struct, frozen=True):
    """The properties of a new address; all are optional."""

    local_part: (
        Annotated[
            str,
            _text(
                "3 to 64 of `a-z 0-9 . _ -`, with a letter or digit at both ends and no consecutive dots;"
                " case-insensitive.",
                "signup-test",
            ),
        ]
        | UnsetType
    ) = UNSET
    domain: Annotated[str, _text("One of the server's domains; the first by default.", EXAMPLE_DOMAIN)] | UnsetType = (
        UNSET
    )
    private: Annotated[bool, _switch("Whether the token is also required for reading.")] = False
    expires_in_seconds: (
        Annotated[int, _number(1, None, "The lifetime, up to `max_lifetime_seconds`; default `lifetime_seconds`.", 600)]
        | UnsetType
    ) = UNSET
    faults: Faults | UnsetType = UNSET
    webhook: NewWebhook | UnsetType = UNSET


class ExtendRequest(Struct, frozen=True):
    """The new expiry, faults or webhook of an address; at least one property is required."""

    expires_in_seconds: (
        Annotated[int, _number(1, None, "The new lifetime, counted from now; it may be shorter than before.", 1800)]
        | UnsetType
    ) = UNSET
    faults: Faults | UnsetType = UNSET
    webhook: NewWebhook | UnsetType = UNSET


class ViewRequest(Struct, frozen=True):
    """The options of a view."""

    remote_images: Annotated[
        bool, _switch("Load remote images, which reveals to their servers that the message has been opened.")
    ] = False


class FollowedInbox(Struct, frozen=True):
    """An inbox to follow."""

    address: Annotated[
        str,
        _text(
            "The address, in any form to which mail can be sent; events contain the address in the same form.",
            f"k7m3wq9xt2ab@{EXAMPLE_DOMAIN}",
        ),
    ]
    token: Annotated[str, _text("Required for a private address.", "…")] | UnsetType = UNSET
    after: Annotated[MessageId, Meta(description="Resume after this message.")] | UnsetType = UNSET
    has: Has | UnsetType = UNSET


class FollowRequest(Struct, frozen=True):
    """The inboxes to follow in one stream, in order of importance."""

    inboxes: Annotated[
        list[FollowedInbox], Meta(min_length=1, max_length=20, extra={"expected": "a list of 1 to 20 objects"})
    ]


class PageQuery(Struct, frozen=True):
    """The messages to return from an inbox."""

    limit: Annotated[int, _number(1, 100, "The maximum number of messages.", 20)] = 100
    order: Annotated[
        Literal["asc", "desc"], Meta(description="Oldest or newest first.", extra={"expected": "asc or desc"})
    ] = "desc"
    after: Annotated[MessageId, Meta(description="Only messages after this id, which need not exist.")] | None = None
    before: Annotated[MessageId, Meta(description="Only messages before this id, which need not exist.")] | None = None
    sender: Annotated[str, _text("Part of the sender's address or name; case is ignored.", "no-reply@")] = field(
        name="from", default=""
    )
    subject: Annotated[str, _text("Part of the subject; case is ignored.", "confirm")] = ""
    q: Annotated[
        str,
        _text("Part of the sender, the subject or the first 64 Ki characters of the text; case is ignored.", "code"),
    ] = ""
    has: Has = []
    wait: Annotated[
        int,
        _number(0, 50, "The number of seconds to wait for the first match; without a match, the list is empty.", 30),
    ] = 0
    explain: Annotated[
        bool, _switch("Whether to add a human-readable `reason` to a list that is empty after a wait.")
    ] = False


class AllMailQuery(PageQuery, frozen=True):
    """The messages to return, regardless of their recipients."""

    to: Annotated[str, _text("A complete envelope recipient; case is ignored.", f"anna+shop@{EXAMPLE_DOMAIN}")] = ""


class AllMailFileQuery(Struct, frozen=True):
    """The messages to save as one file."""

    to: Annotated[str, _text("A complete envelope recipient; case is ignored.", f"anna+shop@{EXAMPLE_DOMAIN}")] = ""


class DeleteQuery(Struct, frozen=True):
    """The messages to delete from an inbox; without parameters, all messages."""

    id: Annotated[
        list[MessageId],
        _takes(
            "up to 100 message ids",
            "The ids of the messages; missing messages are not counted. Cannot be combined with `up_to`.",
            ["msg_01m7y0sgyf0000000000000000"],
            max_length=100,
        ),
    ] = []
    up_to: (
        Annotated[
            MessageId, Meta(description="Deletes this message and all earlier messages; the message need not exist.")
        ]
        | None
    ) = None


class AllMailDeleteQuery(DeleteQuery, frozen=True):
    """The messages to delete, regardless of their recipients; without parameters, all messages."""

    to: (
        Annotated[
            str,
            _takes(
                "a recipient's address",
                "Only messages to this complete envelope recipient; case is ignored. Cannot be combined with `id`.",
                f"anna+shop@{EXAMPLE_DOMAIN}",
                min_length=1,
            ),
        ]
        | None
    ) = None


class StreamQuery(Struct, frozen=True):
    """The start of a stream, and the messages that it contains."""

    after: (
        Annotated[MessageId, Meta(description="Resume after this message; `Last-Event-ID` takes precedence.")] | None
    ) = None
    has: Has = []


def page(query: PageQuery) -> Page:
    """Convert the parameters of a list request to the service's type."""
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
    """Convert faults to the API's form."""
    return [FaultItem(one.at, one.reply or UNSET, one.times, one.delay_seconds) for one in faults]


def last_event_id(text: str | None) -> str | None:
    """Return the message id after which a stream resumes; a malformed id is ignored."""
    try:
        return msgspec.convert(text, MessageId)
    except msgspec.ValidationError:
        return None
