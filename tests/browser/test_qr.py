"""The web inbox's QR codes, painted from their paths: an independent reader decodes them without error correction."""

import hashlib
import random
import re

import pytest
import zxingcpp

from modules import in_node

pytestmark = pytest.mark.needs("node")
LARGEST_BYTES = [14, 26, 42, 62, 84, 106, 122, 152, 180, 213, 251, 287, 331, 362, 412]  # ISO/IEC 18004, table 7
SMALLEST_BYTES = [1, *(length + 1 for length in LARGEST_BYTES[:-1])]
EVERY_SIZE = [("the web inbox " * 30)[:length] for length in SMALLEST_BYTES + LARGEST_BYTES]
PATHS = "({ qrPath }, ...texts) => texts.map(qrPath)"
BAR = re.compile(r"M(\d+) (\d+)h(\d+)v1h-(\d+)z")


def painted(*texts):
    """Return the rows of each code, one character per module, with the quiet zone."""
    return [paint(**path) for path in in_node("qr.js", PATHS, *texts)]


def paint(d, size):
    """Paint the bars of a path; the path may contain nothing else."""
    rows = [["0"] * size for _ in range(size)]
    assert BAR.sub("", d) == ""
    for x, y, right, left in (map(int, bar) for bar in BAR.findall(d)):
        assert right == left
        rows[y][x : x + right] = "1" * right
    return ["".join(row) for row in rows]


def read(rows, **options):
    assert set("".join(rows)) == {"0", "1"}
    image = memoryview(bytes(0 if module == "1" else 255 for row in rows for module in row))
    shaped = image.cast("B", (len(rows), len(rows)))
    [barcode] = zxingcpp.read_barcodes(shaped, text_mode=zxingcpp.TextMode.Plain, **options)
    return barcode


def read_all(*texts):
    """Decode the QR codes of texts; the bytes must be correct, and no codeword may need correction."""
    barcodes = [read(rows) for rows in painted(*texts)]
    assert [barcode.bytes for barcode in barcodes] == [text.encode() for text in texts]
    assert {(barcode.extra["ECLevel"], barcode.extra["UEC"]) for barcode in barcodes} == {("M", 1.0)}
    return barcodes


def test_every_version_is_read_at_its_smallest_and_largest_length():
    barcodes = read_all(*EVERY_SIZE)
    assert [int(barcode.extra["Version"]) for barcode in barcodes] == [*range(1, 16)] * 2
    assert {barcode.extra["DataMask"] for barcode in barcodes} == {0}


def test_every_module_matches_another_encoder():
    """Compare all modules, because a reader would correct wrong modules.

    The hash was computed from segno 1.6.6's matrices for mask 0, with its padding fixed: segno adds a zero byte after a
    complete byte.
    """
    codes = painted(*EVERY_SIZE)
    found = hashlib.sha256("".join("\n".join(rows) for rows in codes).encode()).hexdigest()
    assert found == "fc863a137db0738264ee303f9b5003a6b2573e7fa39e42fef4c009d2087e4b64"


def test_an_empty_text_has_a_code_without_content():
    [rows] = painted("")
    barcode = read(rows, is_pure=True, return_errors=True)  # zxing counts an empty code as invalid
    assert (barcode.error, barcode.bytes, barcode.extra["UEC"]) == (None, b"", 1.0)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "https://mail.example/#k7m3wq9xt2ab@mail.example.com.0123456789abcdef0123456789abcdef",
            id="address of an inbox with its token",
        ),
        pytest.param("http://127.0.0.1:8025/some/prefix/?a=1&b=%20#x", id="address with a query"),
        pytest.param("mailto:jörg@müller.example?subject=Grüße", id="umlauts"),
        pytest.param("日本語のメール", id="Japanese"),
        pytest.param("👩\u200d👩\u200d👧\u200d👦 and 🇩🇪", id="emoji of several characters"),
        pytest.param("two\r\nlines\tand a \0 zero", id="control characters"),
        pytest.param("0123456789", id="digits"),
        pytest.param("HELLO WORLD", id="capitals"),
    ],
)
def test_any_text_is_decoded_correctly(text):
    [barcode] = read_all(text)
    assert barcode.text == text


def test_random_texts_are_decoded_correctly():
    chosen = random.Random(18004)
    alphabet = "abcdefghijklmnopqrstuvwxyz0123456789:/#.@-äöüß€😀"
    read_all(*("".join(chosen.choices(alphabet, k=chosen.randint(1, 200))) for _ in range(60)))


def test_a_partly_covered_code_can_be_read():
    [rows] = painted("x" * 200)
    blotted = [row[:30] + "1" * 9 + row[39:] if 30 <= y < 39 else row for y, row in enumerate(rows)]
    barcode = read(blotted)
    assert barcode.text == "x" * 200
    assert barcode.extra["UEC"] < 1


def test_the_painted_modules_have_a_quiet_zone_of_four():
    [rows] = painted("a text")
    modules = in_node("qr.js", "({ qrModules }, text) => qrModules(text)", "a text")
    assert {type(module) for row in modules for module in row} == {int}
    light = ["0" * 29] * 4
    assert rows == [*light, *("0000" + "".join(str(dark) for dark in row) + "0000" for row in modules), *light]


@pytest.mark.parametrize("text", ["x" * 413, "ä" * 207])
def test_a_text_too_long_for_version_15_is_a_range_error(text):
    attempt = "({ qrPath }, text) => { try { return qrPath(text); } catch (error) { return error.name; } }"
    assert in_node("qr.js", attempt, text) == "RangeError"
