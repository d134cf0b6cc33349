"""Every reply has its codes, and every error of a request has a reply."""

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


ROWS = [line.split() for line in Path(__file__).with_name("replies.txt").read_text().splitlines()]
CODES = {name: " ".join(one for one in rest if one != "mistake") for name, *rest in ROWS}
MISTAKES = {name for name, *rest in ROWS if "mistake" in rest}


def test_a_reply_has_the_codes_that_senders_know_it_by():
    assert REPLIES.keys() == CODES.keys()
    assert [name for name, codes in CODES.items() if not str(REPLIES[name]).startswith(f"{codes} ")] == []
    assert {name for name, reply in REPLIES.items() if reply.is_mistake} == MISTAKES


@table("name", CODES)
def test_the_codes_of_a_reply_are_of_one_class(name):
    code, *enhanced = CODES[name].split()
    assert code[0] == "3" or [one.partition(".")[0] for one in enhanced] == [code[0]]  # RFC 2034 §4: 3xx carries none
    assert code[0] == "5" or name not in MISTAKES
    assert REPLIES[name].is_positive == (code[0] in "23")
    assert REPLIES[name].octets == f"{REPLIES[name]}\r\n".encode()
