"""The caches of recipients and pages with the lifetime of their entries, and the invalidations that readers check."""

import gc
import weakref

import pytest
from msgspec.structs import replace

from tmpmaild.inboxes.caches import Caches, ListingCache, RecipientCache, page_characters
from tmpmaild.model import ExpiryMoved, InboxChange, InboxDeleted, Listing, MessageDeleted, Page

from .conftest import INBOX, message


def named(name):
    return replace(INBOX, id=f"id-{name}", address=name)


ADA, BOB = named("ada"), named("bob")


def change(inbox_id, notice=None, **more):
    return InboxChange(inbox_id, notice=notice, **{"full": False, **more})


class Recipients:
    """The recipient cache, with an inbox stored and looked up by name."""

    def __init__(self, *, may_cache=True):
        self.cache = RecipientCache(may_cache=may_cache, max_addresses=64)

    def put(self, inbox):
        self.cache.put(inbox)

    def get(self, name, now_ms=0):
        return self.cache.get(name, now_ms)


class Listings:
    """The page cache, with the same methods as ``Recipients``."""

    def __init__(self, *, may_cache=True):
        self.cache = ListingCache(may_cache=may_cache)

    def put(self, inbox):
        self.cache.put(inbox.address, Page(), listing(inbox), self.cache.generation)

    def get(self, name, now_ms=0):
        return self.cache.get((name, Page()), now_ms)


both = pytest.mark.parametrize("kind", [Recipients, Listings])


def listing(inbox=ADA, body=""):
    shown = message("msg_", body)
    return Listing(inbox, (shown,), has_more=False, characters=page_characters([shown]))


@both
def test_an_entry_is_kept_until_it_expires_and_then_leaves_the_memory(kind):
    known = kind()
    known.put(ADA)
    known.put(replace(BOB, expires_at_ms=2000))
    assert (bool(known.get("ada", 999)), known.get("ada", 1000), known.get("eve")) == (True, None, None)
    known.put(ADA)
    known.cache.forget_expired(999)
    assert len(known.cache) == 2
    known.cache.forget_expired(1000)
    assert (len(known.cache), bool(known.get("bob"))) == (1, True)


@both
def test_nothing_is_cached_if_the_storage_forbids_it(kind):
    known = kind(may_cache=False)
    known.put(ADA)
    assert known.get("ada") is None


@both
def test_the_table_is_bounded_and_drops_the_least_recently_used_entry(kind):
    known = kind()
    for number in range(64):
        known.put(named(str(number)))
    known.get("0")
    known.put(named("1"))
    for name in ("new", "newer"):
        known.put(named(name))
    assert len(known.cache) == 64
    assert [name for name in ("0", "1", "2", "3", "4", "new") if known.get(name)] == ["0", "1", "4", "new"]


# Recipients


def test_a_full_inbox_is_not_remembered():
    cache = RecipientCache(may_cache=True)
    cache.put(replace(ADA, full=True))
    assert cache.get("ada", 0) is None


def test_a_commit_that_fills_an_inbox_drops_its_entry_and_a_used_up_share_drops_all_entries():
    caches = Caches(may_cache=True)
    caches.recipients.put(ADA)
    caches.recipients.put(BOB)
    caches.update([change("id-ada", full=True), change("id-bob"), change("?", full=True)])
    assert caches.recipients.get("ada", 0) is None
    assert caches.recipients.get("bob", 0)
    caches.update([change("id-ada", full=True, share_full=True)])
    assert len(caches.recipients) == 0


def test_a_reused_name_refers_to_the_new_inbox():
    cache = RecipientCache(may_cache=True)
    cache.put(ADA)
    cache.put(replace(ADA, id="2"))
    for forgotten, left in ((None, 1), ("id-ada", 1), ("2", 0)):
        cache.forget(forgotten)
        assert len(cache) == left
        assert not left or cache.get("ada", 0).id == "2"


# Pages


def test_a_page_is_known_until_its_inbox_changes():
    caches = Caches(may_cache=True)
    cache = caches.listings
    for inbox in (ADA, BOB):
        cache.put(inbox.address, Page(), listing(inbox), cache.generation)
    assert cache.get(("ada", Page()), 0).inbox.id == "id-ada"
    assert cache.get(("ada", Page(limit=5)), 0) is None
    caches.update([change("id-ada")])
    assert [bool(cache.get((name, Page()), 0)) for name in ("ada", "bob")] == [False, True]


def test_data_read_before_a_commit_and_large_pages_are_not_cached():
    caches = Caches(may_cache=True)
    generation = caches.listings.generation
    caches.update([change("id-ada")])
    caches.listings.put("ada", Page(), listing(), generation)
    caches.listings.put("ada", Page(), listing(body="x" * 70_000), caches.listings.generation)
    assert len(caches.listings) == 0


# Invalidations


def test_a_reader_sees_the_invalidations_since_it_started_and_no_earlier_ones():
    caches = Caches(may_cache=True)
    caches.update([change("1", MessageDeleted("before")), change("1", InboxDeleted())])
    since = caches.last_invalidation
    assert since.deleted_messages() == frozenset()
    assert not since.moved("1")
    caches.update([change("2", MessageDeleted("msg_1")), change("2", ExpiryMoved(5))])
    caches.update([change("3", MessageDeleted("msg_2")), change("4", InboxDeleted())])
    assert since.deleted_messages() == {"msg_1", "msg_2"}
    assert [since.moved(inbox_id) for inbox_id in "1234"] == [False, True, False, True]
    since = caches.last_invalidation
    caches.update([change("1"), change("2")])  # new mail
    assert caches.last_invalidation is since


def test_invalidations_that_no_reader_needs_leave_the_memory():
    class Watched(MessageDeleted, frozen=True, weakref=True):
        pass

    caches = Caches(may_cache=True)
    since = caches.last_invalidation
    kept = weakref.ref(notice := Watched("msg_1"))
    caches.update([change("1", notice)])
    caches.update([change("1", InboxDeleted())])
    del notice
    gc.collect()
    assert kept() is not None
    del since
    gc.collect()
    assert kept() is None


def test_a_long_chain_of_invalidations_is_freed_at_once():
    """A slow reader may release a very long chain at once, and freeing it must not recurse."""
    caches = Caches(may_cache=True)
    since = caches.last_invalidation
    for _ in range(50_000):
        caches.update([change("1", InboxDeleted())])
    assert since.moved("1")
    del since
