"""The conversation without a socket: what holds whatever is sent, and what may not depend on how it is cut."""

import itertools
import re

from hypothesis import example, given
from hypothesis import strategies as st

from tmpmaild.mail import addresses
from tmpmaild.smtp import replies
from tmpmaild.smtp.conversation import Conversation
from tmpmaild.smtp.replies import Data, DelayedReply, EndOfMail, MailFrom, Recipient, StartTls

MAX_MESSAGE_BYTES = 3000
DOMAINS = ("ours.test", "second.test")
KNOWN = {"abc@ours.test", "def@ours.test"}
REPLIES = {reply.octets for reply in vars(replies).values() if isinstance(reply, replies.Reply)}
LINE = re.compile(rb"(\d{3})[ -][ -~]*")


class World:
    """A conversation and the answers to its requests; the inboxes are abc and def at ours.test."""

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
                self.conversation.answer(self.answer(request))
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


# Whatever comes

COMMANDS = st.sampled_from(
    [
        b"EHLO c\r\n", b"HELO c\n", b"MAIL FROM:<a@b.example>\r\n", b"MAIL FROM:<> SIZE=10\r\n", b"RCPT TO:<abc@ours.test>\r\n",
        b"RCPT TO:<x@ours.test>\r\n", b"DATA\r\n", b"RSET\r\n", b"NOOP\r\n", b"hello\r\n", b"\r\n.\r\n", b".\r\n", b"\n.\n", b"..",
        b"VRFY x\r\n", b"STARTTLS\r\n", b"\0", b"\xff\r\n", b"\r", b"\n", b"x" * 2100, b"MAIL FROM:<\xc3\xa4@b> SMTPUTF8\r\n",
        b"RCPT TO:<", b">\r\n", b"\x16\x03", b"GET / HTTP/1.1\r\n", b"QUIT\r\n", b"BDAT 1\r\n", b"AUTH x\r\n", b"y" * 1000,
        b"AUTH LOGIN\r\n", b"AUTH PLAIN YQ==\r\n", b"YQ==\r\n", b"*\r\n", b"BDAT", b"z" * 8000, b"AUTH PLAIN ",
    ]
)  # fmt: skip
STREAMS = st.lists(COMMANDS | st.binary(max_size=8), max_size=40).map(b"".join)


def cut(octets, places):
    places = sorted({place % (len(octets) + 1) for place in places})
    return [octets[i:j] for i, j in itertools.pairwise([0, *places, len(octets)])]


@given(octets=STREAMS, offers_tls=st.booleans(), offers_auth=st.booleans())
@example(octets=b"EHLO c\r\n" + b"RCPT TO:<" * 500, offers_tls=True, offers_auth=False)
def test_whatever_comes_is_answered_with_well_formed_lines(octets, offers_tls, offers_auth):
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
def test_no_path_makes_it_say_what_it_was_told(paths):
    world = World()
    world.say("EHLO c", "MAIL FROM:<a@b.example> SMTPUTF8")
    for path in paths:
        said = world.say(f"RCPT TO:<{path}>")
        assert said in REPLIES


# Memory


def test_a_line_that_is_too_long_is_refused_and_one_that_does_not_end_is_cut_off_and_little_of_it_held():
    world = World()
    said = b""
    while not world.conversation.closed:
        said += world.receive(b"x" * 1000)
        assert world.conversation.input.waiting_bytes <= 2048
    assert said == b"421 4.7.0 Line without end, closing\r\n"
    for size, code in ((65_536, 500), (65_537, 421)):
        assert World().receive(b"x" * size + b"\n")[:3] == b"%d" % code


def test_while_a_question_is_open_nothing_is_answered():
    conversation = World().conversation
    conversation.input.append(b"EHLO c\r\nMAIL FROM:<>\r\n" + b"NOOP\r\n" * 1000)
    assert isinstance(conversation.next_request(), MailFrom)
    conversation.output.clear()
    conversation.input.append(b"NOOP\r\n" * 1000)
    assert conversation.next_request() is None
    assert not conversation.output
    assert conversation.input.waiting_bytes == 6 * 2000


def test_a_mail_that_is_dropped_is_refused_at_its_end_and_what_stands_behind_is_read_at_once():
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


def test_a_client_that_leaves_has_missed_something_before_its_sender_and_after_its_recipient():
    world, after = World(), []
    for line in ("EHLO c", "MAIL FROM:<>", "RCPT TO:<abc@ours.test>"):
        world.say(line)
        after.append(world.conversation.departure(encrypted=False))
    assert [missed and missed[0] for missed in after] == ["EHLO", None, "DATA"]


def test_a_sender_who_is_refused_begins_nothing_and_no_limit_on_unknown_recipients_is_none():
    world = World()
    world.say("EHLO c")
    world.conversation.input.append(b"MAIL FROM:<>\r\n")
    world.conversation.next_request()
    world.conversation.answer(replies.SYSTEM_FULL)
    assert world.conversation.refusals == [("MAIL FROM:<>", replies.SYSTEM_FULL)]
    assert world.codes("RCPT TO:<abc@ours.test>") == [452, 503]
    world = World(max_unknown_recipients=0)
    world.say("EHLO c", "MAIL FROM:<>")
    assert world.codes(*["RCPT TO:<x@ours.test>"] * 500) == [550] * 500


def test_data_that_is_refused_lets_the_transaction_go_on():
    world = World()
    world.say("EHLO c", "MAIL FROM:<>", "RCPT TO:<abc@ours.test>")
    world.conversation.input.append(b"DATA\r\n")
    world.conversation.next_request()
    world.conversation.answer(replies.SYSTEM_FULL)
    assert world.codes("NOOP", "DATA", ".") == [452, 250, 354, 250]


def test_an_answer_of_421_ends_the_conversation():
    world = World()
    world.say("EHLO c")
    world.conversation.input.append(b"MAIL FROM:<>\r\nNOOP\r\n")
    world.conversation.next_request()
    world.conversation.answer(replies.STOPPING)
    assert world.conversation.closed
    assert world.codes("NOOP") == [421]
