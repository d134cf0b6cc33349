"""Where webhooks may lead: rules, URLs in disguise, and addresses that are not those of the public internet."""

import pytest

from tables import rows_of, table
from tmpmaild.webhooks.targets import is_public, parse_rule, parse_url, permits_address, refusal

ROWS = rows_of(__file__)

RULES = tuple(map(parse_rule, ["hooks.example.org", "*.corp.example", "bücher.example:8443", "10.0.0.0/8"]))


@pytest.mark.parametrize(("text", "wanted"), ROWS["a rule is a name or a network perhaps with a port"])
def test_a_rule_is_a_name_or_a_network_perhaps_with_a_port(text, wanted):
    rule = parse_rule(text)
    assert (rule.name, rule.network and str(rule.network), rule.port) == wanted


@table("text", ROWS["what is no rule is refused"])
def test_what_is_no_rule_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_rule(text)


@pytest.mark.parametrize(("text", "wanted"), ROWS["a url is taken apart into its normal form"])
def test_a_url_is_taken_apart_into_its_normal_form(text, wanted):
    assert parse_url(text).url == wanted
    assert parse_url(wanted) == parse_url(text)


@table(
    ("text", "reason"),
    [
        *ROWS["urls in disguise are refused with the reason"],
        ("https://" + "a." * 1100 + "example/", "characters"),
        ("https://hooks.example.org?" + "a" * 2022, "normal form"),
        ("https://bücher.example/" + "a" * 2025, "normal form"),
    ],
)
def test_urls_in_disguise_are_refused_with_the_reason(text, reason):
    with pytest.raises(ValueError, match=reason):
        parse_url(text)


@table(("url", "reason"), ROWS["a url must lead to what a rule has"])
def test_a_url_must_lead_to_what_a_rule_has(url, reason):
    said = refusal(RULES, parse_url(url))
    assert reason in said
    assert bool(said) is bool(reason)


@pytest.mark.parametrize(
    ("address", "permitted"), ROWS["a name leads to public addresses and networks of the rules only"]
)
def test_a_name_leads_to_public_addresses_and_networks_of_the_rules_only(address, permitted):
    assert permits_address(RULES, parse_url("https://hooks.example.org/"), address) is permitted


def test_a_network_is_allowed_for_its_ports_only():
    """Otherwise somebody with a name below ``*.corp.example:9200`` reaches that port on every private machine."""
    rules = tuple(map(parse_rule, ["*.corp.example:9200", "10.0.0.0/8", "10.9.0.0/16:9200"]))
    target = parse_url("http://search.corp.example:9200/")
    assert [permits_address(rules, target, address) for address in ("10.1.2.3", "10.9.2.3")] == [False, True]
    assert permits_address(RULES, parse_url("http://10.1.2.3/"), "10.1.2.3")
    assert not permits_address(RULES, parse_url("http://8.8.8.8/"), "8.8.8.8")


@table(("public", "addresses"), [(public, ROWS[f"public: {public}"]) for public in (False, True)])
def test_special_addresses_are_not_public_and_others_are(public, addresses):
    assert [address for address in addresses if is_public(address) is not public] == []
