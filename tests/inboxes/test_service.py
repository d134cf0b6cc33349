"""The product without a wire: addresses and mail through ``InboxService``, on a real storage."""

import asyncio
import itertools
import time

import pytest
from services import connected

from growth import cpu_seconds
from tmpmaild.errors import (
    AddressExpired,
    AddressNotFound,
    AddressTaken,
    InvalidRequest,
    MailboxFull,
    MessageNotFound,
    StorageFull,
    Unauthorized,
)
from tmpmaild.inboxes.creating import NewAddress, Rules
from tmpmaild.inboxes.service import InboxService
from tmpmaild.mail import mime
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.model import Envelope, Page
from tmpmaild.storage.base import OPERATOR_INBOX_ID
from tmpmaild.storage.settings import SqliteSettings
from tmpmaild.storage.sqlite.engine import open_storage

LIFETIME_MS = 3_600_000
DOMAINS = ("mail.example.com", "second.test")
MAIL = b"From: Ada <ada@example.com>\r\nSubject: Hi\r\n\r\nHello\r\n"


class Choice:
    """Picks each character in turn, or always the first while ``stuck``."""

    def __init__(self):
        self.stuck = False
        self._numbers = itertools.count()

    def __call__(self, characters):
        return characters[0 if self.stuck else next(self._numbers) % len(characters)]


class World:
    """A service and what it was built from."""

    def __init__(self, storage, clock, **rules):
        self.clock = clock
        self.choice = Choice()
        tokens = itertools.count()
        self.service = connected(
            storage,
            InboxService(
                storage,
                Rules(domains=DOMAINS, lifetime_ms=LIFETIME_MS, **rules),
                clock=clock,
                choice=self.choice,
                new_token=lambda: f"token-{next(tokens)}",
                give_memory_back=lambda: self.gave_back.append(clock()),
            ),
        )
        self.gave_back = []

    async def create(self, **wish):
        return await self.service.create(NewAddress(**wish), "192.0.2.1")

    async def deliver(self, *recipients, raw=MAIL):
        inbox_ids = [await self.service.recipient(_mailbox(recipient)) for recipient in recipients]
        envelope = Envelope("bounce@example.com", recipients, "mx.example.com", "192.0.2.9", tls=False)
        return await self.service.deliver(envelope, inbox_ids, raw)


def _mailbox(address):
    return Mailbox(*address.rsplit("@", 1))


@pytest.fixture
async def storage(tmp_path, clock):
    settings = SqliteSettings(
        max_bytes=2**24,
        reserve_bytes=2**21,
        max_messages_per_inbox=2,
        max_bytes_per_inbox=2**20,
        path=tmp_path / "mail.db",
    )
    async with open_storage(settings, clock) as opened:
        yield opened


@pytest.fixture
def world(storage, clock):
    return World(storage, clock)


async def test_a_plain_create_gives_a_random_address_at_the_first_domain(world):
    inbox, token = await world.create()
    name, domain = inbox.address.split("@")
    assert (len(name), domain, token) == (12, "mail.example.com", "token-0")
    assert (inbox.created_at_ms, inbox.expires_at_ms) == (world.clock(), world.clock() + LIFETIME_MS)
    assert await world.service.find(inbox.address) == inbox


async def test_neither_the_token_nor_the_creator_is_in_any_file(world, tmp_path):
    inbox, token = await world.create()
    await world.deliver(inbox.address)
    files = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert inbox.address.encode() in files
    assert token.encode() not in files
    assert b"192.0.2.1" not in files


async def test_a_wish_for_name_and_domain_is_granted_in_lower_case(world):
    inbox, _ = await world.create(local_part="Ada.L", domain="SECOND.test")
    assert inbox.address == "ada.l@second.test"
    assert (await world.service.find("ADA.L+tag@Second.Test")).id == inbox.id


async def test_a_foreign_domain_is_refused_with_those_we_have(world):
    with pytest.raises(InvalidRequest) as refusal:
        await world.create(domain="elsewhere.test")
    assert refusal.value.errors == (("/domain", "expected one of mail.example.com, second.test"),)


