"""Which messages a search finds: all words in any order, whatever their accents, in one field, or by what a message has."""

import pytest

from modules import in_node

pytestmark = pytest.mark.needs("node")
FIND = """({ termsOf, matches }, query, messages) =>
  messages.filter((one) => termsOf(query).every((term) => matches(one, term))).map(({ subject }) => subject)"""


def message(subject, **more):
    empty = {"from": "a@shop.example", "from_name": "", "body": "", "codes": [], "links": [], "attachments": []}
    return {**empty, "subject": subject, **more}


MESSAGES = [
    message("Rechnung", from_name="Müller & Söhne", body="Ihre Rechnung vom 3. März. Straße 5."),
    message("Sign in", **{"from": "no-reply@bank.example"}, codes=[{"value": "482913"}], body="from: nobody"),
    message("Confirm", links=[{"href": "https://shop.example/c"}], body="sign up at shop"),
    message("Photos", attachments=[{"inline": False}], from_name="Łukasz"),
    message("Newsletter", attachments=[{"inline": True}], body="hindi: कि"),
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
def test_a_search_finds_what_matches_all_of_its_terms(query, found):
    assert in_node("terms.js", FIND, query, MESSAGES) == found
