"""What follows MAIL and RCPT: the short way that most commands take says the same as the grammar."""

from hypothesis import given
from hypothesis import strategies as st

from tables import table
from tmpmaild.mail.addresses import Mailbox
from tmpmaild.smtp import conversation, replies
from tmpmaild.smtp.conversation import parse_mail, parse_rcpt
from tmpmaild.smtp.replies import MailFrom, Recipient

MAX_MESSAGE_BYTES = 2000
PATHS = st.from_regex(rb"<[a-zA-Z0-9]{1,66}@[a-z0-9.-]{1,30}>", fullmatch=True)
DECLARED = st.sampled_from(
    [b"", b" ", b" SIZE=1", b" size=2000", b" SIZE=2001", b" SIZE=0", b" SIZE=" + b"9" * 18, b" SIZE="]
)


@given(PATHS, DECLARED, st.booleans())
def test_a_plain_sender_is_read_as_by_the_grammar(path, declared, extended):
    argument = b"FROM:" + path + declared
    by_grammar = conversation._parse_any_mail(argument, MAX_MESSAGE_BYTES, extended=extended, auth=False)
    assert parse_mail(argument, MAX_MESSAGE_BYTES, extended=extended) == by_grammar


@given(PATHS)
def test_a_plain_recipient_is_read_as_by_the_grammar(path):
    plain, by_grammar = (parse_rcpt(start + path, utf8=False) for start in (b"TO:", b"TO: "))
    assert plain == by_grammar


@table(
    ("argument", "parsed"),
    [
        (b"FROM:<>", MailFrom("")),
        (b"from:<A@b.example>", MailFrom("A@b.example")),
        (b"FROM: <a@b.example> size=7", MailFrom("a@b.example", 7, "size=7")),
        (b"FROM:<a@b.example> BODY=8BITMIME SIZE=007", MailFrom("a@b.example", 7, "BODY=8BITMIME SIZE=007")),
        ("FROM:<ä@b.example> SMTPUTF8".encode(), MailFrom("ä@b.example", 0, "SMTPUTF8", utf8=True)),
        ("FROM:<ä@b.example>".encode(), replies.UTF8_NOT_ASKED_FOR),
        (b"FROM:<a@b.example> SIZE=1 SIZE=1", replies.BAD_ARGUMENT),
        (b"FROM:<a@b.example> SIZE=" + b"9" * 5000, replies.MESSAGE_TOO_BIG),
        (b"FROM:<a@b.example> AUTH=<>", replies.BAD_PARAMETER),
        (b"TO:<a@b.example>", replies.BAD_ARGUMENT),
        (b"FROM:a@b.example", replies.BAD_SENDER),
    ],
)
def test_what_follows_mail(argument, parsed):
    assert parse_mail(argument, MAX_MESSAGE_BYTES, extended=True) == parsed


def test_parameters_need_ehlo_and_those_of_auth_its_offer():
    assert parse_mail(b"FROM:<> BODY=7BIT", MAX_MESSAGE_BYTES, extended=False) == replies.BAD_PARAMETER
    assert parse_mail(b"FROM:<> AUTH=<>", MAX_MESSAGE_BYTES, extended=True, auth=True) == MailFrom("", 0, "AUTH=<>")


@table(
    ("argument", "parsed"),
    [
        (b"TO:<abc+Tag@Ours.Test>", Recipient(Mailbox("abc+Tag", "ours.test"), "abc+Tag@Ours.Test")),
        (b"to:<@relay.example:abc@ours.test>", Recipient(Mailbox("abc", "ours.test"), "@relay.example:abc@ours.test")),
        (b"TO:<Postmaster>", Recipient(Mailbox("Postmaster", ""), "Postmaster")),
        (b"TO:<abc@ours.test> NOTIFY=NEVER", replies.BAD_PARAMETER),
        (b"TO:<abc@ours.test> =", replies.BAD_RECIPIENT),
        (b"TO:<>", replies.BAD_RECIPIENT),
        (b"FROM:<abc@ours.test>", replies.BAD_ARGUMENT),
    ],
)
def test_what_follows_rcpt(argument, parsed):
    assert parse_rcpt(argument, utf8=False) == parsed
