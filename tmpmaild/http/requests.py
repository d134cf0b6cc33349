"""Request bodies and parameters as types, each described and checked by it; they become the types of the service here.

``parsing.py`` reads them.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from tmpmaild.inboxes.faults import MOST_FAULTS, Fault, Step
from tmpmaild.model import Held, Page
from tmpmaild.webhookmodel import WebhookEvent
from tmpmaild.webhooktargets import MOST_URL_CHARACTERS

EXAMPLE_DOMAIN = "mail.example.com"
"""Is in the examples of all types here and in ``schemas.py``; ``openapi.py`` replaces it by a domain of the server."""

MessageId = Annotated[
    str,
    Meta(
        pattern=r"^msg_[0-7][0-9a-hjkmnp-tv-z]{25}$",
        min_length=30,  # the end of a pattern matches before a line end too
        max_length=30,
        examples=["msg_01m7y0sgyf0000000000000000"],
        extra={"expected": "a message id"},
    ),
]


Has = Annotated[
    list[Held],
    Meta(
        description="What a message must have: a code, a link, an attachment that is not inline, a verdict.",
        max_length=4,
        examples=[["code"]],
        extra={"expected": "up to four of code, link, attachment and verdict"},
    ),
]


def _text(description: str, example: str) -> Meta:
    return Meta(description=description, examples=[example], extra={"expected": "a string"})


def _switch(description: str) -> Meta:
    return Meta(description=description, extra={"expected": "true or false"})


def _number(lowest: int, highest: int | None, description: str, example: int) -> Meta:
    expected = f"a number from {lowest} to {highest}" if highest is not None else f"a number of {lowest} or more"
    return Meta(ge=lowest, le=highest, description=description, examples=[example], extra={"expected": expected})


class FaultItem(Struct, frozen=True):
    """A fault for the next mails; with a delay only, the usual answer comes late."""

    at: Annotated[
        Step,
        Meta(
            description="What fails: RCPT, DATA, or the end of the mail, which is then not stored.",
            examples=["rcpt"],
            extra={"expected": "rcpt, data or end"},
        ),
    ]
    reply: (
        Annotated[
            str,
            Meta(
                pattern=r"^[45][0-9]{2} [ -~]{1,400}(?![\s\S])$",
                description="What the server says; `421` also closes the connection.",
                examples=["451 4.7.1 Greylisted"],
                extra={"expected": "a code from 400 to 599, a space, and 1 to 400 printable characters of ASCII"},
            ),
        ]
        | UnsetType
    ) = UNSET
    times: Annotated[int, _number(1, 100, "How many times; then the usual answer.", 2)] = 1
    delay_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=60,
            description="How long the answer is held back.",
            examples=[3],
            extra={"expected": "a number from 0 to 60"},
        ),
    ] = 0


Faults = Annotated[
    list[FaultItem],
    Meta(
        description="For the next mails, in place of those before; where the operator has set `smtp.faults`.",
        max_length=MOST_FAULTS,
        examples=[[]],
        extra={"expected": f"a list of up to {MOST_FAULTS} objects"},
    ),
]


class WebhookRequest(Struct, frozen=True):
    """Who is called when something happens to an address."""

    url: Annotated[
        str,
        Meta(
            max_length=MOST_URL_CHARACTERS,
            description="Where the operator allows it; without user information and fragment.",
            examples=["https://hooks.example.org/mail"],
            extra={"expected": f"a string of up to {MOST_URL_CHARACTERS} characters"},
        ),
    ]
    events: Annotated[
        list[WebhookEvent],
        Meta(
            min_length=1,
            max_length=3,
            description="A message has come, it is known who sent one, the address has ended; default `message`.",
            examples=[["message", "expired"]],
            extra={"expected": "one to three of message, verdict and expired"},
        ),
    ] = field(default_factory=lambda: ["message"])
    has: Annotated[
        list[Literal["code", "link", "attachment"]],
        Meta(
            max_length=3,
            description="Only messages that have all of these.",
            examples=[["code"]],
            extra={"expected": "up to three of code, link and attachment"},
        ),
    ] = []


NewWebhook = Annotated[
    WebhookRequest | None,
    Meta(
        description="In place of the one before; null ends it. Where the operator has set `webhooks.allow`.",
        extra={"expected": "an object or null"},
    ),
]


class CreateRequest(Struct, frozen=True):
    """Wishes for a new address; all are optional."""

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
    domain: Annotated[str, _text("One of the server's; default the first.", EXAMPLE_DOMAIN)] | UnsetType = UNSET
    private: Annotated[bool, _switch("Reading needs the token too.")] = False
    expires_in_seconds: (
        Annotated[
            int, _number(1, None, "How long it lives, up to `max_lifetime_seconds`; default `lifetime_seconds`.", 600)
        ]
        | UnsetType
    ) = UNSET
    faults: Faults | UnsetType = UNSET
    webhook: NewWebhook | UnsetType = UNSET


class ExtendRequest(Struct, frozen=True):
    """When an address is to end, which faults it is to have, and who is called; at least one of them."""

    expires_in_seconds: (
        Annotated[int, _number(1, None, "Counted from now; shortening is allowed.", 1800)] | UnsetType
    ) = UNSET
    faults: Faults | UnsetType = UNSET
    webhook: NewWebhook | UnsetType = UNSET


class ViewRequest(Struct, frozen=True):
    """How a message is shown."""

    remote_images: Annotated[bool, _switch("Load remote images, which tells their servers that the mail is read.")] = (
        False
    )


class FollowedInbox(Struct, frozen=True):
    """An inbox to follow."""

    address: Annotated[
        str, _text("In any form that mail reaches it by; its events name it so.", f"k7m3wq9xt2ab@{EXAMPLE_DOMAIN}")
    ]
    token: Annotated[str, _text("Needed for a private address.", "…")] | UnsetType = UNSET
    after: Annotated[MessageId, Meta(description="Resume after this message.")] | UnsetType = UNSET
    has: Has | UnsetType = UNSET


class FollowRequest(Struct, frozen=True):
    """Inboxes to follow with one stream, the most important first."""

    inboxes: Annotated[
        list[FollowedInbox], Meta(min_length=1, max_length=20, extra={"expected": "a list of 1 to 20 objects"})
    ]


class PageQuery(Struct, frozen=True):
    """Which messages of an inbox are returned."""

    limit: Annotated[int, _number(1, 100, "How many messages at most.", 20)] = 100
    order: Annotated[
        Literal["asc", "desc"], Meta(description="Oldest or newest first.", extra={"expected": "asc or desc"})
    ] = "desc"
    after: Annotated[MessageId, Meta(description="Only what came after this message; it need not exist.")] | None = None
    before: Annotated[MessageId, Meta(description="Only what came before this message; it need not exist.")] | None = (
        None
    )
    sender: Annotated[str, _text("A part of the sender's address or name, in any case.", "no-reply@")] = field(
        name="from", default=""
    )
    subject: Annotated[str, _text("A part of the subject, in any case.", "confirm")] = ""
    q: Annotated[
        str, _text("A part of sender, subject or the first 64 Ki characters of the text, in any case.", "code")
    ] = ""
    has: Has = []
    wait: Annotated[int, _number(0, 50, "Seconds to wait for the first match; then the list is empty.", 30)] = 0


class StreamQuery(Struct, frozen=True):
    """Where a stream begins, and which messages it has."""

    after: (
        Annotated[MessageId, Meta(description="Resume after this message; `Last-Event-ID` takes precedence.")] | None
    ) = None
    has: Has = []


def page(query: PageQuery) -> Page:
    """Return the parameters of a list as the service takes them."""
    return Page(
        after=query.after,
        before=query.before,
        ascending=query.order == "asc",
        limit=query.limit,
        sender=query.sender or None,
        subject=query.subject or None,
        text=query.q or None,
        has=frozenset(query.has),
    )


def faults(items: Sequence[FaultItem] | UnsetType) -> tuple[Fault, ...]:
    """Return the faults as the service takes them."""
    return tuple(Fault(one.at, one.reply or None, one.times, one.delay_seconds) for one in items or ())


def fault_items(faults: Sequence[Fault]) -> list[FaultItem]:
    """Return faults in the form in which they are ordered."""
    return [FaultItem(one.at, one.reply or UNSET, one.times, one.delay_seconds) for one in faults]


def last_event_id(text: str | None) -> str | None:
    """Return the id where a stream is to be resumed; a malformed one is ignored."""
    try:
        return msgspec.convert(text, MessageId)
    except msgspec.ValidationError:
        return None
