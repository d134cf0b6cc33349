"""The addresses that are given out pass the validators of the applications that they are typed into."""

import secrets
from pathlib import Path

import pytest
from email_validator import EmailSyntaxError, validate_email
from hypothesis import given, reject
from hypothesis import strategies as st

from tmpmaild.config.settings import Config
from tmpmaild.mail.addresses import LocalPartError, check_local_part, random_local_part

TESTING = (Path(__file__).parents[1] / "docs/testing.md").read_text()
DOMAIN = Config().domains[0]


def normalised(address):
    """Return what is left of an address by the call that pydantic's EmailStr makes; it asks no DNS."""
    return validate_email(address, check_deliverability=False).normalized


def test_a_random_address_at_the_default_domain_is_accepted():
    address = f"{random_local_part(secrets.choice)}@{DOMAIN}"
    assert normalised(address) == address


def test_the_default_domain_is_the_one_that_the_validators_of_node_are_tried_with():
    tests = Path(__file__).parents[1] / "clients/typescript/test/validators.test.mjs"
    assert f'const DOMAIN = "{DOMAIN}";' in tests.read_text()


@given(st.text("abz019._-", min_size=3, max_size=64))
def test_every_name_that_can_be_chosen_is_accepted(name):
    try:
        chosen = check_local_part(name)
    except LocalPartError:
        reject()
    assert normalised(f"{chosen}@{DOMAIN}") == f"{chosen}@{DOMAIN}"


def test_a_tag_is_accepted_and_kept():
    assert normalised(f"ada+shop@{DOMAIN}") == f"ada+shop@{DOMAIN}"


@pytest.mark.parametrize("domain", ["x.test", "x.local", "x.localhost", "x.invalid", "x.onion", "x.arpa", "mail"])
def test_other_reserved_domains_and_names_without_a_dot_are_refused(domain):
    """``docs/testing.md`` says so: a reader who sets one of them for tests must know."""
    with pytest.raises(EmailSyntaxError):
        normalised(f"ada@{domain}")
    name = "@localhost" if "." not in domain else domain.removeprefix("x")
    assert f"{name}`" in TESTING.partition("## When your application validates addresses")[2]
