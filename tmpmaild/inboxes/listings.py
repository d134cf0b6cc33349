"""The pages of inboxes that were read a moment ago: most who ask for mail ask again before any has come.

An entry goes with the first commit to its inbox, which is told before the sender is; so nobody who has been answered
250 finds an older page here.
"""

from collections import OrderedDict
from collections.abc import Sequence

from tmpmaild.model import InboxChange, Listing, Page

_MAX_PAGES = 64
_MAX_CHARACTERS = 64 * 1024


class ListingCache:
    """A few small pages, least recently used out first."""

    def __init__(self) -> None:
        self._pages: OrderedDict[tuple[str, Page], Listing] = OrderedDict()
        self._generation = 0

    def __len__(self) -> int:
        return len(self._pages)

    @property
    def generation(self) -> int:
        """Generation number: ``put`` ignores pages read before a later commit."""
        return self._generation

    def get(self, address: str, page: Page, now_ms: int) -> Listing | None:
        """Return the page as it stands now, if it is known and its inbox lives."""
        listing = self._pages.get((address, page))
        if listing is None or listing.inbox.expires_at_ms <= now_ms:
            return None
        self._pages.move_to_end((address, page))
        return listing

    def put(self, address: str, page: Page, listing: Listing, generation: int) -> None:
        """Remember a small page, unless anything was committed after ``generation``."""
        if generation != self._generation or listing.characters > _MAX_CHARACTERS:
            return
        self._pages[address, page] = listing
        if len(self._pages) > _MAX_PAGES:
            self._pages.popitem(last=False)

    def update(self, changes: Sequence[InboxChange]) -> None:
        """Forget the pages of inboxes that a commit has changed."""
        self._generation += 1
        changed = {change.inbox_id for change in changes}
        for key in [key for key, listing in self._pages.items() if listing.inbox.id in changed]:
            del self._pages[key]

    def forget_expired(self, now_ms: int) -> None:
        """Drop what is over: no mail outlives its hour in memory either."""
        for key in [key for key, listing in self._pages.items() if listing.inbox.expires_at_ms <= now_ms]:
            del self._pages[key]
