"""The URLs and addresses that webhooks may call: rules, disguised URLs, and addresses outside the public internet."""

import pytest

from tmpmaild.webhooktargets import is_public, parse_rule, parse_url, permits_address, refusal

RULES = tuple(map(parse_rule, ["hooks.example.org", "*.corp.example", "bücher.example:8443", "10.0.0.0/8"]))


@pytest.mark.parametrize(
    ("text", "name", "network", "port"),
    [
        ("hooks.example.org", "hooks.example.org", None, 0),
        ("Hooks.Example.ORG:8443", "hooks.example.org", None, 8443),
        ("*.bücher.example", "*.xn--bcher-kva.example", None, 0),
        ("10.0.0.0/8", "", "10.0.0.0/8", 0),
        ("10.0.0.7:8080", "", "10.0.0.7/32", 8080),
        ("fd00::/8", "", "fd00::/8", 0),
        ("[fd00::/8]:8080", "", "fd00::/8", 8080),
        ("::1", "", "::1/128", 0),
        ("localhost", "localhost", None, 0),
    ],
)
def test_a_rule_is_a_name_or_a_network_optionally_with_a_port(text, name, network, port):
    rule = parse_rule(text)
    assert (rule.name, rule.network and str(rule.network), rule.port) == (name, network, port)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        "*",
        "*.",
        "a.*.example",
        "https://hooks.example.org",
        "hooks.example.org/path",
        "hooks.example.org:",
        "hooks.example.org:0",
        "hooks.example.org:65536",
        "user@hooks.example.org",
        pytest.param("10.0.0.1/8", id="host bits are set"),
        "127.1",
        "2130706433",
        "0x7f000001",
        "[fd00::/8",
        "fd00::/8:8080",
        "[hooks.example.org]",
    ],
)
def test_other_text_is_not_a_rule(text):
    with pytest.raises(ValueError, match=r"."):
        parse_rule(text)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("https://hooks.example.org", "https://hooks.example.org/"),
        ("HTTPS://Hooks.Example.ORG:443/In?a=b&c=%20", "https://hooks.example.org/In?a=b&c=%20"),
        ("http://hooks.example.org:80?x", "http://hooks.example.org/?x"),
        ("http://hooks.example.org:443/", "http://hooks.example.org:443/"),
        ("https://bücher.example:8443/", "https://xn--bcher-kva.example:8443/"),
        ("http://10.0.0.7/", "http://10.0.0.7/"),
        ("http://[FD00:0::1]:80/", "http://[fd00::1]/"),
        ("https://hooks.example.org/@me:x", "https://hooks.example.org/@me:x"),
    ],
)
def test_a_url_is_parsed_into_its_normal_form(text, normal):
    assert parse_url(text).url == normal
    assert parse_url(normal) == parse_url(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "start", id="empty"),
        ("hooks.example.org/in", "start"),
        ("ftp://hooks.example.org/", "start"),
        ("file:///etc/passwd", "start"),
        ("gopher://127.0.0.1:6379/_FLUSHALL", "start"),
        ("https:///in", "start"),
        ("https://me:secret@hooks.example.org/", "user information"),
        ("https://hooks.example.org@127.0.0.1/", "user information"),
        ("https://hooks.example.org/#top", "fragment"),
        ("https://hooks.example.org/a b", "RFC 3986"),
        ("https://hooks.example.org/\r\nX-Evil: 1", "RFC 3986"),
        ("https://hooks.example.org\\@127.0.0.1/", "RFC 3986"),
        ("https://hooks.example.org/ü", "RFC 3986"),
        ("https://hooks.example.org:/", "RFC 3986"),
        ("https://hooks.example.org:0/", "port"),
        ("https://hooks.example.org:65536/", "port"),
        ("https://hooks..example.org/", "host name"),
        ("https://hooks_1.example.org/", "host name"),
        ("https://hooks%2eexample.org/", "host name"),
        pytest.param("http://\uff11\uff12\uff17.0.0.1/", "usual notation", id="full-width digits"),
        pytest.param("http://127\u30020\u30020\u30021/", "host name", id="ideographic full stops"),
        ("http://127.1/", "usual notation"),
        ("http://2130706433/", "usual notation"),
        ("http://017700000001/", "usual notation"),
        ("http://0177.0.0.1/", "usual notation"),
        ("http://0x7f.0.0.1/", "usual notation"),
        ("http://0x7f000001/", "usual notation"),
        ("http://127.0.0.0x1/", "usual notation"),
        ("http://[::1%25eth0]/", "RFC 3986"),
        ("http://[1.2.3.4]/", "usual notation"),
        ("http://[::ffff:127.1]/", "usual notation"),
        pytest.param("https://" + "a." * 1100 + "example/", "characters", id="too long"),
        pytest.param("https://hooks.example.org?" + "a" * 2022, "normal form", id="the slash makes it too long"),
        pytest.param("https://bücher.example/" + "a" * 2025, "normal form", id="the A-label makes it too long"),
    ],
)
def test_disguised_urls_are_refused_with_the_reason(text, reason):
    with pytest.raises(ValueError, match=reason):
        parse_url(text)


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.org/",
        "http://a.b.corp.example/",
        "https://bücher.example:8443/",
        "http://10.1.2.3/",
        "http://[::ffff:10.1.2.3]/",
    ],
)
def test_a_url_is_allowed_by_a_rule(url):
    assert refusal(RULES, parse_url(url)) == ""


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://hooks.example.org:8443/", "port"),
        ("https://bücher.example/", "port"),
        ("http://10.1.2.3:6379/", "port"),
        ("https://corp.example/", "host"),
        ("https://evilcorp.example/", "host"),
        ("https://example.org/", "host"),
        ("https://hooks.example.org.evil.example/", "host"),
        ("http://127.0.0.1/", "host"),
        ("http://8.8.8.8/", "host"),
        ("http://[::ffff:127.0.0.1]/", "host"),
        ("http://[::1]/", "host"),
    ],
)
def test_a_url_that_no_rule_allows_is_refused(url, reason):
    assert reason in refusal(RULES, parse_url(url))


