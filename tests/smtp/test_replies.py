"""Every reply has its codes, and every error of a request has a reply."""

import re
from pathlib import Path

from tables import table
from tmpmaild import errors
from tmpmaild.smtp import replies

REPLIES = {name: value for name, value in vars(replies).items() if name.isupper() and isinstance(value, replies.Reply)}
PERMANENT = {errors.AddressNotFound, errors.AddressExpired}


def tree(kind):
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


@table("kind", list(tree(errors.RequestError)))
def test_every_error_and_each_special_case_of_it_has_an_answer_that_is_for_good_where_the_sender_is_wrong(kind):
    assert kind in replies._ANSWERS, f"{kind.__name__} has no line in smtp/replies.py"
    assert str(replies._ANSWERS[kind])[0] == ("5" if kind in PERMANENT else "4")
    special = type(f"Special{kind.__name__}", (kind,), {"__module__": __name__})
    arguments = (0,) if issubclass(kind, errors.AddressExpired) else ()
    assert replies.answer_to(special(*arguments)) == replies._ANSWERS[kind]


def test_an_error_of_tomorrow_is_our_fault():
    unheard = type("Unheard", (errors.RequestError,), {"__module__": __name__})
    assert replies.answer_to(unheard("secret")) == replies.OUR_FAULT


def test_a_reply_has_a_code_and_an_enhanced_code_of_the_same_class_but_not_to_helo_and_ehlo():
    for name, reply in REPLIES.items():
        if name in {"GO_AHEAD", "NO_CHALLENGE", "USER_NAME", "PASSWORD"}:  # RFC 2034 §4: 3xx carries none
            assert re.fullmatch(r"3[35]4 [ -~]*", str(reply)), name
        else:
            match = re.fullmatch(r"([245])[0-5]\d ([245])\.\d{1,3}\.\d{1,3} [ -~]+", str(reply))
            assert match, f"{name} is {reply!r}"
            assert match[1] == match[2], name
    assert replies.helo("mx.ours.test").octets == b"250 mx.ours.test\r\n"
    lines = ["mx.ours.test", "PIPELINING", "SIZE 1000", "8BITMIME", "SMTPUTF8", "STARTTLS"]
    expected = "".join(f"250-{line}\r\n" for line in lines) + "250 ENHANCEDSTATUSCODES\r\n"
    assert replies.ehlo("mx.ours.test", 1000, tls=True, auth=False).octets == expected.encode()


ROWS = [line.split() for line in Path(__file__).with_name("replies.txt").read_text().splitlines()]
CODES = {name: " ".join(one for one in rest if one != "mistake") for name, *rest in ROWS}
MISTAKES = {name for name, *rest in ROWS if "mistake" in rest}


def test_a_reply_has_the_codes_that_senders_know_it_by_and_one_to_a_mistake_is_for_good():
    assert REPLIES.keys() == CODES.keys()
    assert [name for name, codes in CODES.items() if not str(REPLIES[name]).startswith(f"{codes} ")] == []
    assert {name for name, reply in REPLIES.items() if reply.is_mistake} == MISTAKES
    assert all(REPLIES[name].code // 100 == 5 for name in MISTAKES)
    assert not MISTAKES & {"UNKNOWN_RECIPIENT", "NOT_OURS", "MAILBOX_FULL"}


@table("reply", REPLIES.values())
def test_a_reply_of_2xx_or_3xx_is_positive(reply):
    assert reply.is_positive == (str(reply)[0] in "23")
    assert reply.octets == f"{reply}\r\n".encode()
