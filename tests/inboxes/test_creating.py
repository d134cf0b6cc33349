"""Address creation and its rules."""

from .conftest import LIFETIME_MS


async def test_a_plain_create_gives_a_random_address_at_the_first_domain(world):
    inbox, token = await world.create()
    name, domain = inbox.address.split("@")
    assert (len(name), domain, len(token)) == (12, "mail.example.com", 43)
    assert (inbox.created_at_ms, inbox.expires_at_ms) == (world.clock(), world.clock() + LIFETIME_MS)
    assert await world.service.access.find(inbox.address) == inbox


async def test_neither_the_token_nor_the_creator_is_in_any_file(world, tmp_path):
    inbox, token = await world.create()
    await world.deliver(inbox.address)
    files = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert inbox.address.encode() in files
    assert token.encode() not in files
    assert b"192.0.2.1" not in files


async def test_a_requested_name_and_domain_are_used_in_lower_case(world):
    inbox, _ = await world.create(local_part="Ada.L", domain="SECOND.test")
    assert inbox.address == "ada.l@second.test"
    assert (await world.service.access.find("ADA.L+tag@Second.Test")).id == inbox.id
