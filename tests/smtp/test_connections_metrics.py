"""Every message that reached its final dot is counted once, along with the reply that it received."""

import pytest

from tmpmaild.inboxes.faults import Fault

SMALL = "Subject: x\r\n\r\nhello"
LARGE = "Subject: x\r\n\r\n" + "words and words\r\n" * 20_000


def counted(house):
    (mails,) = (one for one in house.server.metrics() if one.name == "smtp_mails_total")
    return {labels: int(value) for labels, value in mails.values().items()}


@pytest.mark.parametrize(
    ("settings", "mail", "fault", "expected"),
    [
        ({}, SMALL, None, ("accepted", "2.0.0")),
        ({}, "Subject: x\r\n\r\nhello\n.\nMAIL FROM:<b@example.com>", None, ("refused", "5.5.2")),
        ({"max_message_bytes": 100_000}, LARGE, None, ("refused", "5.3.4")),
        ({"max_inflight_bytes": 1000, "max_message_bytes": 1_000_000}, LARGE * 8, None, ("refused", "4.3.2")),
        ({"limits": {"max_bytes_per_inbox": 100_000}}, LARGE, None, ("refused", "4.2.2")),
        ({"storage_bytes": 400_000}, LARGE, None, ("refused", "4.3.1")),
        ({"faults": True}, SMALL, "451 4.7.1 Greylisted", ("refused", "")),
    ],
    ids=["stored", "smuggled", "too big", "memory", "inbox full", "storage full", "ordered"],
)
async def test_a_message_is_counted_by_the_reply_to_its_dot(serve, settings, mail, fault, expected):
    async with serve(**settings) as house:
        if fault:
            await house.order("abc", Fault("end", fault))
        client = await house.greeted()
        reply = await client.deliver("abc", mail=mail)
        assert expected[1] in ("", reply.split()[1])
        assert counted(house) == {expected: 1}
