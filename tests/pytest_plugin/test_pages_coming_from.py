"""All names in docs/coming-from.md exist: client methods in the code, and all other names on tested pages.

The suites in tests/moved use only those parts of tmpmaild that the page mentions; tests/clients/test_moved.py runs the
JavaScript suites.
"""

import re
import shutil
from pathlib import Path

import msgspec
import pytest

from tmpmaild import client as api
from tmpmaild.http.inputs import AllMailDeleteQuery, AllMailQuery

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "coming-from.md").read_text()
TABLES = [re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", one, re.MULTILINE) for one in PAGE.split("\n\n") if one[0] == "|"]
ROWS, TYPESCRIPT, CYPRESS = (
    [row for header, *rows in filter(None, TABLES) if header[1] == f"here{language}" for row in rows]
    for language in ("", ", in TypeScript", ", in Cypress")
)
NODE = re.findall(r"^\| (`[^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
OBJECTS = {
    "inbox": api.Inbox,
    "all_mail": api.AllMail,
    "mail": api.Mail,
    "tmpmail": api.Client,
    "attachment": api.Attachment,
}
SOURCES = "".join(path.read_text() for path in (ROOT / "clients/typescript/src").glob("*.ts"))
MOVED = ROOT / "tests/moved"
HELD = [DOCS / "api.md", DOCS / "configuration.md", *DOCS.glob("testing/*.md"), ROOT / "tests/stable.json"]
API = (DOCS / "api.md").read_text() + (DOCS / "operations.md").read_text()
QUERIES = {
    method: {field.encode_name for field in msgspec.structs.fields(query)}
    for method, query in (("GET", AllMailQuery), ("DELETE", AllMailDeleteQuery))
}
WORDS = set(re.findall(r"\w[\w-]*", "".join(path.read_text() for path in HELD)))
OF_OTHERS = {"show-capture", "no"}  # an option of pytest itself


def is_route(method, path, query):
    paths = {path.replace("…", "/api/v1/addresses/{address}"), path}
    names = {pair.partition("=")[0] for pair in (query or "").split("&") if pair}
    return any(f"`{method} {one}`" in API for one in paths) and names <= QUERIES.get(method, set())


def is_there(code):
    """Return whether a route, or the names in a call, exist; quoted text is ignored as an example."""
    if asked := re.fullmatch(r"([A-Z]+) ([^?]+)(?:\?(.*))?", code):
        return is_route(*asked.groups())
    called = re.match(r"(\w+)\.(\w+)(?!.* = )", code)
    if called and called[1] in OBJECTS and not hasattr(OBJECTS[called[1]], called[2]):
        return False
    return set(re.findall(r"[a-zA-Z][\w-]*", re.sub(r'"[^"]*"', "", code))) <= WORDS | OF_OTHERS


def test_our_names_on_the_page_exist():
    ours = sorted({code for _, here in ROWS for code in re.findall(r"`([^`]+)`", here)})
    assert len(ours) > 80
    assert [code for code in ours if not is_there(code)] == []


def test_the_typescript_and_cypress_names_on_the_page_exist():
    python, typescript, cypress = (
        [code for row in NODE for code in re.findall(r"`([^`]+)`", row[n])] for n in range(3)
    )
    assert [code for code in python if not is_there(code)] == []
    call = r"(?:await )?(?:(?:inbox|mail|tmpmail|service)\.)?(\w+)(?:\(.*\))?"
    members = [re.fullmatch(call, code)[1] for code in typescript]
    assert [name for name in members if not re.search(rf"\b{name}\b[(:,?<]", SOURCES)] == []
    commands = set(re.findall(r"cy\.(\w+)", named(CYPRESS) + " ".join(cypress)))
    assert len(commands) > 5
    assert [name for name in sorted(commands) if not re.search(rf"\b{name}\(", SOURCES)] == []
    assert len(NODE) > 9


def named(rows):
    return " ".join(code for row in rows for code in re.findall(r"`([^`]+)`", row[1]))


def test_our_names_in_the_tables_of_npm_packages_exist():
    ours = re.sub(r'"[^"]*"', "", named(TYPESCRIPT))
    members = set(re.findall(r"(?:^|[ .(])([a-zA-Z]\w{3,})", ours)) - {"await", "const"}
    assert len(members) > 40
    assert [name for name in sorted(members) if not re.search(rf"\b{name}\b", SOURCES)] == []


def section(name):
    """Return the table rows of a section, including the tables of npm packages in it."""
    text = PAGE.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("suite", "tool", "theirs"),
    [
        ("maildev-{}.test.mjs", "MailDev", "maildev|smtp|email|invoice"),
        ("mailpit-{}.test.ts", "Mailpit", "mailpit|message|invoice"),
        ("mailpit_client_{}.py", "Mailpit", "api|message|invoice"),
        ("mailhog-{}.test.cjs", "MailHog", "mailhog|message|invoice"),
    ],
)
def test_a_moved_suite_uses_only_names_from_the_page(suite, tool, theirs):
    rows = section(tool)
    ours = "allMail|all_mail|mail|service|attachment|invoice|order"
    for column, when, objects in ((0, "before", theirs), (1, "after", ours)):
        text = (MOVED / suite.format(when)).read_text()
        used = set(re.findall(rf"(?<![/.\w-])(?:{objects})\??\.([a-zA-Z]\w+)", text))
        words = set(re.findall(r"\w+", " ".join(row[column] for row in rows)))
        assert (len(used) > 5, sorted(used - words)) == (True, [])


def test_the_python_suite_moved_from_mailpit_passes(run, tmp_path):
    shutil.copy(MOVED / "shop.py", tmp_path)
    tests = (MOVED / "mailpit_client_after.py").read_text()
    status, text = run(tests=tests, ini="tmpmaild_catch_all = true\npythonpath = .\n")
    assert (status, "5 passed" in text) == (0, True), text
