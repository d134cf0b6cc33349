"""The SMTP conversation without a socket: its rules hold for any input, and for any split into packets."""

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tmpmaild.mail import addresses
from tmpmaild.smtp import conversation, replies
from tmpmaild.smtp.conversation import Conversation
from tmpmaild.smtp.replies import Data, DelayedReply, EndOfMail, MailFrom, Recipient, StartTls

MAX_MESSAGE_BYTES = 3000
DOMAINS = ("ours.test", "second.test")
KNOWN = {"abc@ours.test", "def@ours.test"}
REPLIES = {reply.encoded for reply in vars(replies).values() if isinstance(reply, replies.Reply)}
LINE = re.compile(rb"(\d{3})[ -][ -~]*")


class World:
    """A conversation, with responses to its requests; the existing inboxes are abc and def at ours.test."""

    def __init__(self, **options):
        options = {"max_message_bytes": MAX_MESSAGE_BYTES} | options
        self.conversation = Conversation("mx.ours.test", **options)
        self.transactions = []
        self.mails = []
        self.greeting = self.said()

    def say(self, *lines):
        return self.receive(b"".join(line.encode() + b"\r\n" for line in lines))

    def receive(self, octets):
        self.conversation.input.append(octets)
        said = b""
        while (request := self.conversation.next_request()) is not None or self.conversation.output:
            if isinstance(request, StartTls):
                self.start_tls()
            elif request is not None:
                self.conversation.resolve(self.answer(request))
            said += self.said()
        return said

    def start_tls(self):
        self.conversation.tls_started()

    def answer(self, request):
        match request:
            case DelayedReply():
                return request.reply
            case MailFrom():
                self.transactions.append((request, []))
                return replies.SENDER_OK
            case Data():
                return replies.GO_AHEAD
            case EndOfMail():
                self.mails.append((request, *self.transactions[-1]))
                return replies.STORED
            case Recipient():
                return self.recipient(request)

    def recipient(self, request):
        if request.mailbox.domain not in (*DOMAINS, ""):
            return replies.NOT_OURS
        is_operator = addresses.is_operator(request.mailbox, DOMAINS)
        if not is_operator and addresses.inbox_address(request.mailbox) not in KNOWN:
            return replies.UNKNOWN_RECIPIENT
        self.transactions[-1][1].append(request.forward_path)
        return replies.RECIPIENT_OK

    def said(self):
        octets = bytes(self.conversation.output)
        self.conversation.output.clear()
        return octets

    def codes(self, *lines):
        return [int(line[:3]) for line in self.say(*lines).splitlines() if line[3:4] == b" "]


# Any input

COMMANDS = st.sampled_from(
    [
        b"EHLO c\r\n",
        b"HELO c\n",
        b"MAIL FROM:<a@b.example>\r\n",
        b"MAIL FROM:<> SIZE=10\r\n",
        b"RCPT TO:<abc@ours.test>\r\n",
        b"RCPT TO:<x@ours.test>\r\n",
        b"DATA\r\n",
        b"RSET\r\n",
        b"NOOP\r\n",
        b"hello\r\n",
        b"\r\n.\r\n",
        b".\r\n",
        b"\n.\n",
        b"..",
        b"VRFY x\r\n",
        b"STARTTLS\r\n",
        b"\x00",
        b"\xff\r\n",
        b"\r",
        b"\n",
        b"x" * 2100,
        b"MAIL FROM:<\xc3\xa4@b> SMTPUTF8\r\n",
        b"RCPT TO:<",
        b">\r\n",
        b"\x16\x03",
        b"GET / HTTP/1.1\r\n",
        b"QUIT\r\n",
        b"BDAT 1\r\n",
        b"AUTH x\r\n",
        b"y" * 1000,
        b"AUTH LOGIN\r\n",
        b"AUTH PLAIN YQ==\r\n",
        b"YQ==\r\n",
        b"*\r\n",
        b"BDAT",
        b"z" * 8000,
        b"AUTH PLAIN ",
    ]
)
STREAMS = st.lists(COMMANDS | st.binary(max_size=8), max_size=40).map(b"".join)


