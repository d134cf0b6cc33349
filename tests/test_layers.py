"""The rooms of the package, and which of them each may import. ``docs/architecture.md`` says what is where."""

import ast
import re
from functools import cache
from pathlib import Path

import tmpmaild

PACKAGE = Path(tmpmaild.__file__).parent
ARCHITECTURE = Path(__file__).parent.parent / "docs/architecture.md"
WORDS = "words"  # the modules directly in the package, which know nothing else of ours
MAY_IMPORT = {
    WORDS: set(),
    "config": {WORDS},
    "mail": {WORDS},
    "findings": {WORDS, "mail"},
    "storage": {WORDS},
    "inboxes": {WORDS, "mail", "findings", "storage.base"},
    "senders": {WORDS, "mail", "storage.base"},
    "webhooks": {WORDS, "inboxes", "storage.base"},
    "smtp": {WORDS, "mail", "inboxes"},
    "http": {WORDS, "mail", "inboxes"},
    "host": {WORDS, "config"},
    "roomsettings": {WORDS, "config", "inboxes", "smtp", "http", "storage"},
    "daemon": {WORDS, "config", "inboxes", "smtp", "http", "host", "storage", "senders", "webhooks", "roomsettings"},
    "client": set(),
    "mcp_server": {"client"},
    "cli": {
        WORDS,
        "config",
        "mail",
        "storage",
        "senders",
        "webhooks",
        "host",
        "roomsettings",
        "daemon",
        "client",
        "mcp_server",
    },
    "pytest_plugin": {"client", "cli"},  # the daemon that it starts is a command
    "__main__": {"cli"},
}
FRAMEWORKS = {"starlette", "hypercorn", "aiosmtpd", "click", "mcp", "pydantic"}


def _room(module: str) -> str:
    """Return the room of a module, given by its path in the package with dots."""
    first = module.split(".", maxsplit=1)[0]
    if first in MAY_IMPORT:
        return first
    return WORDS if first else ""


@cache
def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _modules() -> list[tuple[str, Path]]:
    return [
        (_room(".".join(path.relative_to(PACKAGE).with_suffix("").parts)), path)
        for path in sorted(PACKAGE.rglob("*.py"))
    ]


def _ours(path: Path) -> set[str]:
    """Return what a file imports of ours, below the package; a name that is imported from a module counts as the module."""
    found = {name.removeprefix("tmpmaild.") for name in _imports(path) if name.startswith("tmpmaild.")}
    return {name for name in found if _exists(name)}


@cache
def _exists(name: str) -> bool:
    place = PACKAGE.joinpath(*name.split("."))
    return place.with_suffix(".py").exists() or place.is_dir()


def _may(room: str, module: str) -> bool:
    wanted = _room(module)
    return wanted == room or wanted in MAY_IMPORT[room] or module in MAY_IMPORT[room] | {"storage"}


def test_every_folder_is_a_room():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders == set(MAY_IMPORT) - {WORDS, "roomsettings", "daemon", "__main__"}


def test_the_page_of_the_architecture_has_every_room_and_what_it_may_import():
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.+) \|$", ARCHITECTURE.read_text(), re.MULTILINE)
    assert {room: set(re.findall(r"`([\w.]+)`", allowed)) for room, allowed in rows} == MAY_IMPORT
    assert [room for room, allowed in rows if "`" not in allowed and allowed != "nothing"] == []


def test_a_room_imports_only_what_it_may():
    strangers = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for room, path in _modules()
        for module in _ours(path)
        if not _may(room, module)
    ]
    assert strangers == []


def test_the_rooms_form_no_circle():
    def reached(room: str, path: tuple[str, ...] = ()) -> None:
        assert room not in path, f"{' → '.join(path)} → {room}"
        for other in MAY_IMPORT[room]:
            reached(other.split(".")[0], (*path, room))

    for room in MAY_IMPORT:
        reached(room)


def test_frameworks_stay_in_their_edges():
    allowed = {
        "http": {"starlette", "hypercorn"},
        "smtp": {"aiosmtpd"},
        "cli": {"click"},
        "mcp_server": {"mcp", "pydantic"},
    }
    met = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for room, path in _modules()
        for module in _imports(path)
        if module.split(".")[0] in FRAMEWORKS - allowed.get(room, set())
    ]
    assert met == []


def test_no_module_outgrows_its_reader():
    assert [str(path) for _, path in _modules() if path.read_text().count("\n") > 700] == []


def test_no_pattern_repeats_a_group_possessively():
    """Before Python 3.11.5, which Debian 12 has, such a group swallows what it has seen when it fails halfway."""
    for path in PACKAGE.rglob("*.py"):
        for line in path.read_text().splitlines():
            without_classes = re.sub(r"\[\^?\]?(?:\\.|[^\]\\])*\]", "C", line)
            assert not re.search(r"\)[*+?]\+", without_classes), f"{path}: {line}"
