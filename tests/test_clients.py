"""Who a client is: what is limited as one, and whom X-Forwarded-For is believed about."""

from ipaddress import ip_network

import pytest

from tables import rows_of, table
from tmpmaild.clients import LOCAL, belongs, client_ip, client_name

ROWS = rows_of(__file__)

TRUSTED = [ip_network("10.0.0.0/8"), ip_network("2001:db8:ffff::/48")]


@pytest.mark.parametrize(("ip", "name"), [*ROWS["a client is an ipv4 address or a 64"], (LOCAL, LOCAL)])
def test_a_client_is_an_ipv4_address_or_a_64(ip, name):
    assert client_name(ip) == name


@pytest.mark.parametrize(
    ("ip", "inside"), [*ROWS["an address belongs to a network however it is written"], (LOCAL, False)]
)
def test_an_address_belongs_to_a_network_however_it_is_written(ip, inside):
    assert belongs(ip, TRUSTED) is inside
    assert belongs(ip, []) is False


@table(
    ("peer", "forwarded_for", "ip"),
    [
        *ROWS["the client is the right most hop that no trusted proxy vouches past"],
        ("10.0.0.1", [LOCAL], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1", LOCAL], "10.0.0.1"),
        (LOCAL, [], LOCAL),
        (LOCAL, ["198.51.100.1"], "198.51.100.1"),
        (LOCAL, ["1.1.1.1", "198.51.100.1"], "198.51.100.1"),
    ],
)
def test_the_client_is_the_right_most_hop_that_no_trusted_proxy_vouches_past(peer, forwarded_for, ip):
    assert client_ip(peer, forwarded_for, TRUSTED) == ip


def test_without_trusted_proxies_the_peer_is_the_client():
    assert client_ip("10.0.0.1", ["198.51.100.1"], []) == "10.0.0.1"