def cut(octets, places):
    places = sorted({place % (len(octets) + 1) for place in places})
    return [octets[i:j] for i, j in itertools.pairwise([0, *places, len(octets)])]


@given(octets=STREAMS, offers_tls=st.booleans(), offers_auth=st.booleans())
@example(octets=b"EHLO c\r\n" + b"RCPT TO:<" * 500, offers_tls=True, offers_auth=False)
def test_any_input_gets_well_formed_replies(octets, offers_tls, offers_auth):
    output = World(offers_tls=offers_tls, offers_auth=offers_auth).receive(octets)
    assert output == b"" or output.endswith(b"\r\n")
    assert all(LINE.fullmatch(line) for line in output.split(b"\r\n")[:-1])


@given(STREAMS, st.lists(st.integers(0, 1 << 16), max_size=20) | st.just(range(1 << 16)), st.booleans())
def test_replies_do_not_depend_on_how_the_stream_is_cut(octets, places, offers_auth):
    whole, pieces = World(offers_auth=offers_auth), World(offers_auth=offers_auth)
    expected = whole.receive(octets)
    assert b"".join(pieces.receive(piece) for piece in cut(octets, places)) == expected
    assert pieces.mails == whole.mails
    assert pieces.conversation.closed == whole.conversation.closed


@given(st.lists(st.text(alphabet='<>@:,"\\ abc.%!+[]\x00\t\xe4', max_size=30), max_size=8))
def test_no_path_is_echoed_in_a_reply(paths):
    world = World()
    world.say("EHLO c", "MAIL FROM:<a@b.example> SMTPUTF8")
    for path in paths:
        said = world.say(f"RCPT TO:<{path}>")
        assert said in REPLIES


@pytest.mark.parametrize("path", [b"root", b"o'brien", b'"a b"', "grüße@münchen.example".encode(), "grüße".encode()])
def test_a_lenient_server_accepts_names_without_a_domain_and_utf8_without_smtputf8(path):
    argument = b"<" + path + b">"
    assert conversation.parse_mail(b"FROM:" + argument, 2000, extended=True, lenient=True).reverse_path == path.decode()
    assert isinstance(conversation.parse_mail(b"FROM:" + argument, 2000, extended=True), replies.Reply)
    assert conversation.parse_rcpt(b"TO:" + argument, utf8=False, lenient=True).forward_path == path.decode()
    assert isinstance(conversation.parse_rcpt(b"TO:" + argument, utf8=False), replies.Reply)


@pytest.mark.parametrize("path", [b"root@", b"@shop.example", b"a b", b"a@b@c.example", b"a..b", b"a" * 65, b"\xff"])
def test_a_lenient_server_refuses_text_that_is_not_an_address(path):
    argument = b"<" + path + b">"
    assert conversation.parse_mail(b"FROM:" + argument, 2000, extended=True, lenient=True) is replies.BAD_SENDER
    assert conversation.parse_rcpt(b"TO:" + argument, utf8=False, lenient=True) is replies.BAD_RECIPIENT


# The fast path for common commands returns the same results as the grammar.

PLAIN_PATHS = st.from_regex(rb"<[a-zA-Z0-9]{1,66}@[a-z0-9.-]{1,30}>", fullmatch=True)
SIZES = st.sampled_from([b"", b"1", b"2000", b"2001", b"0", b"9" * 18]).map(b" SIZE=".__add__) | st.sampled_from(
    [b"", b" "]
)


@given(PLAIN_PATHS, SIZES, st.booleans())
def test_a_plain_sender_is_parsed_as_by_the_grammar(path, declared, extended):
    argument = b"FROM:" + path + declared
    by_grammar = conversation._parse_any_mail(argument, 2000, extended=extended, auth=False, lenient=False)
    assert conversation.parse_mail(argument, 2000, extended=extended) == by_grammar


@given(PLAIN_PATHS)
def test_a_plain_recipient_is_parsed_as_by_the_grammar(path):
    plain, by_grammar = (conversation.parse_rcpt(start + path, utf8=False) for start in (b"TO:", b"TO: "))
    assert plain == by_grammar


