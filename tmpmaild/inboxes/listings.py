"""A cache of pages read recently, and roughly how many characters messages have as JSON.

Most clients poll an inbox again before new mail has arrived. An entry is dropped at the first commit to its inbox,
before the sender gets its 250 reply. So a client that has seen that reply never gets an older page from here. A page is
counted once, when it is read (``Listing.characters``), and not at each request that the cache answers.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from tmpmaild.model import Attachment, Findings, InboxChange, Listing, Message, Page

_MAX_PAGES = 64
_MAX_CHARACTERS = 64 * 1024

# Names, punctuation, ids and numbers of each JSON object.
_MESSAGE_CHARACTERS = 350
_ATTACHMENT_CHARACTERS = 400
_CODE_CHARACTERS = 40
_LINK_CHARACTERS = 50


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


def page_characters(messages: Iterable[Message]) -> int:
    """Return the size of all messages of a page."""
    return sum([message_characters(message) for message in messages])


def message_characters(message: Message) -> int:
    """Return the size of a message with its attachments and findings."""
    senders = len(message.from_address) + len(message.from_name) + len(message.recipient)
    plain = _MESSAGE_CHARACTERS + len(message.body) + len(message.subject) + senders
    if not message.attachments and not message.findings.links and not message.findings.codes:
        return plain
    attachments = sum([_attachment_characters(one) for one in message.attachments])
    return plain + attachments + findings_characters(message.findings)


def findings_characters(findings: Findings) -> int:
    """Return the size of the codes and links of a message."""
    codes = sum([_CODE_CHARACTERS + len(code.value) for code in findings.codes])
    return codes + sum([_LINK_CHARACTERS + len(link.href) + len(link.text) for link in findings.links])


def _attachment_characters(attachment: Attachment) -> int:
    texts = len(attachment.filename) + len(attachment.content_type) + len(attachment.content_id or "")
    return _ATTACHMENT_CHARACTERS + texts
