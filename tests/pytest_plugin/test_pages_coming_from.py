"""What docs/coming-from.md says of us exists: each thing in code of the right column is one of the kinds below."""

import inspect
import re
import tempfile
from pathlib import Path

import msgspec

from tmpmaild import client as api
from tmpmaild import pytest_plugin
from tmpmaild.client.views import Filters
from tmpmaild.config import file as configfile
from tmpmaild.config.settings import kinds_by_key
from tmpmaild.errors import StartError
from tmpmaild.http import health, requests, schemas
from tmpmaild.http.app import OPERATIONS

PAGE = (Path(__file__).parents[2] / "docs/coming-from.md").read_text()
ROWS = [row for row in re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE) if row[1] != "here"]
NODE = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
ROOT = Path(__file__).parents[2]
OURS = sorted({code for _, here in ROWS for code in re.findall(r"`([^`]+)`", here)})
OBJECTS = {"inbox": api.Inbox, "mail": api.Mail, "tmpmail": api.Client, "attachment": api.Attachment}
PLUGIN = Path(pytest_plugin.__file__).read_text()
FIXTURES = set(re.findall(r"^@pytest\.fixture.*\ndef ([a-z]\w+)", PLUGIN, re.MULTILINE))
SETTINGS = set(re.findall(r'add(?:option|ini)\("([\w-]+)"', PLUGIN))
QUERY = {field.encode_name for field in msgspec.structs.fields(requests.PageQuery)}
OF_OTHERS = {"Link", "EMAIL_BACKEND", "EMAIL_HOST", "EMAIL_PORT", "--show-capture=no"}  # HTTP's, Django's, pytest's
OF_THE_OPERATOR = {f"GET {path}" for path in re.findall(r'"(/\w+)": Resource', Path(health.__file__).read_text())}


def is_route(code):
    if code in OF_THE_OPERATOR:
        return True
    match = re.fullmatch(r"([A-Z]+) ([^?]+)(?:\?(.*))?", code.replace("…/", "/api/v1/addresses/{address}/", 1))
    if not match:
        return False
    path = match[2].replace("…", "/api/v1/addresses/{address}")
    operation = next((one for one in OPERATIONS if (one.method, one.path) == (match[1], path)), None)
    names = [pair.partition("=")[0] for pair in (match[3] or "").split("&") if pair]
    return operation is not None and set(names) <= QUERY


def is_call(code):
    match = re.fullmatch(r"(\w+)\.(\w+)(\(.*\))?", code)
    if not match or match[1] not in OBJECTS or not hasattr(OBJECTS[match[1]], match[2]):
        return False
    member = inspect.getattr_static(OBJECTS[match[1]], match[2])
    if not match[3]:
        return isinstance(member, property)
    return set(re.findall(r"\b(\w+)=", match[3])) <= names_of(member)


def names_of(member):
    """Return what a call takes by name; the filters of mail are described in one place."""
    taken = inspect.signature(member).parameters.keys()
    return taken | Filters.__annotations__.keys() if "filters" in taken else taken


def is_key(code):
    key, _, value = code.partition(" = ")
    if not value or key not in kinds_by_key():
        return key in kinds_by_key()
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(code)
        file.flush()
        try:
            configfile.load(Path(file.name), {})
        except StartError:
            return False
    return True


def is_name(code):
    """Know arguments of a wait, fixtures, ini keys, options and their variables, members of messages, classes."""
    if match := re.fullmatch(r"(\w+)=\w*", code):
        return match[1] in names_of(api.Inbox.wait_for)
    names = FIXTURES | SETTINGS | {name.upper() for name in SETTINGS} | OF_OTHERS
    members = {*schemas.FullMessageItem.__struct_fields__, *requests.ExtendRequest.__struct_fields__}
    return code in names | members or code.partition("(")[0] in api.__all__


def test_what_the_page_says_of_us_exists():
    assert [code for code in OURS if not (is_route(code) or is_call(code) or is_key(code) or is_name(code))] == []


def test_what_the_page_says_of_typescript_and_cypress_exists():
    sources = "".join(path.read_text() for path in (ROOT / "clients/typescript/src").glob("*.ts"))
    tasks = (ROOT / "tests/examples/typescript/cypress.config.mjs").read_text()
    python, typescript, cypress = (
        [code for row in NODE if row[0].startswith("`") or n for code in re.findall(r"`([^`]+)`", row[n])]
        for n in range(3)
    )
    assert [code for code in python if not (is_call(code) or is_name(code))] == []
    members = [
        re.fullmatch(r"(?:await )?(?:(?:inbox|mail|tmpmail|service)\.)?(\w+)(?:\(.*\))?", code)[1]
        for code in typescript
    ]
    assert [name for name in members if not re.search(rf"\b{name}\b[(:,?<]", sources)] == []
    assert [name for name in re.findall(r'cy\.task\("(\w+)"', " ".join(cypress)) if f"{name}" not in tasks] == []
    assert len(NODE) > 10
