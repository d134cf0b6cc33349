"""Plays the dialogues of ``tests/dialogs``, whose README describes their format."""

import re
import ssl
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from tmpmaild.smtp import replies
from tmpmaild.smtp.replies import DelayedReply, Reply
from wire import octets

from .test_conversation import World

DIALOGS = sorted((Path(__file__).parents[1] / "dialogs").glob("*.dialog"))
MAX_MESSAGE_BYTES = 2000


class Turn(NamedTuple):
    packet: bytes
    answers: list
    late: int
    handshake: bool


def read(path):
    options, turns, packet, answers, late = {}, [], b"", [], 0
    for line in path.read_text().split("\n"):
        kind, text = line[:2], line[3:]
        if answers and kind in ("C:", "T:"):
            turns.append(Turn(packet, answers, late, handshake=kind == "T:"))
            packet, answers, late = b"", [], 0
        if kind == "C:":
            packet += octets(text.removesuffix("\\c")) + (b"" if text.endswith("\\c") else b"\r\n")
        elif kind in ("S:", "L:"):
            answers.append(text)
            late += kind == "L:"
        elif kind == "O:":
            name, _, number = text.partition("=")
            options[name] = int(number) if number else True
        else:
            assert not line or kind == "T:" or line.startswith("#"), f"{path.name}: {line}"
    return options, [*turns, Turn(packet, answers, late, handshake=False)]


class Player(World):
    """A conversation whose handshakes come from the dialogue; it counts delayed replies."""

    def __init__(self, **options):
        super().__init__(max_message_bytes=MAX_MESSAGE_BYTES, **options)
        self.late = 0

    def start_tls(self):
        pass

    def answer(self, request):
        self.late += isinstance(request, DelayedReply)
        return super().answer(request)


def assert_answers(said, expected, packet):
    fits = len(said) == len(expected) and all(one.startswith(other) for one, other in zip(said, expected, strict=True))
    assert fits, f"after {packet[:200]!r}: expected {expected}, got {said}"


def play(path, chunk_bytes):
    options, turns = read(path)
    player = Player(**options)
    said = player.greeting
    for packet, answers, late, handshake in turns:
        said += b"".join(player.receive(packet[at : at + chunk_bytes]) for at in range(0, len(packet), chunk_bytes))
        *lines, rest = said.decode().split("\r\n")
        assert rest == ""
        assert_answers(lines + ["closed"] * player.conversation.closed, answers, packet)
        assert player.late == late
        said, player.late = b"", 0
        if handshake:
            player.conversation.tls_started()


@pytest.mark.parametrize("path", DIALOGS, ids=lambda path: path.stem)
def test_a_dialogue_matches_however_its_input_is_cut(path):
    for chunk_bytes in (1, 2, 7, 1 << 20):
        play(path, chunk_bytes)


def on_tcp(path):
    _, turns = read(path)
    return not any(turn.late or turn.handshake for turn in turns) and turns


@pytest.fixture
async def house(serve):
    async with serve(names=("abc", "def"), max_message_bytes=MAX_MESSAGE_BYTES) as house:
        yield house


ON_TCP = [path for path in DIALOGS if on_tcp(path)]
WITH_OPTIONS = [path for path in ON_TCP if read(path)[0]]


@pytest.mark.parametrize("path", WITH_OPTIONS, ids=lambda path: path.stem)
async def test_a_dialogue_with_its_own_server_matches_over_tcp(path, serve):
    options, turns = read(path)
    if options.pop("offers_tls", False):
        options["tls"] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if options.pop("offers_auth", False):
        options["auth"] = "any"
    async with serve(names=("abc", "def"), max_message_bytes=MAX_MESSAGE_BYTES, **options) as house:
        await play_over_tcp(house, turns)


def counted(house, name):
    (metric,) = (one for one in house.server.metrics() if one.name == name)
    return Counter({labels: int(value) for labels, value in metric.values().items()})


def codes_of(text):
    """Return the reply code and the enhanced status code (RFC 2034) of a reply."""
    return re.match(r"(\d{3})[ -](?:(\d\.\d\.\d) )?", text).groups(default="")


async def play_over_tcp(house, turns):
    """Play a dialogue; check that all refusals were counted, and those at the final dot also as refused messages."""
    refusals, mails = counted(house, "smtp_refusals_total"), counted(house, "smtp_mails_total")
    house.service.refusals.want(wanted=False)  # turning this off discards all refusals recorded so far
    house.service.refusals.want(wanted=True)
    negative = Counter()
    client = await house.connect()
    for packet, answers, _, _ in turns:
        client.write(packet)
        said = [await client.line() for answer in answers if answer != "closed"]
        if answers[-1] == "closed":
            assert await client.rest() == ""
            said.append("closed")
        assert_answers(said, answers, packet)
        negative.update(codes_of(line) for line in said if line[:1] in "45")
    if turns[-1].answers[-1] != "closed":
        # The reply to QUIT is the next reply, so no other reply is pending.
        assert await client.say("QUIT") == [str(replies.BYE)]
    assert counted(house, "smtp_refusals_total") - refusals == negative
    at_the_dot = [one.reason for one in house.service.refusals.newest() if one.command == replies.END_OF_MAIL]
    refused = counted(house, "smtp_mails_total") - mails
    assert {labels: count for labels, count in refused.items() if labels[0] == "refused"} == Counter(
        ("refused", codes_of(reason)[1]) for reason in at_the_dot
    )


@pytest.mark.parametrize("engine_kind", ["sqlite", "postgresql"])
async def test_a_dialogue_matches_over_tcp(house, subtests):
    for path in ON_TCP:
        if path not in WITH_OPTIONS:
            with subtests.test(path.stem):
                await play_over_tcp(house, read(path)[1])


REFUSALS = {name: reply for name, reply in vars(replies).items() if isinstance(reply, Reply) and not reply.is_positive}
# Replies that the conversation never sends on its own, with the test file that covers them.
GIVEN_ELSEWHERE = {
    "BLOCKED_CLIENT": "test_connections_limits.py",
    "BLOCKED_SENDER": "test_connections_limits.py",
    "IDLE": "test_connections_giving_way.py",
    "MAILBOX_FULL": "test_handler_transactions.py",
    "MEMORY_FULL": "test_connections_limits.py",
    "OUR_FAULT": "test_connections_limits.py",
    "STOPPING": "test_server.py",
    "SYSTEM_FULL": "test_conversation.py",
    "TIMEOUT": "test_session.py",
    "TOO_MANY_CONNECTIONS": "test_connections_giving_way.py",
    "UNKNOWN_TOO_OFTEN": "test_connections_limits.py",
}


def test_every_refusal_occurs_in_a_dialogue():
    given = set()
    for path in DIALOGS:
        options, turns = read(path)
        player = Player(**options)
        for packet, _, _, handshake in turns:
            player.receive(packet)
            if handshake:
                player.conversation.tls_started()
        given |= {reply for _, reply in player.conversation.refusals}
    assert {name for name, reply in REFUSALS.items() if reply not in given} == GIVEN_ELSEWHERE.keys()


@pytest.mark.parametrize("name", GIVEN_ELSEWHERE)
def test_a_refusal_without_a_dialogue_is_shown_by_the_named_test(name):
    source = Path(__file__).with_name(GIVEN_ELSEWHERE[name]).read_text()
    assert f"replies.{name}" in source or REFUSALS[name].status in source


def test_every_subject_of_the_conversation_has_a_dialogue():
    numbers = {path.name.partition("-")[0] for path in DIALOGS}
    assert numbers >= {f"{number:02}" for number in range(1, 36)}
