"""The pages that were read a moment ago."""

from tmpmaild.inboxes.caches import Caches, ListingCache, page_characters
from tmpmaild.model import Inbox, InboxChange, Listing, Message, Page


def listing(inbox_id="1", *, expires_at_ms=1000, body=""):
    inbox = Inbox(inbox_id, "ada", 0, expires_at_ms, private=False, token_hash=None, message_count=1, full=False)
    message = Message("msg_", 0, "ada", "", "", "", body, truncated=False, size_bytes=0, has_html=False, attachments=())
    return Listing(inbox, (message,), has_more=False, characters=page_characters([message]))


def test_a_page_is_known_until_its_inbox_changes():
    caches = Caches(may_cache=True)
    cache = caches.listings
    for address, inbox_id in (("ada", "1"), ("bob", "2")):
        cache.put(address, Page(), listing(inbox_id), cache.generation)
    assert cache.get(("ada", Page()), 0).inbox.id == "1"
    assert cache.get(("ada", Page(limit=5)), 0) is None
    caches.update([InboxChange("1", full=False)])
    assert cache.get(("ada", Page()), 0) is None
    assert cache.get(("bob", Page()), 999)
    assert cache.get(("bob", Page()), 1000) is None


def test_what_the_storage_does_not_let_cache_is_not_remembered():
    cache = ListingCache(may_cache=False)
    cache.put("1", Page(), listing(), cache.generation)
    assert cache.get(("1", Page()), 0) is None


def test_what_was_read_before_a_commit_is_not_remembered_after_it():
    caches = Caches(may_cache=True)
    cache = caches.listings
    generation = cache.generation
    caches.update([InboxChange("1", full=False)])
    cache.put("ada", Page(), listing(), generation)
    assert cache.get(("ada", Page()), 0) is None


def test_large_pages_are_not_kept():
    cache = ListingCache(may_cache=True)
    cache.put("ada", Page(), listing(body="x" * 70_000), cache.generation)
    assert len(cache) == 0


def test_the_table_is_bounded_and_the_least_recently_used_goes_first():
    cache = ListingCache(may_cache=True)
    for number in range(64):
        cache.put(str(number), Page(), listing(), cache.generation)
    cache.get(("0", Page()), 0)
    cache.put("new", Page(), listing(), cache.generation)
    assert len(cache) == 64
    assert cache.get(("0", Page()), 0)
    assert cache.get(("1", Page()), 0) is None


def test_what_has_expired_leaves_the_memory():
    cache = ListingCache(may_cache=True)
    cache.put("ada", Page(), listing(expires_at_ms=1000), cache.generation)
    cache.forget_expired(999)
    assert len(cache) == 1
    cache.forget_expired(1000)
    assert len(cache) == 0
