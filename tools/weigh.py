"""Counts the source of each package: lines that hold a token other than a comment or a docstring, and modules.

python tools/weigh.py [FOLDER]      the packages in FOLDER, by default tmpmaild/, what is directly in it, and the sum
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_NO_CODE: Final = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def code_lines(source: str) -> int:
    """Return how many lines of a module hold code."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    held = {line for token in tokens if token.type not in _NO_CODE for line in range(token.start[0], token.end[0] + 1)}
    return len(held - _docstring_lines(ast.parse(source)))


def _docstring_lines(tree: ast.AST) -> set[int]:
    """Return the lines of all strings that stand alone, as docstrings of modules, classes, functions and constants."""
    alone = (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return {line for one in alone for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)}


def weigh(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the lines and the modules of each package in a folder, and of the modules directly in it."""
    lines, modules = Counter[str](), Counter[str]()
    for path in folder.rglob("*.py"):
        inside = path.relative_to(folder)
        package = inside.parts[0] if len(inside.parts) > 1 else "shared"
        lines[package] += code_lines(path.read_text())
        modules[package] += 1
    return {package: (lines[package], modules[package]) for package in sorted(lines)}


def main() -> None:
    """Print the table."""
    packages = weigh(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tmpmaild")
    total = (sum(lines for lines, _ in packages.values()), sum(modules for _, modules in packages.values()))
    for package, (lines, modules) in {**packages, "all": total}.items():
        sys.stdout.write(f"{package:>14} {lines:6} lines {modules:4} modules\n")


if __name__ == "__main__":
    main()
