"""A cache of pages read recently: most clients poll an inbox again before new mail has arrived.

An entry is dropped at the first commit to its inbox, before the sender gets its 250 reply. So a client that has
seen that reply never gets an older page from here.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from tmpmaild.model import InboxChange, Listing, Page

_MAX_PAGES = 64
_MAX_CHARACTERS = 64 * 1024


class ListingCache:
    """A few small pages; the least recently used is dropped first. ``is_fresh`` is that of the storage."""

    def __init__(self, is_fresh: Callable[[str], bool], max_pages: int = _MAX_PAGES) -> None:
        self._is_fresh = is_fresh
        self._max_pages = max_pages
        self._pages: OrderedDict[tuple[str, Page], Listing] = OrderedDict()
        self._generation = 0

    def __len__(self) -> int:
        return len(self._pages)

    @property
    def generation(self) -> int:
        """Generation number: ``put`` ignores pages read before a later commit."""
        return self._generation

    def get(self, address: str, page: Page, now_ms: int) -> Listing | None:
        """Return the page if it is cached and its inbox has not expired."""
        listing = self._pages.get((address, page))
        if listing is None or listing.inbox.expires_at_ms <= now_ms:
            return None
        self._pages.move_to_end((address, page))
        return listing

    def put(self, address: str, page: Page, listing: Listing, generation: int) -> None:
        """Store a small page, unless anything was committed after ``generation``."""
        if generation != self._generation or listing.characters > _MAX_CHARACTERS:
            return
        if not self._is_fresh(listing.inbox.id):
            return
        self._pages[address, page] = listing
        if len(self._pages) > self._max_pages:
            self._pages.popitem(last=False)

    def update(self, changes: Sequence[InboxChange]) -> None:
        """Drop the pages of inboxes that a commit has changed."""
        self._generation += 1
        changed = {change.inbox_id for change in changes}
        for key in [key for key, listing in self._pages.items() if listing.inbox.id in changed]:
            del self._pages[key]

    def forget_expired(self, now_ms: int) -> None:
        """Drop the pages of expired inboxes: mail must not stay in memory longer than on disk."""
        for key in [key for key, listing in self._pages.items() if listing.inbox.expires_at_ms <= now_ms]:
            del self._pages[key]
