"""The floors of the house: a module imports from lower floors or from its own folder, never upward."""

import ast
import re
from pathlib import Path

import tmpmaild

PACKAGE = Path(tmpmaild.__file__).parent
FLOORS = [
    {"errors", "model", "config", "configfile", "configkinds", "hostnames", "times"},
    {
        "addresses",
        "charsets",
        "clients",
        "codes",
        "cues",
        "events",
        "extracts",
        "headers",
        "htmlattributes",
        "htmltext",
        "htmltree",
        "htmlview",
        "ids",
        "links",
        "linkwords",
        "listings",
        "losses",
        "mailboxes",
        "mime",
        "mimeparts",
        "ratelimit",
        "recipients",
        "trace",
    },
    {"storage"},
    {"access", "expiry", "finding", "following", "reading", "service", "viewing"},
    {"smtp", "http"},
    {"client"},  # knows of the rest what the HTTP API says
    {"terminal"},
    {
        "daemon",
        "allocator",
        "cli",
        "commands",
        "__main__",
        "listen",
        "logs",
        "notify",
        "postmaster",
        "privileges",
        "pytest_plugin",
        "sending",
    },
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
FRAMEWORKS = {"starlette", "hypercorn", "aiosmtpd", "click"}


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _modules() -> list[tuple[str, Path]]:
    return [(path.relative_to(PACKAGE).parts[0].removesuffix(".py"), path) for path in sorted(PACKAGE.rglob("*.py"))]


def test_every_module_has_a_floor():
    assert {room for room, _ in _modules()} - {"__init__"} == set(FLOOR_OF)


def test_arrows_only_go_down():
    upward = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for room, path in _modules()
        for module in _imports(path)
        if module.startswith("tmpmaild.") and _room(module) in FLOOR_OF
        if _room(module) != room and FLOOR_OF[_room(module)] > FLOOR_OF.get(room, 0)
    ]
    assert upward == []


def test_the_edges_know_neither_each_other_nor_the_storage():
    strangers = {"smtp": {"http", "storage"}, "http": {"smtp", "storage"}}
    met = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for room, path in _modules()
        for module in _imports(path)
        if module.startswith("tmpmaild.") and _room(module) in strangers.get(room, set())
    ]
    assert met == []


def test_the_client_knows_of_the_rest_what_the_http_api_says():
    known = {
        f"{path.relative_to(PACKAGE)} imports {module}"
        for room, path in _modules()
        for module in _imports(path)
        if room == "client" and module.startswith("tmpmaild.") and _room(module) != "client"
    }
    assert known == set()


def test_frameworks_stay_in_their_edges():
    allowed = {"http": {"starlette", "hypercorn"}, "smtp": {"aiosmtpd"}, "cli": {"click"}, "commands": {"click"}}
    met = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for room, path in _modules()
        for module in _imports(path)
        if module.split(".")[0] in FRAMEWORKS - allowed.get(room, set())
    ]
    assert met == []


def test_no_module_outgrows_its_reader():
    assert [str(path) for _, path in _modules() if path.read_text().count("\n") > 350] == []


def test_no_pattern_repeats_a_group_possessively():
    """Before Python 3.11.5, which Debian 12 has, such a group swallows what it has seen when it fails halfway."""
    for path in PACKAGE.rglob("*.py"):
        for line in path.read_text().splitlines():
            without_classes = re.sub(r"\[\^?\]?(?:\\.|[^\]\\])*\]", "C", line)
            assert not re.search(r"\)[*+?]\+", without_classes), f"{path}: {line}"
