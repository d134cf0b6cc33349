"""The hash of an address in the audit log."""

from tmpmaild.storage.audit import audit_hash
from tmpmaild.storage.rows import keyed_hash

SECRET = bytes(range(32))
ADDRESS, DAY = "ada@mail.example.com", "2026-11-28"


def test_the_hash_depends_on_the_address_the_database_and_the_day():
    others = [
        audit_hash(bytes(32), ADDRESS, day=DAY),
        audit_hash(SECRET, "bob@mail.example.com", day=DAY),
        audit_hash(SECRET, ADDRESS, day="2026-11-29"),
    ]
    assert len({audit_hash(SECRET, ADDRESS, day=DAY), *others}) == 4


def test_the_hash_matches_existing_lines_of_older_versions():
    assert audit_hash(SECRET, ADDRESS, day=DAY) == "c2210ba27d763305666763f28f101885"


def test_the_hash_in_the_database_differs_from_the_hash_in_audit_lines():
    """Because the hashes differ, a stolen list of inboxes cannot be matched with audit lines."""
    assert audit_hash(SECRET, ADDRESS, day=DAY) != keyed_hash(SECRET, ADDRESS).hex()
