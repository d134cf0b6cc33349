"""With ``log.audit``, each new address and each accepted message has a log line."""

import asyncio
import json
import logging

import anyio
import pytest
from msgspec.structs import replace
from services import rules

from patience import PATIENCE_SECONDS
from tmpmaild.config.settings import Log
from tmpmaild.errors import AddressTaken, MailboxFull
from tmpmaild.host.logs import JsonFormatter
from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.inboxes.rules import Rules
from tmpmaild.model import Envelope, rfc3339

from .conftest import DOMAINS, MAIL, mailbox_of

DAY_MS = 86_400_000


@pytest.fixture
def lines(caplog):
    """Return a function that returns the lines since the function's last call, each split into words."""
    caplog.set_level(logging.INFO, "tmpmaild.audit")

    def lines():
        found = [one.getMessage().split(" ") for one in caplog.records if one.name == "tmpmaild.audit"]
        caplog.clear()
        return found

    return lines


def switch(world, *, audit=True, **more):
    config = rules(*DOMAINS, **more).config
    world.service.change_rules(Rules(replace(config, log=Log(audit=audit))))


def hashed(world, *addresses):
    return [world.storage.audit_hash(address, day=rfc3339(world.clock())[:10]) for address in addresses]


async def test_an_audit_line_has_the_time_the_event_the_client_and_the_hash_of_the_day(world, lines):
    switch(world)
    inbox, _ = await world.service.inboxes.create(NewAddress(), None, "2001:db8::/64")
    assert lines() == [[rfc3339(world.clock()), "created", "2001:db8::/64", *hashed(world, inbox.address)]]
    await world.deliver(inbox.address)
    assert lines() == [[rfc3339(world.clock()), "accepted", "192.0.2.9", *hashed(world, inbox.address)]]


async def test_a_line_in_json_has_the_client_and_the_hashes_as_fields(world, caplog):
    """Log collectors filter by fields, and the text of ``message`` may change."""
    caplog.set_level(logging.INFO, "tmpmaild.audit")
    switch(world)
    inbox, _ = await world.service.inboxes.create(NewAddress(), None, "2001:db8::/64")
    await world.deliver(inbox.address)
    lines = [json.loads(JsonFormatter().format(one)) for one in caplog.records if one.name == "tmpmaild.audit"]
    (of_inbox,) = hashed(world, inbox.address)
    assert [(one["event"], one["audited"], one["client"], one["hashes"]) for one in lines] == [
        ("audit", "created", "2001:db8::/64", of_inbox),
        ("audit", "accepted", "192.0.2.9", of_inbox),
    ]


async def test_the_audit_is_off_by_default_and_a_reload_turns_it_on_and_off(world, lines):
    found = []
    for audit in (None, True, False):
        if audit is not None:
            switch(world, audit=audit)
        inbox, _ = await world.create()
        await world.deliver(inbox.address)
        found.append(len(lines()))
    assert found == [0, 2, 0]


@pytest.mark.parametrize(
    "recipient",
    [
        "ada@mail.example.com",
        "ADA@Mail.Example.COM",
        "ada+tag@mail.example.com",
        '"ada"@mail.example.com',
        "@hop.example,@other.example:ada@mail.example.com",
    ],
)
async def test_each_form_of_an_address_has_the_hash_of_its_inbox(world, lines, recipient):
    await world.create(local_part="ada")
    switch(world)
    envelope = Envelope("", (recipient,), "mx.example.com", "192.0.2.9", tls=False)
    inbox_id = await world.service.deliverer.recipient(mailbox_of("ada@mail.example.com"))
    await world.service.deliverer.deliver(envelope, [inbox_id], MAIL)
    assert [line[3:] for line in lines()] == [hashed(world, "ada@mail.example.com")]


@pytest.mark.parametrize(
    ("recipient", "address"),
    [
        ("Postmaster", "postmaster@mail.example.com"),
        ("abuse@second.test", "abuse@second.test"),
    ],
)
async def test_mail_for_the_operator_has_an_audit_line(world, lines, recipient, address):
    switch(world)
    envelope = Envelope("", (recipient,), "mx.example.com", "192.0.2.9", tls=False)
    await world.service.deliverer.deliver(
        envelope, [await world.service.deliverer.recipient(mailbox_of(address))], MAIL
    )
    assert [line[1:] for line in lines()] == [["accepted", "192.0.2.9", *hashed(world, address)]]


async def test_a_message_for_several_addresses_is_one_line_with_each_of_them_once(world, lines):
    ada, bob = [(await world.create(local_part=name))[0].address for name in ("ada", "bob")]
    switch(world)
    await world.deliver(ada, bob, ada)
    assert [line[3:] for line in lines()] == [hashed(world, ada, bob)]


async def test_an_address_that_mail_creates_is_created_by_the_client_that_sends_it(world, lines):
    switch(world, accept_unknown=True)
    await world.deliver("new.one@mail.example.com")
    (hash_now,) = hashed(world, "new.one@mail.example.com")
    assert [line[1:] for line in lines()] == [["created", "192.0.2.9", hash_now], ["accepted", "192.0.2.9", hash_now]]


async def test_refused_requests_have_no_line(world, lines):
    inbox, _ = await world.create(local_part="ada")
    switch(world)
    with pytest.raises(AddressTaken):
        await world.create(local_part="ada")
    with pytest.raises(MailboxFull):
        await world.deliver(inbox.address, raw=MAIL + b"x" * 1_100_000)
    assert lines() == []


async def test_stored_data_has_its_line_even_if_the_caller_was_cancelled(world, lines):
    """For example, a connection may be closed while its message or its new address is being written."""
    inbox, _ = await world.create()
    switch(world)
    envelope = Envelope("", (inbox.address,), "mx.example.com", "192.0.2.9", tls=False)
    found = []
    for storing in (world.service.deliverer.deliver(envelope, [inbox.id], MAIL), world.create(local_part="ada")):
        task = asyncio.ensure_future(storing)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with anyio.fail_after(PATIENCE_SECONDS):
            while not (written := lines()):
                await asyncio.sleep(0.001)
        found += [line[1] for line in written]
    assert found == ["accepted", "created"]
    assert (await world.service.access.find("ada@mail.example.com")).address == "ada@mail.example.com"


async def test_each_day_starts_at_midnight_utc(world, lines):
    world.clock.advance(ms=DAY_MS - world.clock() % DAY_MS - 1)
    inbox, _ = await world.create()
    switch(world)
    for _ in range(2):
        await world.deliver(inbox.address)
        world.clock.advance(ms=1)
    before, after = lines()
    assert (before[0][10:], after[0][10:]) == ("T23:59:59.999Z", "T00:00:00.000Z")
    assert [before[3], after[3]] == [
        world.storage.audit_hash(inbox.address, day=line[0].partition("T")[0]) for line in (before, after)
    ]
    assert before[3] != after[3]
