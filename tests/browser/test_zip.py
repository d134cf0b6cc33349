"""The page's archive of all attachments: Python's ``zipfile`` can read it, and it contains no unsafe names."""

import base64
import io
import unicodedata
import zipfile
from pathlib import PurePosixPath, PureWindowsPath

import pytest

from modules import in_node

pytestmark = pytest.mark.needs("node")
PACK = """async ({ zip }, names, contents) => {
    const blobOf = (index) => new Blob([Buffer.from(contents[index] ?? "", "base64")]);
    const archive = await zip(names.map((name, index) => ({ name, blob: blobOf(index) })), new Date(2026, 10, 22, 7, 45, 51));
    return Buffer.from(await archive.arrayBuffer()).toString("base64");
}"""
# File names of attachments, and the resulting names in the archive.
NAMES = {
    "terms.pdf": "terms.pdf",
    "TERMS.PDF": "TERMS (2).PDF",
    "terms (2).pdf": "terms (2) (2).pdf",
    "Grüße 日本語 👋.txt": "Grüße 日本語 👋.txt",
    "../../etc/passwd": "_.._etc_passwd",
    "..": "file",
    "": "file (2)",
    "...": "file (3)",
    "/absolute": "_absolute",
    "C:\\Windows\\system.ini": "C_Windows_system.ini",
    "~/.bashrc": "_.bashrc",
    ".hidden": "hidden",
    "con": "_con",
    "LPT1.txt": "_LPT1.txt",
    "console.log": "console.log",
    "a\x00b\nc\td": "a_b_c_d",
    "photo\u202egpj.exe": "photo_gpj.exe",
    "trailing. . ": "trailing",
    "-rf": "rf",
    'a<b>c"d|e?f*g': "a_b_c_d_e_f_g",
    f"{'x' * 300}.pdf": f"{'x' * 120}.pdf",
}


def pack(names, contents):
    packed = in_node("zip.js", PACK, names, [base64.b64encode(content).decode() for content in contents])
    return zipfile.ZipFile(io.BytesIO(base64.b64decode(packed)))


def test_python_reads_the_packed_files_from_the_archive():
    contents = [bytes(range(256)) * 40, b"", b"\0" * 70_000, *[name.encode() for name in NAMES][3:]]
    archive = pack(list(NAMES), contents)
    assert archive.testzip() is None
    assert [archive.read(one) for one in archive.infolist()] == contents
    assert archive.namelist() == list(NAMES.values())
    assert {one.date_time for one in archive.infolist()} == {(2026, 11, 22, 7, 45, 50)}
    assert (pack([], [])).namelist() == []


def test_every_file_name_becomes_a_single_file_in_the_folder_of_the_archive():
    names = [f"{before}{chr(code)}{after}" for code in range(0x180) for before, after in (("..", "/.."), ("", "a"))]
    archive = pack(names, [])
    found = archive.namelist()
    assert len({unicodedata.normalize("NFC", name).lower() for name in found}) == len(names)
    assert [name for name in found if PurePosixPath(name).name != name or PureWindowsPath(name).name != name] == []
    assert [name for name in found if name in ("", ".", "..") or name.endswith((".", " "))] == []


def test_a_thousand_files_with_the_same_name_are_not_compared_with_each_other():
    counted = """({ distinct }, names) => {
        const normalize = String.prototype.normalize;
        let calls = 0;
        String.prototype.normalize = function (form) { calls++; return normalize.call(this, form); };
        return [new Set(distinct(names)).size, calls];
    }"""
    different, calls = in_node("zip.js", counted, ["a.txt"] * 1000 + ["a (2).txt"] * 1000)
    assert different == 2000
    assert calls < 20 * 2000
