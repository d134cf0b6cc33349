"""What is remembered of deletions and moved ends, and for how long."""

import gc
import weakref

from tmpmaild.inboxes.caches import Caches
from tmpmaild.model import ExpiryMoved, InboxChange, InboxDeleted, MessageDeleted


def change(inbox_id, notice=None):
    return InboxChange(inbox_id, full=False, notice=notice)


def test_a_reader_sees_what_has_become_invalid_since_it_began_and_nothing_from_before():
    caches = Caches(may_cache=True)
    caches.update([change("1", MessageDeleted("before")), change("1", InboxDeleted())])
    since = caches.last_invalidation
    assert since.deleted_messages() == frozenset()
    assert not since.moved("1")
    caches.update([change("2", MessageDeleted("msg_1")), change("2", ExpiryMoved(5))])
    caches.update([change("3", MessageDeleted("msg_2")), change("4", InboxDeleted())])
    assert since.deleted_messages() == {"msg_1", "msg_2"}
    assert [since.moved(inbox_id) for inbox_id in "1234"] == [False, True, False, True]
    assert caches.last_invalidation.deleted_messages() == frozenset()


def test_new_mail_invalidates_nothing_that_was_read():
    caches = Caches(may_cache=True)
    since = caches.last_invalidation
    caches.update([change("1"), change("2")])
    assert caches.last_invalidation is since


def test_what_no_reader_looks_at_any_more_leaves_the_memory():
    class Watched(MessageDeleted, frozen=True, weakref=True):
        pass

    caches = Caches(may_cache=True)
    since = caches.last_invalidation
    notice = Watched("msg_1")
    kept = weakref.ref(notice)
    caches.update([change("1", notice)])
    caches.update([change("1", InboxDeleted())])
    del notice
    gc.collect()
    assert kept() is not None
    del since
    gc.collect()
    assert kept() is None


def test_a_long_chain_of_invalidations_is_freed_at_once():
    """A reader that took long may let go of very many: no recursion in freeing them."""
    caches = Caches(may_cache=True)
    since = caches.last_invalidation
    for _ in range(50_000):
        caches.update([change("1", InboxDeleted())])
    assert since.moved("1")
    del since
