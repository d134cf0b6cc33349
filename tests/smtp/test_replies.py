"""Every reply has its codes, and every error of a request has a reply."""

import re

import pytest

from tmpmaild import errors
from tmpmaild.smtp import replies

REPLIES = {name: value for name, value in vars(replies).items() if name.isupper() and isinstance(value, str)}
PERMANENT = {errors.AddressNotFound, errors.AddressExpired}


def tree(kind):
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


@pytest.mark.parametrize("kind", list(tree(errors.RequestError)))
def test_every_error_of_a_request_has_an_answer(kind):
    assert kind in replies._ANSWERS, f"{kind.__name__} has no line in smtp/replies.py"


@pytest.mark.parametrize("kind", list(tree(errors.RequestError)))
def test_only_what_the_sender_got_wrong_is_refused_for_good(kind):
    answer = replies._ANSWERS[kind]
    assert answer[0] == ("5" if kind in PERMANENT else "4")


def test_an_error_of_tomorrow_is_our_fault():
    class Unheard(errors.RequestError):
        pass

    assert replies.answer_to(Unheard("secret")) == replies.OUR_FAULT


@pytest.mark.parametrize(("name", "reply"), list(REPLIES.items()))
def test_a_reply_has_a_code_and_an_enhanced_code_of_the_same_class(name, reply):
    if name == "GO_AHEAD":  # RFC 2034 §4: 3xx carries none
        assert re.fullmatch(r"354 [ -~]+", reply)
        return
    match = re.fullmatch(r"([245])[0-5]\d ([245])\.\d{1,3}\.\d{1,3} [ -~]+", reply)
    assert match, f"{name} is {reply!r}"
    assert match[1] == match[2]


def test_mistakes_are_permanent_and_no_recipient_that_was_refused_is_one():
    assert all(mistake[0] == "5" for mistake in replies.MISTAKES)
    assert not replies.MISTAKES & {replies.UNKNOWN_RECIPIENT, replies.NOT_OURS, replies.MAILBOX_FULL}


def test_the_promise_names_the_message():
    assert replies.stored("msg_1") == "250 2.0.0 Ok: stored as msg_1"
