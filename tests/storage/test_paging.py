"""Selecting the rows and bodies of a page."""

import pytest

from tmpmaild.model import Page
from tmpmaild.storage.paging import (
    NEVER_MS,
    PAGE_ROWS,
    Between,
    by_creator,
    fit_page,
    inbox_page,
    listed_between,
    omitted_bodies,
    with_bodies,
)
from tmpmaild.storage.rows import InboxRow, ListedRow


def row(key, *, body="", body_bytes=0, subject=""):
    return ListedRow(
        key, "to@x.test", 1, "from@x.test", "", subject, 10, has_html=False, attachments="[]",
        authentication=None, body_bytes=body_bytes, body=body,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "shown", "has_more"),
    [
        ([], 0, False),
        ([row(1), row(2)], 2, False),
        ([row(1), row(2), row(3)], 2, True),
        ([row(1, subject="x" * 1000), row(2)], 1, True),
    ],
    ids=["none", "as many as the limit", "more than the limit", "long subjects"],
)
def test_a_page_ends_at_its_limit_or_with_too_much_text(rows, shown, has_more):
    assert fit_page(rows, Page(limit=2, other_characters=500)) == (rows[:shown], has_more)


def test_the_newest_large_bodies_are_read_completely_if_they_fit_with_the_small_bodies():
    rows = [row(1, body=None, body_bytes=5000), row(2, body="small", body_bytes=5), row(3, body=None, body_bytes=5000)]
    assert omitted_bodies(rows, Page(bodies_bytes=9000)) == {3: True, 1: False}
    assert omitted_bodies(rows[1:2], Page(bodies_bytes=0)) == {}


def test_a_message_whose_body_was_deleted_meanwhile_is_omitted():
    rows = [row(1, body=None), row(2, body="small"), row(3, body=None)]
    shown = with_bodies(rows, {1: ("cut", True)}, str)
    assert [(one.id, one.body, one.truncated) for one in shown] == [("1", "cut", True), ("2", "small", False)]


def test_a_list_starts_at_now_or_at_the_first_expired_inbox_or_after_a_position():
    assert listed_between(100) == Between(100, NEVER_MS, NEVER_MS - 1)
    assert listed_between(100, expired=True) == Between(-1, 0, 100)
    assert listed_between(100, "70.3", expired=True) == Between(70, 3, 100)


@pytest.mark.parametrize(("count", "place"), [(PAGE_ROWS, f"{PAGE_ROWS - 1}.{PAGE_ROWS - 1}"), (PAGE_ROWS - 1, None)])
def test_a_page_of_inboxes_has_the_position_of_the_last_row_read(count, place):
    read = [
        InboxRow(key, 0, key, private=False, message_count=0, stored_bytes=0, creator=b"c" if key == 7 else None)
        for key in range(count)
    ]
    wanted = by_creator(read, b"c")
    page = inbox_page(read, wanted=wanted, addresses={7: "ada@x.test"})
    assert ([one.address for one in page.inboxes], page.next) == (["ada@x.test"], place)
    assert by_creator(read, None) == read
