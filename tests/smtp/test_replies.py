"""Every reply has the right codes, and every request error has a reply."""

import pytest

from tmpmaild import errors
from tmpmaild.smtp import replies

REPLIES = {name: value for name, value in vars(replies).items() if name.isupper() and isinstance(value, replies.Reply)}
PERMANENT = {errors.AddressNotFound, errors.AddressExpired}


def tree(kind):
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


@pytest.mark.parametrize("kind", list(tree(errors.RequestError)))
def test_every_error_and_special_case_has_a_reply_which_is_permanent_if_the_sender_made_the_mistake(kind):
    assert kind in replies._REPLIES, f"{kind.__name__} has no reply in smtp/replies.py"
    assert str(replies._REPLIES[kind])[0] == ("5" if kind in PERMANENT else "4")
    special = type(f"Special{kind.__name__}", (kind,), {"__module__": __name__})
    arguments = (0,) if issubclass(kind, errors.AddressExpired) else ()
    assert replies.reply_to(special(*arguments)) == replies._REPLIES[kind]


def test_an_unknown_error_is_reported_as_an_internal_error():
    unheard = type("Unheard", (errors.RequestError,), {"__module__": __name__})
    assert replies.reply_to(unheard("secret")) == replies.OUR_FAULT


CODES = {
    "READY_FOR_TLS": "220 2.0.0",
    "BYE": "221 2.0.0",
    "HELP": "214 2.0.0",
    "OK": "250 2.0.0",
    "SENDER_OK": "250 2.1.0",
    "STORED": "250 2.0.0",
    "RECIPIENT_OK": "250 2.1.5",
    "CANNOT_VERIFY": "252 2.0.0",
    "AUTHENTICATED": "235 2.7.0",
    "NO_CHALLENGE": "334",
    "USER_NAME": "334",
    "PASSWORD": "334",
    "GO_AHEAD": "354 End",
    "STOPPING": "421 4.3.2",
    "TIMEOUT": "421 4.4.2",
    "IDLE": "421 4.4.2",
    "TOO_MANY_ERRORS": "421 4.7.0",
    "TOO_MANY_UNKNOWN": "421 4.7.0",
    "UNKNOWN_TOO_OFTEN": "450 4.7.1",
    "TOO_MANY_CONNECTIONS": "421 4.7.0",
    "LINE_WITHOUT_END": "421 4.7.0",
    "MESSAGE_WITHOUT_END": "421 4.7.0",
    "OUR_FAULT": "451 4.3.0",
    "MAILBOX_FULL": "452 4.2.2",
    "SYSTEM_FULL": "452 4.3.1",
    "MEMORY_FULL": "452 4.3.2",
    "TOO_MANY_RECIPIENTS": "452 4.5.3",
    "LINE_TOO_LONG": "500 5.5.2",
    "RESPONSE_TOO_LONG": "500 5.5.6",
    "UNKNOWN_COMMAND": "500 5.5.2",
    "HTTP_RECEIVED": "500 5.5.2",
    "TLS_RECEIVED": "500 5.5.2",
    "NOT_UTF8": "500 5.5.2",
    "NOT_PRINTABLE": "501 5.5.2",
    "NOT_BASE64": "501 5.5.2",
    "AUTH_CANCELLED": "501 5.7.0",
    "BAD_RECIPIENT": "501 5.1.3",
    "BAD_SENDER": "501 5.1.7",
    "BAD_ARGUMENT": "501 5.5.4",
    "NOT_IMPLEMENTED": "502 5.5.1",
    "BAD_SEQUENCE": "503 5.5.1",
    "UNKNOWN_MECHANISM": "504 5.5.4",
    "UNKNOWN_RECIPIENT": "550 5.1.1",
    "SMUGGLING": "550 5.5.2",
    "NOT_OURS": "550 5.7.1",
    "BLOCKED_SENDER": "550 5.7.1",
    "MESSAGE_TOO_BIG": "552 5.3.4",
    "SMTPUTF8_REQUIRED": "553 5.6.7",
    "BLOCKED_CLIENT": "554 5.7.1",
    "NO_RECIPIENTS": "554 5.5.1",
    "BAD_PARAMETER": "555 5.5.4",
}
"""The codes by which senders recognise a reply; they are part of the contract."""

MISTAKES = {
    "LINE_TOO_LONG",
    "RESPONSE_TOO_LONG",
    "UNKNOWN_COMMAND",
    "HTTP_RECEIVED",
    "TLS_RECEIVED",
    "NOT_UTF8",
    "NOT_PRINTABLE",
    "NOT_BASE64",
    "BAD_RECIPIENT",
    "BAD_SENDER",
    "BAD_ARGUMENT",
    "NOT_IMPLEMENTED",
    "BAD_SEQUENCE",
    "UNKNOWN_MECHANISM",
    "NO_RECIPIENTS",
    "BAD_PARAMETER",
}
"""Replies that a correct SMTP client never gets."""


def test_a_reply_has_the_codes_that_senders_expect():
    assert REPLIES.keys() == CODES.keys()
    assert [name for name, codes in CODES.items() if not str(REPLIES[name]).startswith(f"{codes} ")] == []
    assert {name for name, reply in REPLIES.items() if reply.is_mistake} == MISTAKES


@pytest.mark.parametrize("name", CODES)
def test_the_codes_of_a_reply_are_of_one_class(name):
    code, *enhanced = CODES[name].split()
    # RFC 2034 §4: 3xx replies have no enhanced code
    assert code[0] == "3" or [one.partition(".")[0] for one in enhanced] == [code[0]]
    assert code[0] == "5" or name not in MISTAKES
    assert REPLIES[name].is_positive == (code[0] in "23")
    assert REPLIES[name].encoded == f"{REPLIES[name]}\r\n".encode()