# Memory


@pytest.mark.parametrize(
    ("begin", "most_bytes"), [(b"", 2048), (b"HELO c\r\nAUTH LOGIN\r\n", 12_290)], ids=["command", "AUTH"]
)
def test_only_a_little_of_an_endless_line_is_kept(begin, most_bytes):
    world = World(offers_auth=True)
    world.receive(begin)
    said = b""
    while not world.conversation.closed:
        said += world.receive(b"x" * 1000)
        assert world.conversation.input.waiting_bytes <= most_bytes
    assert said == b"421 4.7.0 Unterminated line, closing\r\n"


def test_a_line_of_64_kibibytes_is_refused_and_a_longer_one_cut_off():
    for size, code in ((65_536, 500), (65_537, 421)):
        assert World().receive(b"x" * size + b"\n")[:3] == b"%d" % code


def test_no_reply_is_sent_during_an_open_request():
    conversation = World().conversation
    conversation.input.append(b"EHLO c\r\nMAIL FROM:<>\r\n" + b"NOOP\r\n" * 1000)
    assert isinstance(conversation.next_request(), MailFrom)
    conversation.output.clear()
    conversation.input.append(b"NOOP\r\n" * 1000)
    assert conversation.next_request() is None
    assert not conversation.output
    assert conversation.input.waiting_bytes == 6 * 2000


def test_a_dropped_message_is_refused_at_its_end_and_later_commands_are_read_at_once():
    world = World()
    start = ("MAIL FROM:<>", "RCPT TO:<abc@ours.test>", "DATA")
    world.say("EHLO c", *start, "hello")
    world.conversation.drop_mail(replies.SYSTEM_FULL)
    assert world.conversation.data.held_bytes < 10
    assert world.codes("more", ".") == [452]
    assert world.codes(*start, "hello", ".") == [250, 250, 354, 250]
    assert [mail.content for mail, _, _ in world.mails] == [b"hello\r\n"]
    world = World()
    world.say("EHLO c", "MAIL FROM:<>", "RCPT TO:<abc@ours.test>", "DATA")
    world.conversation.input.append(b"x" * (MAX_MESSAGE_BYTES + 1) + b"\r\n.\r\nNOOP\r\n")
    assert world.conversation.next_request() is None
    assert [line[:3] for line in world.said().splitlines()] == [b"552", b"250"]


# State


def test_a_disconnection_is_recorded_before_mail_and_after_rcpt():
    world, after = World(), []
    for line in ("EHLO c", "MAIL FROM:<>", "RCPT TO:<abc@ours.test>"):
        world.say(line)
        after.append(world.conversation.departure(encrypted=False))
    assert [missed and missed[0] for missed in after] == ["EHLO", None, "DATA"]


def test_a_session_without_a_limit_on_unknown_recipients_may_name_any_number():
    world = World(max_unknown_recipients=0)
    world.say("EHLO c", "MAIL FROM:<>")
    assert world.codes(*["RCPT TO:<x@ours.test>"] * 500) == [550] * 500


SENDER, RECIPIENT = "MAIL FROM:<>", "RCPT TO:<abc@ours.test>"


@pytest.mark.parametrize(
    ("before", "refused", "reply", "behind", "codes"),
    [
        ((), SENDER, replies.SYSTEM_FULL, [RECIPIENT], [452, 503]),  # the refused MAIL has not started a transaction
        ((SENDER, RECIPIENT), "DATA", replies.SYSTEM_FULL, ["NOOP", "DATA", "."], [452, 250, 354, 250]),
        ((), SENDER, replies.STOPPING, ["NOOP"], [421]),
    ],
)
def test_after_a_refused_command_the_conversation_continues_according_to_the_reply(
    before, refused, reply, behind, codes
):
    world = World()
    world.say("EHLO c", *before)
    world.conversation.input.append(f"{refused}\r\n".encode())
    world.conversation.next_request()
    world.conversation.resolve(reply)
    assert world.conversation.refusals == [(refused, reply)]
    assert world.codes(*behind) == codes
