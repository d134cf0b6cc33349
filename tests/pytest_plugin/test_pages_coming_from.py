"""What docs/coming-from.md says of us exists: calls at the client, and other names in pages that tests hold."""

import re
from pathlib import Path

import msgspec

from tmpmaild import client as api
from tmpmaild.http.inputs import AllMailQuery

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "coming-from.md").read_text()
ROWS = [row for row in re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE) if row[1] != "here"]
NODE = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
OBJECTS = {"inbox": api.Inbox, "mail": api.Mail, "tmpmail": api.Client, "attachment": api.Attachment}
HELD = [DOCS / "api.md", DOCS / "configuration.md", *DOCS.glob("testing/*.md"), ROOT / "tests/stable.json"]
API = (DOCS / "api.md").read_text() + (DOCS / "operations.md").read_text()
QUERY = {field.encode_name for field in msgspec.structs.fields(AllMailQuery)}
WORDS = set(re.findall(r"\w[\w-]*", "".join(path.read_text() for path in HELD)))
OF_OTHERS = {"show-capture", "no"}  # an option of pytest


def is_route(method, path, query):
    paths = {path.replace("…", "/api/v1/addresses/{address}"), path}
    names = {pair.partition("=")[0] for pair in (query or "").split("&") if pair}
    return any(f"`{method} {one}`" in API for one in paths) and names <= QUERY


def is_there(code):
    """Return whether a call or a route is one of ours, and all names are; what is in quotes is an example."""
    if asked := re.fullmatch(r"([A-Z]+) ([^?]+)(?:\?(.*))?", code):
        return is_route(*asked.groups())
    called = re.match(r"(\w+)\.(\w+)(?!.* = )", code)
    if called and called[1] in OBJECTS and not hasattr(OBJECTS[called[1]], called[2]):
        return False
    return set(re.findall(r"[a-zA-Z][\w-]*", re.sub(r'"[^"]*"', "", code))) <= WORDS | OF_OTHERS


def test_what_the_page_says_of_us_exists():
    ours = sorted({code for _, here in ROWS for code in re.findall(r"`([^`]+)`", here)})
    assert len(ours) > 80
    assert [code for code in ours if not is_there(code)] == []


def test_what_the_page_says_of_typescript_and_cypress_exists():
    sources = "".join(path.read_text() for path in (ROOT / "clients/typescript/src").glob("*.ts"))
    tasks = (ROOT / "tests/examples/typescript/cypress.config.mjs").read_text()
    python, typescript, cypress = (
        [code for row in NODE if row[0].startswith("`") or n for code in re.findall(r"`([^`]+)`", row[n])]
        for n in range(3)
    )
    assert [code for code in python if not is_there(code)] == []
    call = r"(?:await )?(?:(?:inbox|mail|tmpmail|service)\.)?(\w+)(?:\(.*\))?"
    members = [re.fullmatch(call, code)[1] for code in typescript]
    assert [name for name in members if not re.search(rf"\b{name}\b[(:,?<]", sources)] == []
    assert [name for name in re.findall(r'cy\.task\("(\w+)"', " ".join(cypress)) if f"{name}" not in tasks] == []
    assert len(NODE) > 10
