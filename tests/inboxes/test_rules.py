"""The operator's rules: domains, wildcards, and retired domains."""

import pytest
from services import rules

from tmpmaild.errors import InvalidRequest
from tmpmaild.model import Page
from tmpmaild.storage.base import OPERATOR_INBOX_ID

from .conftest import LIFETIME_MS, mailbox_of


async def test_a_retired_domain_gives_no_address_and_is_kept_to_the_millisecond(world):
    inbox, token = await world.create(local_part="ada", domain="second.test")
    kept_until_ms = inbox.expires_at_ms + 5000
    world.service.change_rules(rules(max_lifetime_seconds=7200, retired={"second.test": kept_until_ms}))
    with pytest.raises(InvalidRequest):
        await world.create(domain="second.test")
    await world.deliver("ada@second.test")
    assert await world.service.deliverer.recipient(mailbox_of("postmaster@second.test")) == OPERATOR_INBOX_ID
    assert world.service.rules.extendable_until_ms(inbox) == kept_until_ms
    assert (
        await world.service.inboxes.change(inbox.address, token, LIFETIME_MS // 1000 + 5)
    ).expires_at_ms == kept_until_ms
    world.clock.advance(ms=LIFETIME_MS + 4999)
    assert "second.test" in world.service.deliverer.mail_domains
    await world.deliver("ada@second.test")
    world.clock.advance(ms=1)
    assert "second.test" not in world.service.deliverer.mail_domains


async def test_every_name_below_a_wildcard_is_a_domain_whose_postmaster_is_the_operator(world):
    world.service.change_rules(rules("mail.example.com", "*.tenants.test", accept_unknown=True))
    inbox, _ = await world.create(local_part="ada", domain="Acme.tenants.test")
    assert inbox.address == "ada@acme.tenants.test"
    await world.deliver("Ada+tag@acme.tenants.test", "unknown@a.b.tenants.test")
    assert len((await world.service.mail.list("unknown@a.b.tenants.test", Page())).messages) == 1
    assert await world.service.deliverer.recipient(mailbox_of("postmaster@any.tenants.test")) == OPERATOR_INBOX_ID
    assert (await world.create())[0].address.endswith("@mail.example.com")
    long = ".".join(["x" * 60] * 4) + ".tenants.test"
    for wrong in ("tenants.test", "*.tenants.test", "a_b.tenants.test", "a..tenants.test", long, "second.test"):
        with pytest.raises(InvalidRequest) as refusal:
            await world.create(domain=wrong)
        assert [pointer for pointer, _ in refusal.value.errors] == ["/domain"]


async def test_a_retired_wildcard_is_kept_and_a_domain_below_a_new_one_is_not_retired(world):
    wild, nine_hours = ("mail.example.com", "*.tenants.test"), {"max_lifetime_seconds": 9 * 3600}
    world.service.change_rules(rules(*wild, **nine_hours))
    inbox, _ = await world.create(local_part="ada", domain="acme.tenants.test")
    until_ms = inbox.expires_at_ms + 5000
    retired = {"*.tenants.test": until_ms}
    world.service.change_rules(rules(retired=retired, **nine_hours))
    await world.deliver("ada@acme.tenants.test")
    assert world.service.rules.extendable_until_ms(inbox) == until_ms
    with pytest.raises(InvalidRequest):
        await world.create(domain="acme.tenants.test")
    world.clock.advance(ms=LIFETIME_MS + 5000)
    assert "acme.tenants.test" not in world.service.deliverer.mail_domains
    world.service.change_rules(rules(*wild, retired={"acme.tenants.test": 1}, **nine_hours))
    assert world.service.rules.extendable_until_ms(inbox) == inbox.created_at_ms + 9 * LIFETIME_MS
