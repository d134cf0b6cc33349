"""Blocks of clients, names and senders: their expiry, and lookups that take no longer with ten thousand blocks."""

from ipaddress import IPv4Address, IPv6Address

import msgspec
import pytest

from growth import assert_within, cpu_seconds
from tmpmaild.clients import parse_network
from tmpmaild.errors import CommandError
from tmpmaild.inboxes import blocks
from tmpmaild.inboxes.blocks import Blocks
from tmpmaild.inboxes.commands import BlockArguments, BlockCommands, UnblockArguments
from tmpmaild.model import Block


def blocking(clock, *places, expires_at_ms=None):
    return Blocks(clock, [Block(kind, value, 0, expires_at_ms) for kind, value in places])


@pytest.mark.parametrize(
    ("network", "inside", "outside"),
    [
        pytest.param(
            "192.0.2.1/32",
            ["192.0.2.1", "::ffff:192.0.2.1"],
            ["192.0.2.0", "192.0.2.2", "::c000:201"],
            id="IPv4 address",
        ),
        pytest.param("192.0.2.0/23", ["192.0.2.0", "192.0.3.255"], ["192.0.1.255", "192.0.4.0"], id="IPv4 network"),
        pytest.param("0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["::1", "local", "not an address"], id="all of IPv4"),
        pytest.param(
            "2001:db8::/32",
            ["2001:db8::", "2001:db8:ffff::1", "2001:db8::1%eth0"],
            ["2001:db9::", "32.1.13.184"],
            id="IPv6 network",
        ),
        pytest.param("2001:db8::1/128", ["2001:db8::1"], ["2001:db8::2"], id="IPv6 address"),
    ],
)
def test_a_network_contains_its_addresses_and_no_others(clock, network, inside, outside):
    known = blocking(clock, ("client", network))
    assert [ip for ip in inside if not known.has_client(ip)] == []
    assert [ip for ip in outside if known.has_client(ip)] == []


def test_a_list_that_is_read_again_is_compared_and_not_rebuilt(clock):
    listed = [Block("client", f"10.{number >> 8}.{number & 255}.0/24", 0, None) for number in range(5000)]
    again = [msgspec.structs.replace(block) for block in listed]
    known = Blocks(clock)
    assert_within(cpu_seconds(known.add, listed) / 2, known.replace, again)
    known.replace([*again[1:], Block("name", "support", 0, None)])
    assert len(list(known)) == 5000
    assert known.has_name("support")
    assert not known.has_client("10.0.0.1")


def test_a_lookup_in_10_000_networks_checks_each_prefix_length_once(clock):
    v4 = [("client", f"{IPv4Address((10 << 24) + 256 * number)}/24") for number in range(6000)]
    v6 = [("client", f"{IPv6Address((0x2001_0DB8 << 96) + (number << 64))}/64") for number in range(4000)]
    known = blocking(clock, *v4, *v6, ("client", "198.51.100.7/32"))

    class Counting(dict):
        looks = 0

        def __contains__(self, key):
            Counting.looks += 1
            return super().__contains__(key)

    known._networks = {place: Counting(table) for place, table in known._networks.items()}
    for ip, expected in (("10.1.2.3", True), ("198.51.100.7", True), ("203.0.113.9", False), ("2001:db8::9", True)):
        Counting.looks = 0
        assert known.has_client(ip) is expected
        assert Counting.looks <= 2


def test_a_blocked_sender_domain_includes_its_subdomains(clock):
    known = blocking(clock, ("sender", "spam.example"), ("sender", "[192.0.2.1]"), ("sender", "xn--bcher-kva.example"))
    blocked = [
        "a@spam.example",
        "a@SPAM.example",
        "a@x.y.spam.example",
        '"a@b"@spam.example',
        "a@bücher.example",
        "a@[192.0.2.1]",
    ]
    others = [
        "",
        "a@@spam.example",
        "a@notspam.example",
        "a@example",
        "spam.example@ok.example",
        "a@[192.0.2.2]",
        "a@spam.example.com",
    ]
    assert [path for path in blocked if not known.has_sender(path)] == []
    assert [path for path in others if known.has_sender(path)] == []


def test_a_block_ends_to_the_millisecond_and_is_forgotten(clock):
    places = [("client", "192.0.2.0/24"), ("name", "shop"), ("sender", "spam.example")]
    known = blocking(clock, *places, expires_at_ms=clock() + 10)
    known.add([Block("name", "stays", 0)])
    clock.advance(ms=9)
    assert (known.has_client("192.0.2.1"), known.has_name("shop"), known.has_sender("a@spam.example")) == (True,) * 3
    clock.advance(ms=1)
    assert (known.has_client("192.0.2.1"), known.has_name("shop"), known.has_sender("a@spam.example")) == (False,) * 3
    assert [block.value for block in known] == ["stays"]
    known.forget_expired()
    assert known.remove(places) == 0
    assert len(known._blocks) == 1


def test_blocking_again_sets_a_new_end_and_it_can_be_removed(clock):
    known = blocking(clock, ("name", "shop"))
    known.add([Block("name", "shop", 0, clock() + 10)])
    clock.advance(ms=10)
    assert not known.has_name("shop")
    known.add([Block("name", "shop", 0)])
    assert known.remove([("name", "shop"), ("name", "nobody")]) == 1
    assert not known.has_name("shop")


def test_values_have_one_form():
    assert str(parse_network("192.0.2.1")) == "192.0.2.1/32"
    assert str(parse_network("::ffff:192.0.2.0/120")) == "192.0.2.0/24"
    assert blocks.name("Shop+tag") == "shop"
    assert blocks.domain("@Bücher.EXAMPLE") == "xn--bcher-kva.example"


class Control:
    """The block commands, called as the control socket calls them."""

    def __init__(self, storage, known):
        own = [parse_network("10.0.0.0/8")]
        self.commands = BlockCommands(storage, known, own).commands()

    async def __call__(self, name, wanted):
        return [line async for line in self.commands[name].run(wanted)]


@pytest.mark.parametrize(
    ("text", "path", "is_blocked"),
    [
        ("Bob@Spam.example", "bob@spam.example", True),
        ("bob@spam.example", "BOB@SPAM.EXAMPLE", True),
        ("bob@spam.example", '"bob"@spam.example', True),
        ("bob@spam.example", "bobby@spam.example", False),
        ("bob@spam.example", "bob@mx.spam.example", False),
        ("bob@spam.example", "", False),
        ("spam.example", "bob@mx.spam.example", True),
    ],
)
async def test_one_sender_is_blocked_and_unblocked(storage, clock, text, path, is_blocked):
    known = Blocks(clock)
    await Control(storage, known)("block", BlockArguments(senders=[text]))
    assert known.has_sender(path) == is_blocked
    assert [
        line.count for line in await Control(storage, known)("unblock", UnblockArguments(senders=[text.upper()]))
    ] == [1]
    assert not known.has_sender(path)


async def test_the_log_contains_clients_and_senders_but_no_local_part_of_ours(storage, clock, caplog):
    with caplog.at_level("INFO", "tmpmaild"):
        await Control(storage, Blocks(clock))("block", BlockArguments(senders=["Bob@spam.example"], names=["shop"]))
        await Control(storage, Blocks(clock))(
            "block", BlockArguments(clients=[f"192.0.2.{last}" for last in range(12)])
        )
    assert "blocked by the operator: 2 (sender bob@spam.example)" in caplog.text
    assert "shop" not in caplog.text
    assert "client 192.0.2.9/32 and 2 more)" in caplog.text


async def test_commands_change_the_memory_and_the_storage(storage, clock):
    known = Blocks(clock)
    control = Control(storage, known)
    wanted = BlockArguments(
        clients=["192.0.2.0/24", "192.0.2.0/24"], names=["Shop"], senders=["Spam.example"], seconds=60
    )
    assert [line.count for line in await control("block", wanted)] == [3]
    assert known.has_client("192.0.2.9")
    (line,) = await control("blocks", None)
    assert [(block.kind, block.value) for block in line.blocks] == [
        ("client", "192.0.2.0/24"),
        ("name", "shop"),
        ("sender", "spam.example"),
    ]
    assert {block.expires_at_ms for block in line.blocks} == {clock() + 60_000}
    assert list(Blocks(clock, await storage.blocks())) == line.blocks
    assert [line.count for line in await control("unblock", UnblockArguments(names=["SHOP", "other"]))] == [1]
    assert [block.kind for block in await storage.blocks()] == ["client", "sender"]


@pytest.mark.parametrize("network", ["127.0.0.1", "0.0.0.0/0", "::/0", "::1", "10.1.0.0/16", "::ffff:127.0.0.1"])
async def test_blocking_the_operators_own_network_needs_force(storage, clock, network):
    known = Blocks(clock)
    control = Control(storage, known)
    with pytest.raises(CommandError, match="use --force to block it anyway"):
        await control("block", BlockArguments(clients=["192.0.2.1", network]))
    assert not list(known)
    assert not await storage.blocks()
    await control("block", BlockArguments(clients=[network], force=True))
    assert len(list(known)) == 1


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param({}, "expected a client network, a local part, or the domain or address of a sender", id="nothing"),
        pytest.param({"clients": ["192.0.2.1/24"]}, "without host bits, not '192.0.2.1/24'", id="host bits"),
        pytest.param({"clients": ["example.com"]}, "without host bits, not 'example.com'", id="no network"),
        pytest.param({"names": ["a@b"]}, "expected a local part, not 'a@b'", id="an address"),
        pytest.param({"names": [""]}, "expected a local part, not ''", id="an empty name"),
        pytest.param(
            {"senders": ["not a domain"]}, "expected a domain or an address, not 'not a domain'", id="no domain"
        ),
    ],
)
async def test_invalid_values_are_refused_with_the_expected_form(storage, clock, wanted, expected):
    control = Control(storage, Blocks(clock))
    for command, kind in (("block", BlockArguments), ("unblock", UnblockArguments)):
        with pytest.raises(CommandError) as refusal:
            await control(command, kind(**wanted))
        assert expected in str(refusal.value)


@pytest.mark.parametrize("seconds", [-5, 0, 10**17])
def test_a_block_lasts_a_second_to_a_year(seconds):
    with pytest.raises(msgspec.ValidationError, match="seconds"):
        msgspec.convert({"seconds": seconds}, BlockArguments)