@pytest.mark.parametrize("name", ["a", "postmaster", "-ada", "a b c", "ädä"])
async def test_a_name_nobody_may_have_is_refused(world, name):
    with pytest.raises(InvalidRequest) as refusal:
        await world.create(local_part=name)
    assert [pointer for pointer, _ in refusal.value.errors] == ["/local_part"]


async def test_a_wished_name_in_use_is_taken(world):
    await world.create(local_part="ada")
    with pytest.raises(AddressTaken):
        await world.create(local_part="ada")


async def test_a_random_name_that_is_taken_is_drawn_again_a_few_times(world):
    world.choice.stuck = True
    await world.create()
    with pytest.raises(AddressTaken):
        await world.create()
    world.choice.stuck = False
    await world.create()


async def test_an_address_is_over_to_the_millisecond(world):
    inbox, _ = await world.create()
    world.clock.advance(ms=LIFETIME_MS - 1)
    await world.service.find(inbox.address)
    await world.service.mail.list(inbox.address, Page())
    world.clock.advance(ms=1)
    for look in (world.service.find(inbox.address), world.service.mail.list(inbox.address, Page())):
        with pytest.raises(AddressExpired) as refusal:
            await look
        assert refusal.value.expired_at_ms == inbox.expires_at_ms


async def test_a_retired_domain_gives_no_address_and_is_kept_to_the_millisecond(world):
    inbox, token = await world.create(local_part="ada", domain="second.test")
    kept_until_ms = inbox.expires_at_ms + 5000
    rules = Rules(
        domains=("mail.example.com",),
        lifetime_ms=LIFETIME_MS,
        max_lifetime_ms=2 * LIFETIME_MS,
        retired={"second.test": kept_until_ms},
    )
    world.service.change_rules(rules)
    with pytest.raises(InvalidRequest):
        await world.create(domain="second.test")
    await world.deliver("ada@second.test")
    assert await world.service.recipient(_mailbox("postmaster@second.test")) == OPERATOR_INBOX_ID
    assert world.service.rules.extendable_until_ms(inbox) == kept_until_ms
    assert (await world.service.change(inbox.address, token, LIFETIME_MS // 1000 + 5)).expires_at_ms == kept_until_ms
    world.clock.advance(ms=LIFETIME_MS + 4999)
    assert "second.test" in world.service.mail_domains
    await world.deliver("ada@second.test")
    world.clock.advance(ms=1)
    assert "second.test" not in world.service.mail_domains


async def test_every_name_below_a_wildcard_is_a_domain_and_its_postmaster_the_operator(world):
    world.service.change_rules(
        Rules(domains=("mail.example.com", "*.tenants.test"), lifetime_ms=LIFETIME_MS, accept_unknown=True)
    )
    inbox, _ = await world.create(local_part="ada", domain="Acme.tenants.test")
    assert inbox.address == "ada@acme.tenants.test"
    await world.deliver("Ada+tag@acme.tenants.test", "unknown@a.b.tenants.test")
    assert len((await world.service.mail.list("unknown@a.b.tenants.test", Page())).messages) == 1
    assert await world.service.recipient(_mailbox("postmaster@any.tenants.test")) == OPERATOR_INBOX_ID
    assert (await world.create())[0].address.endswith("@mail.example.com")
    long = ".".join(["x" * 60] * 4) + ".tenants.test"
    for wrong in ("tenants.test", "*.tenants.test", "a_b.tenants.test", "a..tenants.test", long, "second.test"):
        with pytest.raises(InvalidRequest) as refusal:
            await world.create(domain=wrong)
        assert [pointer for pointer, _ in refusal.value.errors] == ["/domain"]


async def test_a_retired_wildcard_is_kept_and_a_domain_below_a_new_one_is_not_retired(world):
    wild = Rules(
        domains=("mail.example.com", "*.tenants.test"), lifetime_ms=LIFETIME_MS, max_lifetime_ms=9 * LIFETIME_MS
    )
    world.service.change_rules(wild)
    inbox, _ = await world.create(local_part="ada", domain="acme.tenants.test")
    until_ms = inbox.expires_at_ms + 5000
    retired = {"*.tenants.test": until_ms}
    world.service.change_rules(
        Rules(domains=("mail.example.com",), lifetime_ms=LIFETIME_MS, max_lifetime_ms=9 * LIFETIME_MS, retired=retired)
    )
    await world.deliver("ada@acme.tenants.test")
    assert world.service.rules.extendable_until_ms(inbox) == until_ms
    with pytest.raises(InvalidRequest):
        await world.create(domain="acme.tenants.test")
    world.clock.advance(ms=LIFETIME_MS + 5000)
    assert "acme.tenants.test" not in world.service.mail_domains
    world.service.change_rules(
        Rules(
            domains=wild.domains,
            lifetime_ms=LIFETIME_MS,
            max_lifetime_ms=9 * LIFETIME_MS,
            retired={"acme.tenants.test": 1},
        )
    )
    assert world.service.rules.extendable_until_ms(inbox) == inbox.created_at_ms + 9 * LIFETIME_MS


async def test_other_rules_hold_at_once(world):
    inbox, token = await world.create()
    await world.service.mail.list(inbox.address, Page())
    world.service.change_rules(Rules(domains=DOMAINS, lifetime_ms=1000, require_token=True, hostname="mx.new.test"))
    with pytest.raises(Unauthorized):
        await world.service.mail.list(inbox.address, Page())
    await world.deliver(inbox.address)
    (message,) = (await world.service.mail.list(inbox.address, Page(), token)).messages
    fields, _ = await world.service.mail.source(inbox.address, message.id, token)
    assert b"by mx.new.test" in fields
    other, _ = await world.create()
    assert other.expires_at_ms - other.created_at_ms == 1000


async def test_an_address_can_be_extended_to_that_moment_and_no_millisecond_further(storage, clock):
    world = World(storage, clock, max_lifetime_ms=LIFETIME_MS + 2000)
    inbox, token = await world.create()
    last_ms = inbox.created_at_ms + LIFETIME_MS + 2000
    assert world.service.rules.extendable_until_ms(inbox) == last_ms
    extended = await world.service.change(inbox.address, token, LIFETIME_MS // 1000 + 2)
    assert extended.expires_at_ms == world.service.rules.extendable_until_ms(extended) == last_ms
    world.clock.advance(ms=1)
    with pytest.raises(InvalidRequest):
        await world.service.change(inbox.address, token, LIFETIME_MS // 1000 + 2)


async def test_an_address_keeps_what_it_was_given_when_the_operator_allows_less_from_then_on(storage, clock):
    generous, strict = World(storage, clock, max_lifetime_ms=2 * LIFETIME_MS), World(storage, clock)
    inbox, token = await generous.create()
    inbox = await generous.service.change(inbox.address, token, 2 * LIFETIME_MS // 1000)
    assert strict.service.rules.extendable_until_ms(inbox) == inbox.expires_at_ms
    with pytest.raises(InvalidRequest) as refusal:
        await strict.service.change(inbox.address, token, 2 * LIFETIME_MS // 1000 + 1)
    ((_, detail),) = refusal.value.errors
    assert detail == "expected at most 7200 now: an address here lives 7200 seconds at most"


@pytest.mark.parametrize(
    "address", ["nobody@mail.example.com", "no address", "", "@mail.example.com", "a@b@c", "\ud800@x.test"]
)
async def test_what_never_was_an_address_is_not_found(world, address):
    with pytest.raises(AddressNotFound):
        await world.service.find(address)
    with pytest.raises(AddressNotFound):
        await world.service.mail.list(address, Page())


async def test_a_private_inbox_looks_like_none_without_its_token_before_and_after_its_hour(world):
    inbox, token = await world.create(private=True)
    _, other_token = await world.create()
    assert (await world.service.find(inbox.address, token)).id == inbox.id
    for _ in range(2):
        refusals = []
        for address, key in ((inbox.address, None), (inbox.address, other_token), (inbox.address, "\udcff")):
            with pytest.raises(AddressNotFound) as refusal:
                await world.service.find(address, key)
            refusals.append(type(refusal.value))
        assert set(refusals) == {AddressNotFound}
        world.clock.advance(ms=LIFETIME_MS)
    with pytest.raises(AddressExpired):
        await world.service.find(inbox.address, token)


async def test_a_service_that_requires_tokens_asks_before_it_looks(storage, clock):
    world = World(storage, clock, require_token=True)
    inbox, token = await world.create()
    for address in (inbox.address, "nobody@mail.example.com", "no address"):
        with pytest.raises(Unauthorized):
            await world.service.find(address)
    with pytest.raises(AddressNotFound):
        await world.service.find(inbox.address, "wrong")
    assert (await world.service.mail.list(inbox.address, Page(), token)).inbox.id == inbox.id


async def test_a_delivered_mail_is_listed(world):
    inbox, _ = await world.create(local_part="ada")
    message_id = await world.deliver("ADA+x@mail.example.com")
    (message,) = (await world.service.mail.list(inbox.address, Page())).messages
    assert (message.id, message.subject, message.body) == (message_id, "Hi", "Hello\n")
    assert (message.from_address, message.from_name) == ("ada@example.com", "Ada")
    assert message.recipient == "ADA+x@mail.example.com"


async def test_a_large_mail_is_parsed_in_a_thread_and_stored(world):
    inbox, _ = await world.create()
    await world.deliver(inbox.address, raw=MAIL + b"more\r\n" * 20_000)
    (message,) = (await world.service.mail.list(inbox.address, Page())).messages
    assert message.body.count("more\n") == 20_000


async def test_html_of_more_than_some_kilobytes_is_not_parsed_in_the_event_loop(world):
    inbox, _ = await world.create()
    raw = b"Content-Type: Text/HTML\r\n\r\n" + b"<p>x\r\n" * 5000
    parsing_seconds = cpu_seconds(mime.parse, raw)
    began = time.thread_time()
    await world.deliver(inbox.address, raw=raw)
    assert time.thread_time() - began < parsing_seconds / 2


async def test_large_mails_that_cost_much_leave_a_place_for_a_small_one(world):
    large, second, small = [(await world.create())[0].address for _ in range(3)]
    stored = []

    async def deliver(address, html):
        await world.deliver(address, raw=b"Content-Type: text/html\r\n\r\n" + html)
        stored.append(address)

    costly = b"".join(b"<p style='display:none%d'>x" % n for n in range(12_000))
    async with asyncio.TaskGroup() as tasks:
        for address in (large, second):
            tasks.create_task(deliver(address, costly))
        tasks.create_task(deliver(small, b"<p>x" * 2000))
    assert stored[0] == small


async def test_a_full_inbox_is_full_at_rcpt_and_at_the_commit(world):
    inbox, _ = await world.create()
    mailbox = _mailbox(inbox.address)
    inbox_id = await world.service.recipient(mailbox)
    assert world.service.recipient_now(mailbox) == inbox_id
    envelope = Envelope("", (inbox.address,), "", "", tls=False)
    outcomes = await asyncio.gather(
        *(world.service.deliver(envelope, [inbox_id], MAIL) for _ in range(3)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [str, str, MailboxFull]
    assert world.service.recipient_now(mailbox) is None
    with pytest.raises(MailboxFull):
        await world.service.recipient(mailbox)


async def test_a_recipient_is_known_without_waiting_from_its_first_mail_until_it_is_over(world):
    inbox, _ = await world.create()
    mailbox = _mailbox(inbox.address)
    assert world.service.recipient_now(mailbox) is None  # its creator may have no room left
    assert await world.service.recipient(mailbox) == inbox.id
    assert world.service.recipient_now(mailbox) == inbox.id
    world.clock.advance(ms=LIFETIME_MS)
    assert world.service.recipient_now(mailbox) is None
    with pytest.raises(AddressNotFound):
        await world.service.recipient(mailbox)


async def test_a_mail_whose_recipient_is_over_by_its_end_is_refused(world):
    inbox, _ = await world.create()
    inbox_id = await world.service.recipient(_mailbox(inbox.address))
    world.clock.advance(ms=LIFETIME_MS)
    with pytest.raises(AddressNotFound):
        await world.service.deliver(Envelope("", (inbox.address,), "", "", tls=False), [inbox_id], MAIL)


async def test_the_memory_forgets_what_is_over(world):
    inbox, _ = await world.create()
    await world.service.recipient(_mailbox(inbox.address))
    assert len(world.service.caches.recipients) == 1
    world.clock.advance(ms=LIFETIME_MS)
    world.service.forget_expired()
    assert len(world.service.caches.recipients) == 0


@pytest.mark.parametrize("address", ["postmaster@mail.example.com", "ABUSE@second.test", "Postmaster@"])
async def test_postmaster_and_abuse_reach_the_operator_and_nobody_else(world, address):
    assert await world.service.recipient(_mailbox(address)) == OPERATOR_INBOX_ID
    await world.deliver(address)
    with pytest.raises(AddressNotFound):
        await world.service.find(address)


async def test_a_stranger_postmaster_is_unknown(world):
    with pytest.raises(AddressNotFound):
        await world.service.recipient(Mailbox("postmaster", "elsewhere.test"))


async def test_a_full_storage_gives_out_no_address(world):
    while world.service.has_room():
        inbox, _ = await world.create()
        await world.deliver(inbox.address, raw=MAIL + b"x" * 400_000)
    with pytest.raises(StorageFull):
        await world.create()


async def test_who_has_been_answered_finds_the_mail_however_often_was_read_before(world):
    inbox, _ = await world.create(local_part="often")
    for number in range(2):
        for _ in range(3):
            assert len((await world.service.mail.list(inbox.address, Page())).messages) == number
        reads = [asyncio.ensure_future(world.service.mail.list(inbox.address, Page())) for _ in range(5)]
        message_id = await world.deliver(inbox.address)
        assert (await world.service.mail.list(inbox.address, Page())).messages[0].id == message_id
        await asyncio.gather(*reads)
        assert (await world.service.mail.list(inbox.address, Page())).messages[0].id == message_id


async def test_a_page_read_before_is_not_shown_after_the_end(world, clock):
    inbox, _ = await world.create()
    await world.service.mail.list(inbox.address, Page())
    clock.advance(ms=LIFETIME_MS)
    with pytest.raises(AddressExpired):
        await world.service.mail.list(inbox.address, Page())


async def test_a_page_that_its_owner_has_read_is_not_shown_to_others(world):
    inbox, token = await world.create(private=True)
    await world.service.mail.list(inbox.address, Page(), token)
    for wrong in (None, "wrong"):
        with pytest.raises(AddressNotFound):
            await world.service.mail.list(inbox.address, Page(), wrong)


async def test_a_source_is_the_mail_below_our_trace_fields(world):
    inbox, _ = await world.create(local_part="ada")
    message_id = await world.deliver("ADA+x@mail.example.com", "postmaster@mail.example.com")
    fields, raw = await world.service.mail.source("ada@MAIL.example.com", message_id)
    assert raw == MAIL
    assert f"by localhost with ESMTP id {message_id}\r\n\tfor <ADA+x@mail.example.com>; ".encode() in fields
    assert b"postmaster" not in fields
    assert await world.service.mail.source(inbox.address, message_id, up_to_bytes=len(MAIL) - 1) == (fields, None)


async def test_our_name_in_a_source_is_the_one_of_the_rules(storage, clock):
    world = World(storage, clock, hostname="mx.mail.example.com")
    inbox, _ = await world.create()
    fields, _ = await world.service.mail.source(inbox.address, await world.deliver(inbox.address))
    assert b"\tby mx.mail.example.com with" in fields


async def test_a_source_is_shown_to_whom_its_list_is(world):
    inbox, token = await world.create(private=True)
    message_id = await world.deliver(inbox.address)
    assert (await world.service.mail.source(inbox.address, message_id, token))[1] == MAIL
    for wrong in (None, "wrong"):
        for one in (message_id, "msg_none"):
            with pytest.raises(AddressNotFound):
                await world.service.mail.source(inbox.address, one, wrong)
    with pytest.raises(MessageNotFound):
        await world.service.mail.source(inbox.address, "msg_none", token)
    world.clock.advance(ms=LIFETIME_MS)
    for one in (message_id, "msg_none"):
        with pytest.raises(AddressExpired):
            await world.service.mail.source(inbox.address, one, token)


async def test_memory_is_given_back_after_large_mail_and_once_a_second_at_most(world):
    inbox, _ = await world.create()
    large = MAIL + b"x" * 1_100_000  # over an inbox's limit here, but it is parsed first
    for advance_ms, times in ((0, 1), (999, 1), (1, 2)):
        world.clock.advance(ms=advance_ms)
        with pytest.raises(MailboxFull):
            await world.deliver(inbox.address, raw=large)
        assert len(world.gave_back) == times
    await world.deliver(inbox.address)
    assert len(world.gave_back) == 2
