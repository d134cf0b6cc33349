"""Our addresses pass the validators of the applications that users enter them in."""

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
    """Return an address as normalized by the call that pydantic's EmailStr makes; it does not query DNS."""
    return validate_email(address, check_deliverability=False).normalized


def test_a_random_address_at_the_default_domain_is_accepted():
    address = f"{random_local_part(secrets.choice)}@{DOMAIN}"
    assert normalised(address) == address


def test_the_node_validators_are_tested_with_the_default_domain():
    tests = Path(__file__).parents[1] / "clients/typescript/test/validators.test.mjs"
    assert f'const DOMAIN = "{DOMAIN}";' in tests.read_text()


@given(st.text("abz019._-", min_size=3, max_size=64))
def test_every_selectable_local_part_is_accepted(name):
    try:
        chosen = check_local_part(name)
    except LocalPartError:
        reject()
    assert normalised(f"{chosen}@{DOMAIN}") == f"{chosen}@{DOMAIN}"


def test_a_tag_is_accepted_and_kept():
    assert normalised(f"ada+shop@{DOMAIN}") == f"ada+shop@{DOMAIN}"


@pytest.mark.parametrize("domain", ["x.test", "x.local", "x.localhost", "x.invalid", "x.onion", "x.arpa", "mail"])
def test_other_reserved_domains_and_names_without_a_dot_are_refused(domain):
    """``docs/testing.md`` states this, because users who choose one of these domains for tests must know about it."""
    with pytest.raises(EmailSyntaxError):
        normalised(f"ada@{domain}")
    name = "@localhost" if "." not in domain else domain.removeprefix("x")
    assert f"{name}`" in TESTING.partition("## When your application validates addresses")[2]
