"""Reading and writing never depends on the locale."""

import ast
from pathlib import Path

import pytest

import tmpmaild

PACKAGE = Path(tmpmaild.__file__).parent
TOOLS = PACKAGE.parent / "tools"


def calls_without_encoding(path):
    """Yield the lines of calls that read or write text in the locale's encoding."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = {keyword.arg for keyword in node.keywords}
        modes = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        is_binary = any(set(mode) <= set("rwxab+t") and "b" in mode for mode in modes)
        is_text = {
            "read_text": not node.args,
            "write_text": len(node.args) < 2,
            "open": isinstance(node.func, ast.Name) and not is_binary,
            "NamedTemporaryFile": not is_binary and bool(modes),
            "run": bool(given & {"text", "universal_newlines"}),
            "Popen": bool(given & {"text", "universal_newlines"}),
        }
        if is_text.get(name) and "encoding" not in given:
            yield f"{path.name}:{node.lineno}"


def test_every_call_that_reads_or_writes_text_names_its_encoding():
    sources = [*PACKAGE.rglob("*.py"), *TOOLS.glob("*.py")]
    assert len(sources) > 150
    assert [line for path in sources for line in calls_without_encoding(path)] == []


@pytest.mark.parametrize(
    ("call", "is_found"),
    [
        ("p.read_text()", True),
        ("p.read_text('utf-8')", False),
        ("open(p)", True),
        ("open(p, 'rb')", False),
        ("p.write_text(x)", True),
        ("subprocess.run(c, text=True)", True),
        ("subprocess.run(c)", False),
    ],
)
def test_a_call_without_an_encoding_is_found(tmp_path, call, is_found):
    (tmp_path / "x.py").write_text(call, "utf-8")
    assert bool(list(calls_without_encoding(tmp_path / "x.py"))) == is_found
