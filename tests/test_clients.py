"""Who a client is: what is limited as one, and whom X-Forwarded-For is believed about."""

from ipaddress import ip_network

import pytest

from tables import table
from tmpmaild.clients import LOCAL, belongs, client_ip, client_name

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
        (LOCAL, LOCAL),
        ("junk", "junk"),
        ("", ""),
    ],
)
def test_a_client_is_an_ipv4_address_or_a_64(ip, name):
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
def test_an_address_belongs_to_a_network_however_it_is_written(ip, inside):
    assert belongs(ip, TRUSTED) is inside
    assert belongs(ip, []) is False


@table(
    ("peer", "forwarded_for", "ip"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("192.0.2.1", ["198.51.100.1"], "192.0.2.1"),  # the peer is nobody to believe
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["1.1.1.1", "198.51.100.1"], "198.51.100.1"),  # what the client made up stands on the left
        ("10.0.0.1", ["1.1.1.1", "198.51.100.1", "10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["10.0.0.3", "198.51.100.1", "10.0.0.2"], "198.51.100.1"),  # made up as a proxy of ours
        ("10.0.0.1", ["10.0.0.3", "10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["198.51.100.1", "junk", "10.0.0.2"], "10.0.0.2"),  # nothing past junk is believed
        ("10.0.0.1", ["198.51.100.1", ""], "10.0.0.1"),
        ("10.0.0.1", [" 198.51.100.1 "], "198.51.100.1"),
        ("::ffff:10.0.0.1", ["::ffff:198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["2001:db8::1", "2001:db8:ffff::1"], "2001:db8::1"),
        ("10.0.0.1", [LOCAL], "10.0.0.1"),  # nobody claims the Unix socket from afar
        ("10.0.0.1", ["198.51.100.1", LOCAL], "10.0.0.1"),
        (LOCAL, [], LOCAL),
        (LOCAL, ["198.51.100.1"], "198.51.100.1"),
        (LOCAL, ["1.1.1.1", "198.51.100.1"], "198.51.100.1"),
        ("junk", ["198.51.100.1"], "junk"),
    ],
)
def test_the_client_is_the_right_most_hop_that_no_trusted_proxy_vouches_past(peer, forwarded_for, ip):
    assert client_ip(peer, forwarded_for, TRUSTED) == ip


def test_without_trusted_proxies_the_peer_is_the_client():
    assert client_ip("10.0.0.1", ["198.51.100.1"], []) == "10.0.0.1"
