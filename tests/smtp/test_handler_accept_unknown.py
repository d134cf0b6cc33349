"""``smtp.accept_unknown = "create"``: an address is created by its first message."""

import pytest
from services import rules

from tmpmaild.errors import AddressNotFound
from tmpmaild.smtp import replies

pytestmark = pytest.mark.both_engines


@pytest.fixture
def catch_all(talk):
    return lambda **settings: talk(accept_unknown=True, **settings)


async def test_an_unknown_address_exists_after_its_first_message(catch_all):
    async with catch_all() as (house, client):
        for _ in range(2):
            forms = ("john.doe", "John.Doe+tag", "mary")
            assert (await client.deliver(*forms, mail="Subject: welcome\r\n\r\nhello")).startswith("250")
        for name in ("john.doe", "mary"):
            assert [message.subject for message in await house.messages(name)] == ["welcome", "welcome"]
        inbox = await house.service.access.find("john.doe@ours.test")
        assert inbox.expires_at_ms - inbox.created_at_ms == 3_600_000
        assert not inbox.private


async def test_rcpt_without_a_message_creates_nothing(catch_all):
    async with catch_all() as (house, client):
        said = await client.say("MAIL FROM:<a@example.com>", "RCPT TO:<john@ours.test>", "RSET")
        assert said[1] == str(replies.RECIPIENT_OK)
        with pytest.raises(AddressNotFound):
            await house.service.access.find("john@ours.test")


async def test_an_accepted_recipient_gets_its_mail_after_the_setting_is_turned_off(catch_all):
    async with catch_all() as (house, client):
        await client.say("MAIL FROM:<a@example.com>", "RCPT TO:<john@ours.test>", "DATA")
        house.service.change_rules(rules("ours.test"))
        assert (await client.say("Subject: last\r\n."))[0].startswith("250")
        assert len(await house.messages("john")) == 1
        assert (await client.say("MAIL FROM:<>", "RCPT TO:<mary@ours.test>"))[1] == str(replies.UNKNOWN_RECIPIENT)


async def test_a_retired_domain_gets_no_address_by_mail(catch_all):
    async with catch_all() as (house, client):
        until_ms = house.server.handler.clock() + 1000
        house.service.change_rules(rules("ours.test", accept_unknown=True, retired={"second.test": until_ms}))
        said = await client.say("MAIL FROM:<>", "RCPT TO:<john@second.test>", "RCPT TO:<john@ours.test>")
        assert said[1:] == [str(replies.UNKNOWN_RECIPIENT), str(replies.RECIPIENT_OK)]


@pytest.mark.parametrize("name", ["ab", "webmaster", "admin", "o'brien", "a..b", "-abc", '"a b"', "x" * 65])
async def test_a_name_that_could_not_be_chosen_is_not_created(catch_all, name):
    async with catch_all() as (_, client):
        said = await client.say("MAIL FROM:<a@example.com>", f"RCPT TO:<{name}@ours.test>")
        assert said[1][:3] in ("550", "501")


async def test_an_expired_address_stays_expired_until_its_quarantine_ends(catch_all, clock):
    async with catch_all() as (house, client):
        await client.deliver("john")
        clock.advance(seconds=3600)
        said = await client.say("MAIL FROM:<a@example.com>", "RCPT TO:<john@ours.test>", "RSET")
        assert said[1].startswith("550 5.1.1")
        clock.advance(seconds=24 * 3600)
        assert (await client.deliver("john")).startswith("250")
        assert len(await house.messages("john")) == 1


async def test_an_address_that_is_created_between_rcpt_and_the_dot_gets_the_mail(catch_all):
    async with catch_all() as (house, client):
        await client.say("MAIL FROM:<a@example.com>", "RCPT TO:<john@ours.test>", "DATA")
        await house.create("john")
        assert (await client.say("Subject: x\r\n\r\nhello\r\n."))[0].startswith("250")
        assert len(await house.messages("john")) == 1


@pytest.mark.parametrize(("names", "answer"), [(("john",), "550 5.1.1"), (("john", "abc"), "250 2.0.0")])
async def test_an_address_created_and_deleted_before_the_dot_gets_no_mail(catch_all, monkeypatch, names, answer):
    async def gone(*_):
        return None

    async with catch_all() as (house, client):
        await client.say("MAIL FROM:<a@example.com>", *(f"RCPT TO:<{name}@ours.test>" for name in names), "DATA")
        await house.create("john")
        monkeypatch.setattr(house.storage, "find_inbox", gone)
        assert (await client.say("Subject: x\r\n\r\nhello\r\n."))[0].startswith(answer)
        assert len(house.sources()) == answer.startswith("250")


async def test_a_sender_with_a_used_up_share_creates_nothing_more(catch_all):
    async with catch_all(storage_bytes=10_000_000, limits={"max_share_per_creator": 0.01}) as (house, client):
        replies = [await client.deliver(f"name{number}", mail="Subject: x\r\n\r\nhello") for number in range(30)]
        taken = sum(reply.startswith("250") for reply in replies)
        assert 10 < taken < 25
        assert {reply[:9] for reply in replies[taken:]} == {"452 4.2.2"}
        assert house.read("SELECT count(*) FROM inboxes WHERE address LIKE 'name%'") == [(taken,)]
