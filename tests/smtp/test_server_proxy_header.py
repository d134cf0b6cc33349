"""The header of the PROXY protocol, octet by octet."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables import table
from tmpmaild.smtp.server import BadProxyHeader, ProxyHeader, parse_proxy_header

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
TCP4 = socket.inet_aton("192.0.2.1") + socket.inet_aton("198.51.100.9") + b"\xdc\x04\x00\x19"
SOURCE6, DESTINATION6 = (socket.inet_pton(socket.AF_INET6, ip) for ip in ("2001:db8::1", "2001:db8::2"))
TCP6 = SOURCE6 + DESTINATION6 + b"\xdc\x04\x00\x19"
MAPPED6 = socket.inet_pton(socket.AF_INET6, "::ffff:192.0.2.1") + DESTINATION6 + b"\xdc\x04\x00\x19"
TLVS = b"\x02\x00\x05mx.de" + b"\x04\x00\x03\0\0\0"
LONGEST_V1 = b"PROXY UNKNOWN " + b"x" * 91 + b"\r\n"
FOUR, SIX = ("192.0.2.1", 56324), ("2001:db8::1", 56324)


def v2(command, family, rest):
    return SIGNATURE + bytes([command, family]) + len(rest).to_bytes(2) + rest


GOOD = {
    "v1 TCP4": (b"PROXY TCP4 192.0.2.1 198.51.100.9 56324 25\r\n", FOUR),
    "v1 TCP6": (b"PROXY TCP6 2001:db8::1 2001:db8::2 56324 25\r\n", SIX),
    "v1 TCP6 at its longest": (
        b"PROXY TCP6 2001:0db8:0000:0000:0000:0000:0000:0001 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 56324 65535\r\n",
        SIX,
    ),
    "v1 TCP6, in capitals": (b"PROXY TCP6 2001:DB8::1 2001:DB8::2 56324 25\r\n", SIX),
    "v1 TCP6 of an IPv4 client": (b"PROXY TCP6 ::ffff:192.0.2.1 ::1 56324 25\r\n", FOUR),
    "v1, port 0": (b"PROXY TCP4 192.0.2.1 198.51.100.9 0 0\r\n", ("192.0.2.1", 0)),
    "v1 UNKNOWN": (b"PROXY UNKNOWN\r\n", None),
    "v1 UNKNOWN with addresses": (b"PROXY UNKNOWN 192.0.2.1 198.51.100.9 56324 25\r\n", None),
    "v1 UNKNOWN at its longest": (LONGEST_V1, None),
    "v2 TCP4": (v2(0x21, 0x11, TCP4), FOUR),
    "v2 TCP6": (v2(0x21, 0x21, TCP6), SIX),
    "v2 TCP6 of an IPv4 client": (v2(0x21, 0x21, MAPPED6), FOUR),
    "v2 TCP4 with TLVs": (v2(0x21, 0x11, TCP4 + TLVS), FOUR),
    "v2 at its longest": (v2(0x21, 0x11, TCP4 + b"\0" * 4084), FOUR),
    "v2 TLVs that are none": (v2(0x21, 0x21, TCP6 + b"\xff\xff"), SIX),
    "v2 AF_UNIX": (v2(0x21, 0x31, b"/run/x".ljust(216, b"\0")), None),
    "v2 UNSPEC": (v2(0x21, 0x00, b""), None),
    "v2 UNSPEC with TLVs": (v2(0x21, 0x00, TLVS), None),
    "v2 UDP": (v2(0x21, 0x12, TCP4), None),
    "v2 LOCAL": (v2(0x20, 0x00, b""), None),
    "v2 LOCAL with addresses": (v2(0x20, 0x11, TCP4), None),
    "v2 LOCAL of an unknown family": (v2(0x20, 0xFF, b"anything"), None),
}
NEXT = {
    "nothing": b"",
    "commands": b"EHLO client.example\r\nMAIL FROM:<>\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01",
    "the header again": b"PROXY TCP4 203.0.113.9 198.51.100.9 1 25\r\n",
}


@table("name", GOOD)
def test_a_header_names_the_client_and_ends_before_what_follows(name):
    octets, client = GOOD[name]
    found = {behind: parse_proxy_header(octets + following) for behind, following in NEXT.items()}
    assert found == dict.fromkeys(NEXT, ProxyHeader(client, len(octets)))


@table("name", GOOD)
def test_a_header_may_come_octet_by_octet(name):
    octets, _ = GOOD[name]
    assert {parse_proxy_header(octets[:size]) for size in range(len(octets))} == {None}


BAD = {
    "an SMTP command": b"EHLO client.example\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01",
    "v1 in small letters": b"proxy TCP4 192.0.2.1 198.51.100.9 56324 25\r\n",
    "v1 of an unknown protocol": b"PROXY UDP4 192.0.2.1 198.51.100.9 56324 25\r\n",
    "v1 with a leading zero in an address": b"PROXY TCP4 192.0.2.01 198.51.100.9 56324 25\r\n",
    "v1 with a leading zero in a port": b"PROXY TCP4 192.0.2.1 198.51.100.9 056324 25\r\n",
    "v1 with a port that is none": b"PROXY TCP4 192.0.2.1 198.51.100.9 65536 25\r\n",
    "v1 with a port of ours that is none": b"PROXY TCP4 192.0.2.1 198.51.100.9 1 99999\r\n",
    "v1 with two spaces": b"PROXY TCP4  192.0.2.1 198.51.100.9 56324 25\r\n",
    "v1 with a space at its end": b"PROXY TCP4 192.0.2.1 198.51.100.9 56324 25 \r\n",
    "v1 with a port too few": b"PROXY TCP4 192.0.2.1 198.51.100.9 56324\r\n",
    "v1 TCP4 with IPv6": b"PROXY TCP4 2001:db8::1 2001:db8::2 56324 25\r\n",
    "v1 TCP6 with IPv4": b"PROXY TCP6 192.0.2.1 198.51.100.9 56324 25\r\n",
    "v1 of two families": b"PROXY TCP4 192.0.2.1 2001:db8::2 56324 25\r\n",
    "v1 with three numbers": b"PROXY TCP4 192.0.2 198.51.100.9 56324 25\r\n",
    "v1 with a number over 255": b"PROXY TCP4 192.0.2.256 198.51.100.9 56324 25\r\n",
    "v1 with a zone": b"PROXY TCP6 fe80::1%1 2001:db8::2 56324 25\r\n",
    "v1 with LF alone": b"PROXY TCP4 192.0.2.1 198.51.100.9 56324 25\n",
    "v1 with CR alone": b"PROXY TCP4 192.0.2.1 198.51.100.9 56324 25\rEHLO x\r\n",
    "v1 UNKNOWN with LF alone": b"PROXY UNKNOWN\n",
    "v1 UNKNOWN that goes on": b"PROXY UNKNOWNS\r\n",
    "v1 an octet too long": b"PROXY UNKNOWN " + b"x" * 92 + b"\r\n",
    "v1 without end": b"PROXY TCP4 " + b"1" * 96,
    "v2 of version 1": v2(0x11, 0x11, TCP4),
    "v2 of version 3": v2(0x31, 0x11, TCP4),
    "v2 of an unknown command": v2(0x22, 0x11, TCP4),
    "v2 of an unknown family": v2(0x21, 0x41, TCP4),
    "v2 of an unknown transport": v2(0x21, 0x13, TCP4),
    "v2 TCP4 shorter than its addresses": v2(0x21, 0x11, TCP4[:11]),
    "v2 TCP6 shorter than its addresses": v2(0x21, 0x21, TCP6[:35]),
    "v2 TCP4 without any": v2(0x21, 0x11, b""),
    "v2 an octet too long": v2(0x21, 0x11, TCP4 + b"\0" * 4085),
    "v2 of 64 KiB, of which nothing has come": SIGNATURE + b"\x21\x11\xff\xff",
    "v2 with another signature": b"\r\n\r\n\0\r\nQUIT\r",
}


@table("octets", BAD.values())
def test_what_is_no_header_is_refused(octets):
    with pytest.raises(BadProxyHeader):
        parse_proxy_header(octets)


@pytest.mark.parametrize("octets", [b"E", b"PROXI", b"\r\n\r\nQ", b"\x16"])
def test_what_cannot_become_a_header_is_refused_at_once(octets):
    with pytest.raises(BadProxyHeader, match="there is none"):
        parse_proxy_header(octets)


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
