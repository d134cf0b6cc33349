"""The hash of an address in the audit."""

from tmpmaild.storage.audit import audit_hash
from tmpmaild.storage.rows import keyed_hash

SECRET = bytes(range(32))
ADDRESS, DAY = "ada@mail.example.com", "2026-11-28"


def test_it_is_of_the_address_the_database_and_the_day():
    others = [
        audit_hash(bytes(32), ADDRESS, day=DAY),
        audit_hash(SECRET, "bob@mail.example.com", day=DAY),
        audit_hash(SECRET, ADDRESS, day="2026-11-29"),
    ]
    assert len({audit_hash(SECRET, ADDRESS, day=DAY), *others}) == 4


def test_it_stays_as_it_was_in_older_versions_whose_lines_are_still_there():
    assert audit_hash(SECRET, ADDRESS, day=DAY) == "c2210ba27d763305666763f28f101885"


def test_what_the_database_holds_of_the_address_does_not_tell_it():
    """So that a stolen list of inboxes cannot be compared with lines."""
    assert audit_hash(SECRET, ADDRESS, day=DAY) != keyed_hash(SECRET, ADDRESS).hex()
