"""``pyproject.toml`` declares exactly what the package imports, and each minimum version has a reason."""

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import distributions as installed
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import tmpmaild

PACKAGE = Path(tmpmaild.__file__).parent
TESTS = Path(__file__).parent
PROJECT = TESTS.parent / "pyproject.toml"
distributions = cache(packages_distributions)  # slow: it examines every file of every package
PYTHON_OF_DEBIAN_12 = "3.11.2"
OPTIONAL = {"allure", "allure-python-commons", "allure-pytest"}  # inboxes.py imports this module if its option is set
IN_CLIENT = (
    "client",
    "cli",
    "mcp_server",
    "pytest_plugin",
)  # some commands report what to install; see cli/test_main.py


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(*extras):
    project = tomllib.loads(PROJECT.read_text())["project"]
    lines = project["dependencies"] + [line for extra in extras for line in project["optional-dependencies"][extra]]
    return {normal(re.match(r"[A-Za-z0-9._-]+", line)[0]) for line in lines}


@cache
def imports_in(path):
    """Return the import statements of a module, except imports of sibling modules."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    absolute = [node for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return absolute + [node for node in nodes if isinstance(node, ast.Import)]


def imported(paths):
    """Return the distributions that are imported, each with the modules that import it."""
    found = {}
    for path in paths:
        for node in imports_in(path):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            for name in {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"tmpmaild"}:
                for distribution in distributions().get(name, [name]):
                    found.setdefault(normal(distribution), set()).add(str(path))
    return found


def modules(*, of_the_client):
    return [
        path for path in PACKAGE.rglob("*.py") if (path.relative_to(PACKAGE).parts[0] in IN_CLIENT) is of_the_client
    ]


def undeclared(imports, *, known):
    return {name: paths for name, paths in imports.items() if name not in known}


def test_a_server_imports_only_its_own_dependencies():
    imports = imported(modules(of_the_client=False))
    assert undeclared(imports, known=declared("postgresql", "senders")) == {}
    for name in declared("senders") - declared():
        assert all("/senders/" in path for path in imports[name])
    assert all("/storage/postgresql/" in path for path in imports["asyncpg"])


def test_client_and_commands_need_their_extra_and_the_plugin_also_pytest():
    imports = imported(modules(of_the_client=True))
    assert undeclared(imports, known=declared("client", "dns", "mcp", "tls") | {"pytest"} | OPTIONAL) == {}
    assert all("pytest_plugin" in path for path in imports["pytest"])


def test_every_declared_dependency_is_imported():
    assert declared("client", "dns", "mcp", "tls", "postgresql") - imported(PACKAGE.rglob("*.py")).keys() == set()


def test_pinned_versions_run_on_the_oldest_python():
    needed = {one.name: one.metadata.get("Requires-Python") for one in installed()}
    assert {
        name: versions for name, versions in needed.items() if PYTHON_OF_DEBIAN_12 not in SpecifierSet(versions or "")
    } == {}


def test_every_minimum_version_has_a_reason():
    lines = re.search(r"^dependencies = \[\n(.*?)^\]", PROJECT.read_text(), re.DOTALL | re.MULTILINE)[1].splitlines()
    assert [line for line in lines if not re.fullmatch(r' +"[A-Za-z0-9-]+>=[^"]+", +# .+', line)] == []


@pytest.mark.parametrize(("source", "name"), [("import h11", "h11"), ("from starlette.types import Send", "starlette")])
def test_an_import_is_found_anywhere_in_a_module(tmp_path, source, name):
    module = tmp_path / "module.py"
    module.write_text(f"def function():\n    {source}\n    import json\n    from . import sibling\n")
    assert imported([module]) == {name: {str(module)}}
