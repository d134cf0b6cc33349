"""Decoding base64, quoted-printable and uuencode, including malformed input."""

import binascii

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from tmpmaild.mail import extracts, mime, transferencoding

MIXED = b"Content-Type: multipart/mixed; boundary=x\r\n\r\n"


QUOTED_PRINTABLE = b"Content-Transfer-Encoding: quoted-printable\r\n\r\n"


@pytest.mark.parametrize("encoding", ["uuencode", "x-uuencode", "x-uue", "UUE"])
@pytest.mark.parametrize("end", ["`\r\nend", " \r\nend \r\n\r\nbye", ""])
def test_uuencode_is_decoded_where_it_is_the_transfer_encoding(encoding, end):
    octets = bytes(range(256))
    lines = b"".join(binascii.b2a_uu(octets[at : at + 45]) for at in range(0, 256, 45)).decode()
    stated = f"--x\r\nContent-Type: a/b\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n"
    raw = MIXED + f"{stated}Here it is:\r\nbegin 644 a b.bin\r\n{lines}{end}\r\n--x--\r\n".encode()
    mail = mime.parse(raw)
    assert extracts.attachment(raw, mail.attachments[0]) == octets
    assert mail.warnings == ()


def test_uuencode_that_version_1_0_listed_without_decoding_it_is_still_found():
    raw = b"Content-Type: a/b\r\nContent-Transfer-Encoding: uuencode\r\n\r\nbegin 644 a\r\n#0V%T\r\nend\r\n"
    content = raw[raw.index(b"begin") :]
    (listed,) = mime.parse(raw.replace(b"uuencode", b"8bit")).attachments
    assert extracts.attachment(raw, msgspec.structs.replace(listed, part=-1)) == content


@pytest.mark.parametrize("lines", ["begin 644 a\n", "#0V%T\n", "begin the day\n#0V%T\n", "begin 644 a\nend\n#0V%T\n"])
def test_text_that_is_not_uuencode_stays_unchanged(lines):
    mail = mime.parse(b"Content-Transfer-Encoding: uuencode\r\n\r\n" + lines.encode())
    assert (mail.body, mail.warnings) == (lines, (transferencoding.UNKNOWN_ENCODING,))


@pytest.mark.parametrize("piece", [b"begin 644 a\n", b"#0V%T\n", b"\n", b"M\n", b"\xff" * 60 + b"\n", b"M"])
def test_uuencode_is_decoded_in_linear_time(piece):
    head = b"Content-Transfer-Encoding: uuencode\r\n\r\nbegin 644 a\n"
    assert_linear(lambda lines: mime.parse(head + lines), piece * (200_000 // len(piece)))


@pytest.mark.parametrize(
    "body",
    [
        *[
            b"soft =\r\nbreak, =C3=BC=\r\n, spaces \t \r\nbehind =  \r\n=\r\n\r\n=\n\nend=",
            b"broken =4\r\n=XY =",
            b"\n\n\r\n=0D=0A\r",
        ],
        b"without a line end =3D " * 20,
    ],
)
@pytest.mark.parametrize("step_bytes", [1, 7, 40])
def test_quoted_printable_reads_the_same_in_steps(monkeypatch, body, step_bytes):
    whole = mime.parse(QUOTED_PRINTABLE + body)
    monkeypatch.setattr(transferencoding, "_STEP_BYTES", step_bytes)
    assert mime.parse(QUOTED_PRINTABLE + body) == whole


@pytest.mark.parametrize(
    ("data", "octets", "sound"),
    [
        (b"", b"", True),
        (b"YWJj\r\nZGVm\r\n", b"abcdef", True),
        (b"YWJjZA==", b"abcd", True),
        (b"YWJjZA", b"abcd", False),
        (b"YW!Jj*ZA==", b"abcd", False),
        (b"YQ==YmM=", b"abc", False),
        (b"YWJjZ", b"abc", False),
        (b"=====", b"", False),
    ],
)
def test_base64_is_decoded_with_other_characters_in_between(data, octets, sound):
    assert transferencoding.decode_base64(data) == (octets, sound)


@given(
    st.lists(st.sampled_from([b"AAAA", b"Zm9v", b"Zg==", b"=", b"\r\n", b" ", b"A", b"-"]), max_size=30),
    st.integers(1, 9),
)
def test_base64_does_not_depend_on_the_steps_it_is_decoded_in(pieces, step_bytes):
    data = b"".join(pieces)
    whole = transferencoding.decode_base64(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transferencoding, "_BASE64_STEP_BYTES", step_bytes)
        assert transferencoding.decode_base64(memoryview(data)) == whole
