"""The identity of a client, to which limits apply, and the peers whose X-Forwarded-For is trusted."""

from ipaddress import ip_network

import pytest

from tmpmaild.clients import LOCAL, belongs, client_ip, client_name, parse_network

TRUSTED = [ip_network("10.0.0.0/8"), ip_network("2001:db8:ffff::/48")]


@pytest.mark.parametrize(
    ("ip", "name"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::ffff:c000:201", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("junk", "junk"),
        ("", ""),
        (LOCAL, LOCAL),
    ],
)
def test_a_client_is_an_ipv4_address_or_an_ipv6_64_network(ip, name):
    assert client_name(ip) == name


@pytest.mark.parametrize(
    ("ip", "inside"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("11.0.0.1", False),
        ("2001:db8:ffff::1", True),
        ("2001:db8:fffe::1", False),
        ("junk", False),
        (LOCAL, False),
    ],
)
def test_an_address_belongs_to_a_network_in_any_notation(ip, inside):
    assert belongs(ip, TRUSTED) is inside
    assert belongs(ip, []) is False


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "ip"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["198.51.100.1"], "192.0.2.1"),  # the peer is not trusted
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["1.1.1.1", "198.51.100.1"], "198.51.100.1"),  # entries forged by the client are on the left
        ("10.0.0.1", ["1.1.1.1", "198.51.100.1", "10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["10.0.0.3", "198.51.100.1", "10.0.0.2"], "198.51.100.1"),  # forged to look like our proxy
        ("10.0.0.1", ["10.0.0.3", "10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["198.51.100.1", "junk", "10.0.0.2"], "10.0.0.2"),  # an invalid entry ends the search
        ("10.0.0.1", ["198.51.100.1", ""], "10.0.0.1"),
        ("10.0.0.1", [" 198.51.100.1 "], "198.51.100.1"),
        ("::ffff:10.0.0.1", ["::ffff:198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["2001:db8::1", "2001:db8:ffff::1"], "2001:db8::1"),
        ("junk", ["198.51.100.1"], "junk"),
        ("10.0.0.1", [LOCAL], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1", LOCAL], "10.0.0.1"),
        (LOCAL, [], LOCAL),
        (LOCAL, ["198.51.100.1"], "198.51.100.1"),
        (LOCAL, ["1.1.1.1", "198.51.100.1"], "198.51.100.1"),
    ],
)
def test_the_client_is_the_right_most_hop_not_added_by_a_trusted_proxy(peer, forwarded_for, ip):
    assert client_ip(peer, forwarded_for, TRUSTED)[0] == ip


def test_without_trusted_proxies_the_peer_is_the_client():
    assert client_ip("10.0.0.1", ["198.51.100.1"], []) == ("10.0.0.1", False)


HOPS = {
    "203.0.113.5": "203.0.113.5",
    "203.0.113.5:51234": "203.0.113.5",
    "[2001:db8::7]": "2001:db8::7",
    "[2001:db8::7]:443": "2001:db8::7",
    "2001:db8::7": "2001:db8::7",
    "[::ffff:203.0.113.5]:1": "203.0.113.5",
    '"203.0.113.5"': "203.0.113.5",
    '"203.0.113.5:80"': "203.0.113.5",
    '"[2001:db8::7]:80"': "2001:db8::7",
    "\t203.0.113.5:80 ": "203.0.113.5",
}
NO_HOPS = [
    "",
    "unknown",
    "_hidden",
    "203.0.113.5:",
    "203.0.113.5:x",
    "203.0.113.5:123456",
    "[203.0.113.5",
    "[]",
    "[]:80",
]
NO_HOPS += ["unix:", "for=203.0.113.5", "203.0.113.5 203.0.113.6", "2001:db8::7:x", "[2001:db8::7]x", "1.2.3:80", '""']


@pytest.mark.parametrize(("hop", "ip"), HOPS.items())
def test_a_hop_is_parsed_in_the_notations_that_proxies_use(hop, ip):
    assert client_ip("10.0.0.1", [hop], TRUSTED) == (ip, False)
    assert client_ip("10.0.0.1", ["198.51.100.1", hop, "10.0.0.2:443"], TRUSTED) == (ip, False)


@pytest.mark.parametrize("hop", NO_HOPS)
def test_a_hop_that_is_not_an_address_is_reported_and_the_proxy_is_the_client(hop):
    assert client_ip("10.0.0.1", ["198.51.100.1", hop], TRUSTED) == ("10.0.0.1", True)
    assert client_ip("10.0.0.1", [hop, "198.51.100.1"], TRUSTED) == ("198.51.100.1", False)  # the client may forge this


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("::ffff:127.0.0.0/104", "127.0.0.0/8"),
        ("::ffff:10.1.2.3", "10.1.2.3/32"),
        ("::ffff:0:0/96", "0.0.0.0/0"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("2001:db8::/32", "2001:db8::/32"),
        ("::/0", "::/0"),
    ],
)
def test_an_ipv4_mapped_network_equals_the_ipv4_network(text, network):
    assert str(parse_network(text)) == network
    (host,) = [parse_network(text)[0]]
    assert belongs(str(host), [parse_network(text)])


@pytest.mark.parametrize("text", ["::ffff:127.0.0.1/104", "10.0.0.1/8", "x", "::ffff:10.0.0.0/129"])
def test_a_network_with_host_bits_or_other_text_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_network(text)
