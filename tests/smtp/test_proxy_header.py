"""The header of the PROXY protocol, byte by byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmpmaild.smtp.proxy import BadProxyHeader, ProxyHeader, parse_proxy_header

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


GOOD = [
    pytest.param(b"PROXY TCP4 192.0.2.1 198.51.100.9 56324 25\r\n", ("192.0.2.1", 56324), id="v1 TCP4"),
    pytest.param(b"PROXY TCP6 2001:db8::1 2001:db8::2 56324 25\r\n", ("2001:db8::1", 56324), id="v1 TCP6"),
    pytest.param(
        b"PROXY TCP6 2001:0db8:0000:0000:0000:0000:0000:0001 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 56324 65535\r\n",
        ("2001:db8::1", 56324),
        id="v1 TCP6 at its longest",
    ),
    pytest.param(b"PROXY TCP6 2001:DB8::1 2001:DB8::2 56324 25\r\n", ("2001:db8::1", 56324), id="v1 TCP6, in capitals"),
    pytest.param(b"PROXY TCP6 ::ffff:192.0.2.1 ::1 56324 25\r\n", ("192.0.2.1", 56324), id="v1 TCP6 of an IPv4 client"),
    pytest.param(b"PROXY TCP4 192.0.2.1 198.51.100.9 0 0\r\n", ("192.0.2.1", 0), id="v1, port 0"),
    pytest.param(b"PROXY UNKNOWN\r\n", None, id="v1 UNKNOWN"),
    pytest.param(b"PROXY UNKNOWN 192.0.2.1 198.51.100.9 56324 25\r\n", None, id="v1 UNKNOWN with addresses"),
    pytest.param(b"PROXY UNKNOWN " + b"x" * 91 + b"\r\n", None, id="v1 UNKNOWN at its longest"),
    pytest.param(
        SIGNATURE + b"!\x11\x00\x0c\xc0\x00\x02\x01\xc63d\t\xdc\x04\x00\x19", ("192.0.2.1", 56324), id="v2 TCP4"
    ),
    pytest.param(
        SIGNATURE
        + b"!!\x00$ \x01\r\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01 \x01\r\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\xdc\x04\x00\x19",
        ("2001:db8::1", 56324),
        id="v2 TCP6",
    ),
    pytest.param(
        SIGNATURE
        + b"!!\x00$\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc0\x00\x02\x01 \x01\r\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\xdc\x04\x00\x19",
        ("192.0.2.1", 56324),
        id="v2 TCP6 of an IPv4 client",
    ),
    pytest.param(
        SIGNATURE + b"!\x11\x00\x1a\xc0\x00\x02\x01\xc63d\t\xdc\x04\x00\x19\x02\x00\x05mx.de\x04\x00\x03\x00\x00\x00",
        ("192.0.2.1", 56324),
        id="v2 TCP4 with TLVs",
    ),
    pytest.param(
        SIGNATURE + b"!\x11\x10\x00\xc0\x00\x02\x01\xc63d\t\xdc\x04\x00\x19" + b"\x00" * 4084,
        ("192.0.2.1", 56324),
        id="v2 at its longest",
    ),
    pytest.param(
        SIGNATURE
        + b"!!\x00& \x01\r\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01 \x01\r\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\xdc\x04\x00\x19\xff\xff",
        ("2001:db8::1", 56324),
        id="v2 TLVs that are none",
    ),
    pytest.param(SIGNATURE + b"!1\x00\xd8/run/x" + b"\x00" * 210, None, id="v2 AF_UNIX"),
    pytest.param(SIGNATURE + b"!\x00\x00\x00", None, id="v2 UNSPEC"),
    pytest.param(SIGNATURE + b"!\x00\x00\x0e\x02\x00\x05mx.de\x04\x00\x03\x00\x00\x00", None, id="v2 UNSPEC with TLVs"),
    pytest.param(SIGNATURE + b"!\x12\x00\x0c\xc0\x00\x02\x01\xc63d\t\xdc\x04\x00\x19", None, id="v2 UDP"),
    pytest.param(SIGNATURE + b" \x00\x00\x00", None, id="v2 LOCAL"),
    pytest.param(
        SIGNATURE + b" \x11\x00\x0c\xc0\x00\x02\x01\xc63d\t\xdc\x04\x00\x19", None, id="v2 LOCAL with addresses"
    ),
    pytest.param(SIGNATURE + b" \xff\x00\x08anything", None, id="v2 LOCAL of an unknown family"),
]
"""Headers, and the client that each header names."""

NEXT = {
    "nothing": b"",
    "commands": b"EHLO client.example\r\nMAIL FROM:<>\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01",
    "the header again": b"PROXY TCP4 203.0.113.9 198.51.100.9 1 25\r\n",
}
"""Data that may follow a header."""


@pytest.mark.parametrize(("header", "client"), GOOD)
def test_a_header_names_the_client_and_does_not_include_the_data_after_it(header, client):
    found = {behind: parse_proxy_header(header + following) for behind, following in NEXT.items()}
    assert found == dict.fromkeys(NEXT, ProxyHeader(client, len(header)))


@pytest.mark.parametrize(("header", "client"), GOOD)
def test_a_header_may_arrive_byte_by_byte(header, client):
    assert {parse_proxy_header(header[:size]) for size in range(len(header))} == {None}


@pytest.mark.parametrize(
    ("header", "ip"),
    [
        (
            b"PROXY TCP6 2001:db8::7 192.0.2.1 51512 25\r\n",
            "2001:db8::7",
        ),  # sent by nginx for every IPv6 client of an IPv4 server
        (b"PROXY TCP6 2001:db8::7 ::ffff:192.0.2.1 51512 25\r\n", "2001:db8::7"),
        (b"PROXY TCP4 192.0.2.7 2001:db8::1 51512 25\r\n", "192.0.2.7"),
    ],
)
def test_the_destination_may_be_of_the_other_family(header, ip):
    assert parse_proxy_header(header) == ProxyHeader((ip, 51512), len(header))


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"EHLO client.example\r\n", id="an SMTP command"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01", id="a TLS hello"),
        pytest.param(b"proxy TCP4 192.0.2.1 198.51.100.9 56324 25\r\n", id="v1 in small letters"),
        pytest.param(b"PROXY UDP4 192.0.2.1 198.51.100.9 56324 25\r\n", id="v1 of an unknown protocol"),
        pytest.param(b"PROXY TCP4 192.0.2.01 198.51.100.9 56324 25\r\n", id="v1 with a leading zero in an address"),
        pytest.param(b"PROXY TCP4 192.0.2.1 198.51.100.9 056324 25\r\n", id="v1 with a leading zero in a port"),
        pytest.param(b"PROXY TCP4 192.0.2.1 198.51.100.9 65536 25\r\n", id="v1 with a port that is none"),
        pytest.param(b"PROXY TCP4 192.0.2.1 198.51.100.9 1 99999\r\n", id="v1 with a port of ours that is none"),
        pytest.param(b"PROXY TCP4  192.0.2.1 198.51.100.9 56324 25\r\n", id="v1 with two spaces"),
        pytest.param(b"PROXY TCP4 192.0.2.1 198.51.100.9 56324 25 \r\n", id="v1 with a space at its end"),
        pytest.param(b"PROXY TCP4 192.0.2.1 198.51.100.9 56324\r\n", id="v1 with a port too few"),
        pytest.param(b"PROXY TCP4 2001:db8::1 2001:db8::2 56324 25\r\n", id="v1 TCP4 with IPv6"),
        pytest.param(b"PROXY TCP6 192.0.2.1 198.51.100.9 56324 25\r\n", id="v1 TCP6 with IPv4"),
        pytest.param(b"PROXY TCP4 192.0.2 198.51.100.9 56324 25\r\n", id="v1 with three numbers"),
        pytest.param(b"PROXY TCP4 192.0.2.256 198.51.100.9 56324 25\r\n", id="v1 with a number over 255"),
        pytest.param(b"PROXY TCP6 fe80::1%1 2001:db8::2 56324 25\r\n", id="v1 with a zone"),
        pytest.param(b"PROXY TCP4 192.0.2.1 198.51.100.9 56324 25\n", id="v1 with LF alone"),
        pytest.param(b"PROXY TCP4 192.0.2.1 198.51.100.9 56324 25\rEHLO x\r\n", id="v1 with CR alone"),
        pytest.param(b"PROXY UNKNOWN\n", id="v1 UNKNOWN with LF alone"),
        pytest.param(b"PROXY UNKNOWNS\r\n", id="v1 UNKNOWN that goes on"),
        pytest.param(b"PROXY UNKNOWN " + b"x" * 92 + b"\r\n", id="v1 an octet too long"),
        pytest.param(b"PROXY TCP4 " + b"1" * 96, id="v1 without end"),
        pytest.param(SIGNATURE + b"\x11\x11\x00\x0c\xc0\x00\x02\x01\xc63d\t\xdc\x04\x00\x19", id="v2 of version 1"),
        pytest.param(SIGNATURE + b"1\x11\x00\x0c\xc0\x00\x02\x01\xc63d\t\xdc\x04\x00\x19", id="v2 of version 3"),
        pytest.param(
            SIGNATURE + b'"\x11\x00\x0c\xc0\x00\x02\x01\xc63d\t\xdc\x04\x00\x19', id="v2 of an unknown command"
        ),
        pytest.param(SIGNATURE + b"!A\x00\x0c\xc0\x00\x02\x01\xc63d\t\xdc\x04\x00\x19", id="v2 of an unknown family"),
        pytest.param(
            SIGNATURE + b"!\x13\x00\x0c\xc0\x00\x02\x01\xc63d\t\xdc\x04\x00\x19", id="v2 of an unknown transport"
        ),
        pytest.param(
            SIGNATURE + b"!\x11\x00\x0b\xc0\x00\x02\x01\xc63d\t\xdc\x04\x00", id="v2 TCP4 shorter than its addresses"
        ),
        pytest.param(
            SIGNATURE
            + b"!!\x00# \x01\r\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01 \x01\r\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\xdc\x04\x00",
            id="v2 TCP6 shorter than its addresses",
        ),
        pytest.param(SIGNATURE + b"!\x11\x00\x00", id="v2 TCP4 without any"),
        pytest.param(
            SIGNATURE + b"!\x11\x10\x01\xc0\x00\x02\x01\xc63d\t\xdc\x04\x00\x19" + b"\x00" * 4085,
            id="v2 an octet too long",
        ),
        pytest.param(SIGNATURE + b"!\x11\xff\xff", id="v2 of 64 KiB, of which nothing has come"),
        pytest.param(b"\r\n\r\n\x00\r\nQUIT\r", id="v2 with another signature"),
        pytest.param(b"E", id="the beginning of a command"),
        pytest.param(b"PROXI", id="v1 with another word"),
        pytest.param(b"\r\n\r\nQ", id="v2 with another signature, of which the beginning has come"),
        pytest.param(b"\x16", id="a TLS hello"),
    ],
)
def test_text_that_is_not_a_header_is_refused(header):
    with pytest.raises(BadProxyHeader):
        parse_proxy_header(header)


@given(
    start=st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 192.0.2.1 ", SIGNATURE, SIGNATURE + b"\x21\x11\0\x0c"]),
    rest=st.binary(max_size=120),
)
def test_a_verdict_on_the_start_of_a_header_never_changes(start, rest):
    """Only the expected exceptions are raised, and a header or refusal does not change when more data arrives."""
    said = None
    for size in range(len(start + rest) + 1):
        try:
            now = parse_proxy_header((start + rest)[:size])
        except BadProxyHeader as error:
            now = str(error)
        assert said in (None, now)
        said = now
