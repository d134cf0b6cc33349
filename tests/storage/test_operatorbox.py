"""The clients that may still send to postmaster and abuse, and the messages replaced when the inbox is full."""

import pytest

from tmpmaild.clients import client_name
from tmpmaild.storage.operatorbox import (
    CLIENT_SHARE,
    NETWORK_SHARE,
    OPERATOR_MAX_BYTES,
    OPERATOR_MAX_MESSAGES,
    Entry,
    OperatorBox,
)

OF_CLIENT = int(OPERATOR_MAX_MESSAGES * CLIENT_SHARE)
OF_NETWORK = int(OPERATOR_MAX_MESSAGES * NETWORK_SHARE)


def box(*sent, each_bytes=5000):
    """Return a box to which each of these IP addresses has sent one message."""
    return OperatorBox(Entry(key, ip, each_bytes) for key, ip in enumerate(sent, 1))


def spread(count, pattern):
    return [pattern.format(number) for number in range(count)]


@pytest.mark.parametrize(
    ("sent", "client", "refused"),
    [
        ([], "192.0.2.1", False),
        (["192.0.2.1"] * (OF_CLIENT - 1), "192.0.2.1", False),
        (["192.0.2.1"] * OF_CLIENT, "192.0.2.1", True),
        (["::ffff:192.0.2.1"] * OF_CLIENT, "192.0.2.1", True),
        (["192.0.2.1"] * OF_CLIENT, "192.0.2.2", False),
        (["192.0.2.1"] * OF_CLIENT, None, False),  # a message from an exempt client
        (spread(OF_NETWORK - 1, "192.0.2.{}"), "192.0.2.250", False),
        (spread(OF_NETWORK, "192.0.2.{}"), "192.0.2.250", True),
        (spread(OF_NETWORK, "192.0.2.{}"), "192.0.3.1", False),
        (spread(OF_CLIENT, "2001:db8::{:x}"), "2001:db8::ffff", True),  # all addresses are in one /64
        (["2001:db8:0:ffff::1", *spread(OF_NETWORK - 1, "2001:db8:0:{:x}::1")], "2001:db8:0:ffff::1", True),
        (spread(OF_NETWORK, "2001:db8:0:{:x}::1"), "2001:db8:1::1", False),
        (["local"] * OF_CLIENT, "local", True),
    ],
)
def test_a_client_and_its_network_have_a_share(sent, client, refused):
    assert box(*sent).refuses(client and client_name(client)) is refused


def test_a_share_also_limits_bytes_and_a_first_message_may_be_larger():
    large_bytes = int(OPERATOR_MAX_BYTES * CLIENT_SHARE)
    assert not box().refuses("192.0.2.1", OPERATOR_MAX_BYTES)
    assert box("192.0.2.1", each_bytes=large_bytes).refuses("192.0.2.1")
    assert not box("192.0.2.1", each_bytes=large_bytes).refuses("192.0.2.2")


def test_no_message_is_dropped_while_there_is_room_or_for_mail_that_never_fits():
    assert box(*spread(OPERATOR_MAX_MESSAGES - 1, "10.0.{}.1")).to_evict(5000) == []
    assert box("192.0.2.1").to_evict(OPERATOR_MAX_BYTES + 1) == []


@pytest.mark.parametrize(
    ("sent", "given_way"),
    [
        # The oldest message of the largest client in the largest network is replaced.
        (["198.51.100.1", "192.0.2.9", *["192.0.2.1"] * 99, *["203.0.113.1"] * 99], [2 + 1]),
        # All clients in a network are counted together.
        ([*["198.51.100.1"] * 50, *spread(60, "192.0.2.{}"), *spread(90, "10.1.{}.1")], [51]),
        # If all networks use the same space, the oldest message is replaced.
        (spread(200, "10.1.{}.1"), [1]),
        # A single sender replaces its own messages.
        (["127.0.0.1"] * 200, [1]),
    ],
)
def test_the_oldest_message_of_the_largest_sender_gives_way(sent, given_way):
    assert len(sent) == OPERATOR_MAX_MESSAGES
    assert box(*sent).to_evict(5000) == given_way


def test_a_large_message_displaces_as_many_messages_as_it_needs():
    each_bytes = OPERATOR_MAX_BYTES // 10
    sent = ["192.0.2.1"] * 5 + ["198.51.100.1"] * 5
    assert box(*sent, each_bytes=each_bytes).to_evict(3 * each_bytes) == [1, 6, 2]


def test_the_largest_network_is_reported():
    assert box().largest_network() == ("", 0)
    assert box("198.51.100.1", "192.0.2.1", "192.0.2.2").largest_network() == ("192.0.2.0/24", 2)
