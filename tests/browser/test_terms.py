"""Searches for messages: words in any order, without regard to accents, within one field, or by type of content."""

import pytest

from modules import in_node

pytestmark = pytest.mark.needs("node")
FIND = """({ termsOf, matches }, query, messages) =>
  messages.filter((one) => termsOf(query).every((term) => matches(one, term))).map(({ subject }) => subject)"""


def message(subject, **more):
    empty = {
        "from": "a@shop.example",
        "from_name": "",
        "to": "anna@tmp.example",
        "body": "",
        "codes": [],
        "links": [],
        "attachments": [],
    }
    return {**empty, "subject": subject, **more}


MESSAGES = [
    message("Rechnung", from_name="Müller & Söhne", body="Ihre Rechnung vom 3. März. Straße 5."),
    message("Sign in", **{"from": "no-reply@bank.example"}, codes=[{"value": "482913"}], body="from: nobody"),
    message("Confirm", links=[{"href": "https://shop.example/c"}], body="sign up at shop"),
    message("Photos", attachments=[{"inline": False}], from_name="Łukasz"),
    message("Newsletter", attachments=[{"inline": True}], body="hindi: कि"),
    message("Caught", to="bob+tag@x.example", recipients=["bob+tag@x.example", "Archive@company.example"]),
]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("muller", ["Rechnung"]),
        ("MÜLLER", ["Rechnung"]),
        ("märz rechnung", ["Rechnung"]),
        ('"rechnung märz"', []),
        ('"vom 3."', ["Rechnung"]),
        ("strasse", ["Rechnung"]),
        ("lukasz", ["Photos"]),
        ("482913", ["Sign in"]),
        ("from:bank", ["Sign in"]),
        ("from:shop sign", ["Confirm"]),
        ("to:bob+tag", ["Caught"]),
        ("to:archive@company", ["Caught"]),
        ("archive company", ["Caught"]),
        ("to:anna sign", ["Sign in", "Confirm"]),
        ("sign to:", ["Sign in", "Confirm"]),
        ("subject:sign", ["Sign in"]),
        ("sign", ["Sign in", "Confirm"]),
        ('subject:"sign in"', ["Sign in"]),
        ("has:code", ["Sign in"]),
        ("has:link", ["Confirm"]),
        ("HAS:Attachment", ["Photos"]),
        ("has:nothing", []),
        ("sign from:", ["Sign in", "Confirm"]),
        ("का", []),
        ("", [one["subject"] for one in MESSAGES]),
    ],
)
def test_a_search_finds_messages_that_match_all_terms(query, found):
    assert in_node("terms.js", FIND, query, MESSAGES) == found
