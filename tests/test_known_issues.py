"""That the symptoms of docs/known-issues.md are still there, where no other test holds them."""

import inspect

from tmpmaild.inboxes.faults import Faults
from tmpmaild.smtp import server, session

MIB = 1 << 20


def test_what_clients_that_do_not_read_may_hold_is_more_than_was_wanted():
    held = 2 * session._MAX_BUFFERED_BYTES  # of replies and of input
    assert 900 * held + 100 * MIB > 200 * MIB


def test_a_receive_buffer_is_small():
    assert server._RECEIVE_BUFFER_BYTES / 0.1 < 1 * MIB  # a second at a round trip of 100 ms


def test_faults_are_of_one_daemon():
    """They are in its memory: nothing of a storage is given to them."""
    assert [*inspect.signature(Faults).parameters] == ["allowed"]
