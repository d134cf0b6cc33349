"""What RCPT may know without asking the disk."""

from tmpmaild.inboxes.caches import Caches, RecipientCache
from tmpmaild.model import Inbox, InboxChange


def inbox(name, *, inbox_id=None, expires_at_ms=1000, full=False):
    return Inbox(
        inbox_id or f"id-{name}", name, 0, expires_at_ms, private=False, token_hash=None, message_count=0, full=full
    )


def test_what_was_put_is_known_until_it_expires():
    cache = RecipientCache(may_cache=True)
    cache.put(inbox("ada"))
    assert cache.get("ada", 999).id == "id-ada"
    assert cache.get("ada", 1000) is None
    assert cache.get("bob", 0) is None


def test_what_the_storage_does_not_let_cache_is_not_remembered():
    cache = RecipientCache(may_cache=False)
    cache.put(inbox("ada"))
    assert cache.get("ada", 0) is None


def test_a_full_inbox_is_not_remembered():
    cache = RecipientCache(may_cache=True)
    cache.put(inbox("ada", full=True))
    assert cache.get("ada", 0) is None


def test_a_commit_that_fills_an_inbox_makes_it_forgotten():
    caches = Caches(may_cache=True)
    cache = caches.recipients
    cache.put(inbox("ada"))
    cache.put(inbox("bob"))
    caches.update([InboxChange("id-ada", full=True), InboxChange("id-bob", full=False), InboxChange("?", full=True)])
    assert cache.get("ada", 0) is None
    assert cache.get("bob", 0)


def test_a_commit_that_uses_up_a_share_makes_all_forgotten():
    caches = Caches(may_cache=True)
    cache = caches.recipients
    cache.put(inbox("ada"))
    cache.put(inbox("bob"))
    caches.update([InboxChange("id-ada", full=True, share_full=True)])
    assert len(cache) == 0


def test_a_name_given_out_again_is_the_new_inbox():
    cache = RecipientCache(may_cache=True)
    cache.put(inbox("ada", inbox_id="1"))
    cache.put(inbox("ada", inbox_id="2"))
    assert cache.get("ada", 0).id == "2"
    cache.forget("1")
    assert cache.get("ada", 0).id == "2"
    cache.forget("2")
    assert len(cache) == 0


def test_the_least_recently_used_goes_first():
    cache = RecipientCache(may_cache=True, max_addresses=3)
    for name in ("ada", "bob", "eve"):
        cache.put(inbox(name))
    cache.get("ada", 0)
    cache.put(inbox("bob"))
    cache.put(inbox("new"))
    assert [name for name in ("ada", "bob", "eve", "new") if cache.get(name, 0)] == ["ada", "bob", "new"]
    cache.forget("id-eve")


def test_what_has_expired_leaves_the_memory():
    cache = RecipientCache(may_cache=True)
    cache.put(inbox("ada"))
    cache.put(inbox("bob", expires_at_ms=2000))
    cache.forget_expired(1000)
    assert (len(cache), cache.get("bob", 0).id) == (1, "id-bob")
