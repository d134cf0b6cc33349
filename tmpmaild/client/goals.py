"""What a test wants of a mail: the mail, several, its code, its link, an attachment; and how it is taken out of it."""

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Generic, TypeAlias, TypeVar

from msgspec import Struct

from tmpmaild.client.errors import printable
from tmpmaild.client.remote import Held
from tmpmaild.client.wire import LIKELY, AttachmentItem, Link, Message

T = TypeVar("T")

Pattern: TypeAlias = str | re.Pattern[str]


class Goal(Struct, Generic[T], frozen=True):
    """What is taken of mails: ``take`` gets those that match, oldest first, and looks at the last; None: go on.

    ``name`` is for the texts of errors, ``count`` is how many mails it takes, ``others`` what a mail has of this kind,
    ``has`` what the server can leave out mails without.
    """

    name: str
    take: Callable[[Sequence[Message]], T | None]
    count: int = 1
    others: Callable[[Message], Iterable[str]] = lambda _message: ()
    has: tuple[Held, ...] = ()


MAIL: Goal[Message] = Goal("", lambda messages: messages[-1])


def several(count: int) -> Goal[list[Message]]:
    """Return the goal of so many mails. Raises ValueError if that is not at least one."""
    if count < 1:
        raise ValueError(f"count is {count}, expected 1 or more; assert_no_mail() is for none")
    return Goal("", lambda messages: list(messages) if len(messages) == count else None, count=count)


def code(pattern: Pattern | None) -> Goal[str]:
    """Return the goal of the code, or of what a regular expression finds. Raises ``re.error``."""
    if pattern is None:
        return Goal("a code", lambda messages: messages[-1].code, has=("code",))
    expression = re.compile(pattern, re.MULTILINE) if isinstance(pattern, str) else pattern
    return Goal(f"a match of {_shown(pattern)}", lambda messages: _matched(expression, messages[-1]))


def link(text: Pattern | None, url: Pattern | None) -> Goal[str]:
    """Return the goal of the best link with this text and this URL; with neither given, of the best that is LIKELY."""
    given = {"text": text, "URL": url}
    wanted = " and ".join(f"{name} {_shown(value)}" for name, value in given.items() if value is not None)

    least = 0 if wanted else LIKELY

    def take(messages: Sequence[Message]) -> str | None:
        likely = (one for one in messages[-1].links if one.confidence >= least)
        return next((one.href for one in likely if _is_meant(one, text, url)), None)

    name = f"a link with {wanted}" if wanted else f"a link of confidence {LIKELY} or more"
    return Goal(name, take, others=lambda message: (f"{one.href}  {one.text}" for one in message.links), has=("link",))


def attachment(name: str) -> Goal[AttachmentItem]:
    """Return the goal of the first attachment of this name, in any case; ``*``, ``?`` and ``[…]`` are as in a shell."""

    def take(messages: Sequence[Message]) -> AttachmentItem | None:
        items = messages[-1].attachments
        return next((one for one in items if fnmatchcase(one.filename.lower(), name.lower())), None)

    def names(message: Message) -> Iterable[str]:
        return (one.filename for one in message.attachments)

    return Goal(f"an attachment {_shown(name)}", take, others=names)


def _matched(expression: re.Pattern[str], message: Message) -> str | None:
    """Return what the first group matches, or all of it without a group: in the subject, else in the text."""
    match = expression.search(message.subject) or expression.search(message.text)
    if match is None:
        return None
    found: str | None = match[1] if expression.groups else match[0]
    return found


def _is_meant(one: Link, text: Pattern | None, url: Pattern | None) -> bool:
    return _contains(one.text, text, ignore_case=True) and _contains(one.href, url, ignore_case=False)


def _contains(found: str, part: Pattern | None, *, ignore_case: bool) -> bool:
    if part is None:
        return True
    if isinstance(part, re.Pattern):
        return part.search(found) is not None
    return part.lower() in found.lower() if ignore_case else part in found


def _shown(pattern: Pattern) -> str:
    text = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
    return repr(printable(text))
