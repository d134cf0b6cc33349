"""Mail to an address that its holder has deleted, before RCPT and after it (rows 13 and 36b of the contract)."""

import pytest

from tmpmaild.smtp import replies

pytestmark = pytest.mark.both_engines


async def delete(house, name):
    """Delete an address whose token the test does not know, as its holder would."""
    inbox = await house.service.find(f"{name}@ours.test")
    await house.storage.move_expiry(inbox.id, house.clock(), house.clock())


async def test_a_deleted_address_is_refused_in_the_words_for_one_that_never_was(serve, clock):
    async with serve(names=("abc", "gone", "over")) as house:
        house.clock = clock
        client = await house.greeted()
        await client.deliver("gone")  # from now on it is known without asking the disk
        await delete(house, "gone")
        said = await client.say("MAIL FROM:<a@example.com>", "RCPT TO:<never@ours.test>", "RCPT TO:<gone@ours.test>")
        assert said[1] == said[2]
        assert said[1].startswith("550 5.1.1")
        clock.advance(seconds=3600)
        assert (await client.say("RCPT TO:<over@ours.test>"))[0] == said[1]


async def test_an_address_that_is_deleted_after_rcpt_is_left_out(serve, clock):
    async with serve(names=("abc", "gone")) as house:
        house.clock = clock
        client = await house.greeted()
        said = await client.say(
            "MAIL FROM:<a@example.com>", "RCPT TO:<gone@ours.test>", "RCPT TO:<abc@ours.test>", "DATA"
        )
        assert said[-1] == str(replies.GO_AHEAD)
        await delete(house, "gone")
        assert (await client.say("Subject: x\r\n\r\nhello\r\n."))[0].startswith("250 2.0.0")
        assert len(await house.messages("abc")) == 1


async def test_an_inbox_that_was_full_takes_mail_again_after_a_delete(serve):
    async with serve(limits={"max_messages_per_inbox": 1}) as house:
        client = await house.greeted()
        assert (await client.deliver("abc")).startswith("250")
        assert (await client.say("MAIL FROM:<a@example.com>", "RCPT TO:<abc@ours.test>"))[1].startswith("452 4.2.2")
        (message,) = await house.messages("abc")
        await house.storage.delete_messages((await house.service.find("abc@ours.test")).id, [message.id])
        await client.say("RSET")
        assert (await client.deliver("abc")).startswith("250")
