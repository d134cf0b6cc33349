"""The private names of other libraries that we use: the table in ``docs/architecture.md`` lists each with a test."""

import ast
import importlib
import inspect
import pkgutil
import re
import sys
import warnings
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest

import tmpmaild

ROOT = Path(__file__).parents[1]
PUBLIC = {"_", "_asdict", "_exit", "_fields", "_make", "_replace"}  # documented by Python despite their names
TABLE = re.findall(
    r"^\| (\w+) ([\d.]+) \| (.+?) \| `(.+?)` \| `(.+?)` \|", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE
)
KNOWN = {"tmpmaild", *sys.stdlib_module_names}
OF_OURS = {"_web_files"}  # one of our private names, which tests/support uses
SOURCES = [*(ROOT / "tmpmaild").rglob("*.py"), *(ROOT / "tests/support").glob("*.py")]


def is_private(name):
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def is_of_self(node):
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def own_names(tree):
    """Return the names that a piece of source defines, or sets on ``self``."""
    nodes = list(ast.walk(tree))
    names = {one.attr for one in nodes if is_of_self(one) and isinstance(one.ctx, ast.Store)}
    names |= {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return names | {one.name for one in nodes if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}


def used_names(tree):
    """Yield the private names that a module uses on objects that are not its own, or imports from other libraries."""
    own = own_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own and not is_of_self(node):
            yield node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] not in KNOWN:
            yield from filter(is_private, (node.module or "").split("."))
            yield from (alias.name for alias in node.names if is_private(alias.name))


@cache
def classes_in(path):
    """Return the classes of a module, by name."""
    with warnings.catch_warnings(action="ignore"):
        return {
            node.name: node
            for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8")))
            if isinstance(node, ast.ClassDef)
        }


@cache
def of_class(kind):
    """Return the private names that a class uses on itself or defines."""
    path = getattr(sys.modules[kind.__module__], "__file__", None) or ""
    tree = classes_in(path).get(kind.__name__, ast.Pass()) if path.endswith(".py") else ast.Pass()
    asked = {one.attr for one in ast.walk(tree) if is_of_self(one)}
    return {name for name in asked | own_names(tree) if is_private(name)}


def inherited_names():
    """Yield, by module, the private names that our classes share with a base class from another library."""
    for found in pkgutil.walk_packages(tmpmaild.__path__, "tmpmaild."):
        module = importlib.import_module(found.name) if not found.name.endswith("__main__") else None
        for kind in vars(module).values() if module else ():
            if inspect.isclass(kind) and kind.__module__ == found.name:
                tops = {base: base.__module__.partition(".")[0] for base in kind.__mro__}
                foreign = [one for one, top in tops.items() if top not in {*KNOWN, "msgspec"}]
                theirs = set().union(*map(of_class, foreign))
                yield (
                    str(Path(module.__file__).resolve().relative_to(ROOT)),
                    of_class(kind) & theirs if theirs else set(),
                )


def test_the_table_lists_every_private_name_of_other_libraries_that_we_use():
    found = {str(path.relative_to(ROOT)): set(used_names(ast.parse(path.read_text()))) - OF_OURS for path in SOURCES}
    for path, names in inherited_names():
        found[path] |= names
    listed = {}
    for _, _, names, path, _ in TABLE:
        listed.setdefault(path, set()).update(re.findall(r"\b_\w+", names))
    assert {path: names for path, names in found.items() if names} == {
        path: names for path, names in listed.items() if names
    }


@pytest.mark.parametrize(("library", "tried"), sorted({row[:2] for row in TABLE}))
def test_each_library_has_the_minor_version_that_its_seam_was_tested_with(library, tried):
    """The test listed in the table covers patch versions."""
    found = version(library)
    assert found.split(".")[:2] == tried.split(".")[:2], (
        f"{library} {found} is installed, but its private names were tested with {tried}. If you did not intend this change,"
        f" `make .venv/.dev` installs the versions in constraints/. Otherwise, look up in docs/architecture.md, under"
        f" 'Private names', which names of {library} are used, check how {library} has changed them, run the test in that"
        f" row, and write {found} into the row."
    )


def test_each_seam_has_a_test():
    assert len(TABLE) > 5
    assert [path for *_, path in TABLE if not (ROOT / path).exists()] == []


def test_a_new_use_of_a_private_name_is_detected():
    def names(source):
        return set(used_names(ast.parse(source)))

    assert names("from h11._state import CLIENT\nprint(CLIENT, connection._state, connection.their_state)") == {
        "_state"
    }
    assert names("class A:\n def b(self): self._own = 1\ndef c(a): return a._own, a._theirs") == {"_theirs"}