@pytest.mark.parametrize(
    ("address", "permitted"),
    [
        ("93.184.215.14", True),
        ("2606:2800:21f:cb07::1", True),
        pytest.param("10.1.2.3", True, id="in a network of the rules"),
        ("::ffff:10.1.2.3", True),
        ("127.0.0.1", False),
        ("192.168.1.1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.215.14", False),
    ],
)
def test_a_name_may_resolve_only_to_public_addresses_and_allowed_networks(address, permitted):
    assert permits_address(RULES, parse_url("https://hooks.example.org/"), address) is permitted


def test_a_network_is_allowed_only_for_its_ports():
    """Otherwise, the owner of a name under ``*.corp.example:9200`` could access that port on every private machine."""
    rules = tuple(map(parse_rule, ["*.corp.example:9200", "10.0.0.0/8", "10.9.0.0/16:9200"]))
    target = parse_url("http://search.corp.example:9200/")
    assert [permits_address(rules, target, address) for address in ("10.1.2.3", "10.9.2.3")] == [False, True]
    assert permits_address(RULES, parse_url("http://10.1.2.3/"), "10.1.2.3")
    assert not permits_address(RULES, parse_url("http://8.8.8.8/"), "8.8.8.8")


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.0.0.1",
        "100.100.100.200",  # metadata service of Alibaba Cloud
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",  # metadata service of Azure
        "169.254.169.254",  # metadata service of most clouds
        "172.31.255.255",
        "192.0.0.192",  # metadata service of Oracle Cloud
        "192.88.99.1",
        "192.168.0.1",
        "198.19.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",  # IPv4-compatible
        "::ffff:8.8.8.8",
        "64:ff9b::7f00:1",  # NAT64
        "64:ff9b:1::a00:1",
        "100::1",
        "2001::1",  # Teredo
        "2001:db8::1",
        "2002:7f00:1::1",  # 6to4
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",  # Amazon's instance metadata service
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
    ],
)
def test_a_special_address_is_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "172.32.0.1", "223.255.255.254", "2606:4700::1111", "2a00:1450::1"])
def test_other_addresses_are_public(address):
    assert is_public(address)
