"""Pages of messages that have a code or a link: storage does not know, so messages are looked at portion by portion.

How many one page looks at is bounded; it may be short or empty although there is more to look at.
"""

from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from tmpmaild.inboxes.caches import message_characters
from tmpmaild.model import Listing, Message, Page

MOST_LOOKED_AT = 200
_PORTION = 50


def is_filter(page: Page) -> bool:
    """Return whether messages must be looked at to tell whether they are on this page."""
    return not page.has <= {"attachment"}


def rest_of(page: Page, message_id: str) -> Page:
    """Return the page with what comes after a message, in the order of the page."""
    return replace(page, after=message_id) if page.ascending else replace(page, before=message_id)


async def filtered(page: Page, read: Callable[[Page], Awaitable[Listing]]) -> Listing:
    """Return a page of messages that have what ``page`` says; ``read`` reads messages with their codes and links."""
    filtering = _Filtering(page)
    while True:
        part = await read(filtering.next_part())
        filtering.take(part)
        if filtering.ended:
            return filtering.listing(part)


class _Filtering:
    """One page that is being put together."""

    def __init__(self, page: Page) -> None:
        self.ended = False
        self._page = page
        self._rest = page
        self._kept: list[Message] = []
        self._left = MOST_LOOKED_AT
        self._has_more = False
        self._searched_to: str | None = None
        self._looked_to: str | None = None
        self._is_waiting = False

    def next_part(self) -> Page:
        """Return which messages to look at next."""
        return replace(self._rest, limit=min(_PORTION, self._left))

    def take(self, part: Listing) -> None:
        """Keep what belongs on the page."""
        looked_at = self._keep(part.messages)
        self._left -= looked_at
        # Newest first, mail that comes between two parts is above both: it is left to the next wait.
        self._searched_to = part.searched_to if self._page.ascending else self._searched_to or part.searched_to
        if looked_at:
            self._looked_to = part.messages[looked_at - 1].id
            self._rest = rest_of(self._bounded(), self._looked_to)
        if self._is_waiting:
            self._searched_to = None
        self._has_more = not self._is_waiting and looked_at > 0 and (part.has_more or looked_at < len(part.messages))
        has_room = len(self._kept) < self._page.limit and self._rest.other_characters > 0
        self.ended = not self._has_more or not has_room or self._left == 0

    def _keep(self, messages: Sequence[Message]) -> int:
        """Keep what matches until the page is full; return how many messages were looked at."""
        for number, message in enumerate(messages):
            if len(self._kept) == self._page.limit:
                return number
            if not _has_all(message, self._page):
                continue
            if "verdict" not in self._page.has or message.authentication is not None:
                self._kept.append(message)
            elif self._page.ascending:  # its verdict comes: nothing that follows may go before
                self._is_waiting = True
                return number
        return len(messages)

    def _bounded(self) -> Page:
        """Return the page with what is left of its two bounds."""
        bodies = [message.body for message in self._kept]
        bodies_bytes = sum([len(body.encode()) for body in bodies])
        others = sum([message_characters(message) for message in self._kept]) - sum(map(len, bodies))
        return replace(
            self._rest,
            bodies_bytes=max(self._page.bodies_bytes - bodies_bytes, 0),
            other_characters=max(self._page.other_characters - others, 0),
        )

    def listing(self, last_part: Listing) -> Listing:
        """Return what was kept."""
        return replace(
            last_part,
            messages=tuple(self._kept),
            has_more=self._has_more,
            searched_to=self._searched_to,
            looked_to=self._looked_to,
        )


def _has_all(message: Message, page: Page) -> bool:
    """Return whether a message has the findings that are asked for."""
    found = message.findings
    return ("code" not in page.has or bool(found.codes)) and ("link" not in page.has or bool(found.links))
