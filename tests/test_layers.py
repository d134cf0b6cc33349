"""Imports between packages follow the table in ``docs/architecture.md``."""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import tmpmaild

PACKAGE = Path(tmpmaild.__file__).parent
ARCHITECTURE = Path(__file__).parent.parent / "docs/architecture.md"
SHARED = "shared"  # The modules directly in tmpmaild/ that the table does not list.
# A module in the table is a separate layer, below the rest of its package, which may import it. In the last column, a
# module's name refers only to that module.
ROWS = re.findall(r"^\| `([\w.]+)` \| .+ \| (.+) \|$", ARCHITECTURE.read_text(), re.MULTILINE)
MAY_IMPORT = {layer: set(re.findall(r"`([\w.]+)`", allowed)) for layer, allowed in ROWS}
FRAMEWORKS = {"starlette", "hypercorn", "aiosmtpd", "click", "mcp", "pydantic"}


def _layer(module: str) -> str:
    """Return the layer of a module, given by its dotted path in tmpmaild/; "" for tmpmaild itself."""
    package = module.split(".", maxsplit=1)[0]
    return next((one for one in (module, package) if one in MAY_IMPORT), SHARED if package else "")


@cache
def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _modules() -> list[tuple[str, Path]]:
    return [
        (_layer(".".join(path.relative_to(PACKAGE).with_suffix("").parts)), path)
        for path in sorted(PACKAGE.rglob("*.py"))
    ]


def _ours(path: Path) -> set[str]:
    """Return our own modules and packages that a file imports; a name imported from a module counts as the module."""
    found = {name.removeprefix("tmpmaild.") for name in _imports(path) if name.startswith("tmpmaild.")}
    return {name for name in found if _exists(name)}


@cache
def _exists(name: str) -> bool:
    place = PACKAGE.joinpath(*name.split("."))
    return place.with_suffix(".py").exists() or place.is_dir()


def _may(layer: str, module: str) -> bool:
    """Return whether a layer may import a module; ``from tmpmaild.PACKAGE import MODULE`` names both."""
    allowed, found = MAY_IMPORT[layer], _layer(module)
    is_own = layer in (found, module.partition(".")[0])
    return is_own or bool({found, module} & allowed) or any(one.startswith(f"{module}.") for one in allowed)


def test_every_folder_is_a_package_with_a_layer():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    modules = {SHARED, "daemon", "__main__"}
    assert folders == {layer for layer in MAY_IMPORT if "." not in layer} - modules


def test_the_table_lists_the_allowed_imports_of_each_layer():
    assert [layer for layer, allowed in ROWS if "`" not in allowed and allowed != "nothing"] == []
    assert set().union(*MAY_IMPORT.values()) <= {*MAY_IMPORT, "storage.base", "host.control"}


def test_a_package_imports_only_what_it_may():
    strangers = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for layer, path in _modules()
        for module in _ours(path)
        if not _may(layer, module)
    ]
    assert strangers == []


def test_the_layers_form_no_cycle():
    def reached(layer: str, path: tuple[str, ...] = ()) -> None:
        assert layer not in path, f"{' → '.join(path)} → {layer}"
        for other in MAY_IMPORT[layer]:
            reached(_layer(other), (*path, layer))

    for layer in MAY_IMPORT:
        reached(layer)


def _imported_at_once(path: Path) -> set[str]:
    """Return the imports that run when a module is loaded or type-checked: those outside functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lazy = {id(node) for function in functions for node in ast.walk(function)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in lazy:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = {name for name in names if _exists(name.removeprefix("tmpmaild."))}
            found |= modules or {node.module}
    return found


def test_no_module_imports_itself_through_other_modules():
    """Type-only imports count too, because modules that import each other should be one module, or need a third one.

    A package may use its modules.
    """
    modules = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(("tmpmaild", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        modules[name] = _imported_at_once(path) - {name.rpartition(".")[0]}
    assert set(TopologicalSorter(modules).static_order()) >= modules.keys()


def test_frameworks_are_imported_only_at_the_edges():
    allowed = {
        "http": {"starlette", "hypercorn"},
        "smtp": {"aiosmtpd"},
        "cli": {"click"},
        "mcp_server": {"mcp", "pydantic"},
    }
    met = [
        f"{path.relative_to(PACKAGE)} imports {module}"
        for layer, path in _modules()
        for module in _imports(path)
        if module.split(".")[0] in FRAMEWORKS - allowed.get(layer, set())
    ]
    assert met == []


def test_no_pattern_repeats_a_group_possessively():
    """Before Python 3.11.5 (Debian 12 has 3.11.2), a group repeated in this way loses its match if it fails halfway."""
    for path in PACKAGE.rglob("*.py"):
        for line in path.read_text().splitlines():
            without_classes = re.sub(r"\[\^?\]?(?:\\.|[^\]\\])*\]", "C", line)
            assert not re.search(r"\)(?:[*+?]|\{[0-9,]+\})\+", without_classes), f"{path}: {line}"
