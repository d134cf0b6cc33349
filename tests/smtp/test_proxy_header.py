"""The header of the PROXY protocol, octet by octet."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables import rows_of, table
from tmpmaild.smtp.proxy import BadProxyHeader, ProxyHeader, parse_proxy_header
from wire import octets

ROWS = rows_of(__file__)

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def headers():
    for block in Path(__file__).with_name("proxy-headers.txt").read_text().split("\n\n")[1:]:
        _, header, client = block.splitlines()
        ip, _, port = client.partition(" ")
        yield octets(header), (ip, int(port)) if port else {"none": None}.get(client, client)


GOOD = [(header, client) for header, client in headers() if client != "bad"]
BAD = [header for header, client in headers() if client == "bad"]
NEXT = dict(ROWS["NEXT"])


@table(("header", "client"), GOOD)
def test_a_header_names_the_client_and_ends_before_what_follows(header, client):
    found = {behind: parse_proxy_header(header + following) for behind, following in NEXT.items()}
    assert found == dict.fromkeys(NEXT, ProxyHeader(client, len(header)))


@table(("header", "client"), GOOD)
def test_a_header_may_come_octet_by_octet(header, client):
    assert {parse_proxy_header(header[:size]) for size in range(len(header))} == {None}


@pytest.mark.parametrize(
    ("header", "ip"),
    [
        (
            b"PROXY TCP6 2001:db8::7 192.0.2.1 51512 25\r\n",
            "2001:db8::7",
        ),  # nginx, for each IPv6 client of an IPv4 server
        (b"PROXY TCP6 2001:db8::7 ::ffff:192.0.2.1 51512 25\r\n", "2001:db8::7"),
        (b"PROXY TCP4 192.0.2.7 2001:db8::1 51512 25\r\n", "192.0.2.7"),
    ],
)
def test_the_destination_may_be_of_the_other_family(header, ip):
    assert parse_proxy_header(header) == ProxyHeader((ip, 51512), len(header))


@table("header", BAD)
def test_what_is_no_header_is_refused(header):
    with pytest.raises(BadProxyHeader):
        parse_proxy_header(header)


@given(
    start=st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 192.0.2.1 ", SIGNATURE, SIGNATURE + b"\x21\x11\0\x0c"]),
    rest=st.binary(max_size=120),
)
def test_whatever_comes_what_was_said_of_its_beginning_holds(start, rest):
    """Nothing else is raised, and neither a header nor a refusal is taken back when more comes."""
    said = None
    for size in range(len(start + rest) + 1):
        try:
            now = parse_proxy_header((start + rest)[:size])
        except BadProxyHeader as error:
            now = str(error)
        assert said in (None, now)
        said = now
