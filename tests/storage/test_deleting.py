"""The selection of messages to delete, and the number of messages that a transaction deletes."""

import pytest

from tmpmaild.storage.base import DELETED_AT_ONCE, DELETED_AT_ONCE_BYTES, DELETED_COPIES_AT_ONCE
from tmpmaild.storage.deleting import Deleted, Selection, delete_all, deleted_at_once, selection
from tmpmaild.storage.keys import ALL_INBOXES, MAX_KEY, message_id_in, message_id_of


def test_messages_are_selected_by_their_ids_or_up_to_a_message_or_all():
    assert selection(ALL_INBOXES, None, up_to=None) == Selection(MAX_KEY)
    assert selection(ALL_INBOXES, None, up_to=message_id_of(7)) == Selection(7)
    ids = [message_id_of(9), "no id", message_id_of(7), message_id_of(9)]
    assert selection(ALL_INBOXES, ids, up_to=None) == Selection(MAX_KEY, [7, 9])
    assert selection(ALL_INBOXES, [], up_to=None) == Selection(MAX_KEY, [])


def test_an_id_of_a_different_inbox_selects_nothing_if_each_inbox_has_its_own_keys():
    assert selection(5, [message_id_in(5, 7), message_id_in(6, 8)], up_to=None).keys == [7]


@pytest.mark.parametrize(("keys", "only"), [(None, None), ([], None), ([7], 7), ([7, 9], None)])
def test_a_single_message_is_selected_by_its_key(keys, only):
    assert Selection(7, keys).only_key == only
    assert Selection(7, keys, copies=True).only_key is None


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ([1] * 500, DELETED_AT_ONCE),
        ([DELETED_AT_ONCE_BYTES + 1, 1], 1),
        ([DELETED_AT_ONCE_BYTES // 2] * 3, 2),
        ([], 1),
    ],
    ids=["many small ones", "one larger than the bound", "as many as fit", "no message"],
)
def test_a_transaction_deletes_as_many_as_fit_and_at_least_one(sizes, count):
    assert deleted_at_once(sizes) == count


@pytest.mark.parametrize(
    ("copies", "count"),
    [
        ([], 60),
        ([1] * 60, 60),
        ([DELETED_COPIES_AT_ONCE + 1, 1], 1),
        ([DELETED_COPIES_AT_ONCE // 2] * 3, 2),
    ],
    ids=["without copies", "few copies", "more than the bound", "as many as fit"],
)
def test_a_transaction_deletes_as_many_copies_as_fit_but_all_of_one_message(copies, count):
    assert deleted_at_once([1] * 60, copies) == count


async def test_all_messages_are_deleted_in_steps():
    steps = iter([Deleted(3, more=True), Deleted(0, more=True), Deleted(2, more=False)])

    async def delete_some():
        return next(steps)

    assert await delete_all(delete_some) == 5
    assert next(steps, None) is None
