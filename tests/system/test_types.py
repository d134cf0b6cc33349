"""mypy detects each one-sided change to a storage signature: in the contract, an engine, or a call.

The changes swap two parameters or two arguments, rename a parameter, or drop a parameter or an argument. One round
makes one change to every function, or to every call, at the same time. Any change that mypy accepts could be committed
by mistake.
"""

import ast
import os
import re
import shutil
import sys
from itertools import count, pairwise, zip_longest
from pathlib import Path

import pytest

from daemons import finished

ROOT = Path(__file__).parents[2]
STORAGE = "tmpmaild/storage"
CONTRACT = f"{STORAGE}/base.py"
CALLERS = [f"{STORAGE}/{engine}/storage.py" for engine in ("sqlite", "postgresql")]
CALLED = [
    f"{STORAGE}/{engine}/{module}.py" for engine in ("sqlite", "postgresql") for module in ("reading", "operations")
]
CLASSES = {"Storage", "SqliteStorage", "PostgresqlStorage"}
GIVEN = {"self", "cls", "batch", "connection"}
"""Parameters that a method has in any case, or that the reader and the writer pass."""


def functions(source):
    """Yield the public functions of a module, and the public methods of its storage class."""
    for node in ast.parse(source).body:
        for one in node.body if isinstance(node, ast.ClassDef) and node.name in CLASSES else [node]:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and not one.name.startswith("_"):
                yield one


class Signature:
    """The parameters of a function: the name, the type, and the default or None of each parameter."""

    def __init__(self, function):
        arguments = function.args
        defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + arguments.defaults
        self.positional = self._written(arguments.args, defaults)
        self.named = self._written(arguments.kwonlyargs, arguments.kw_defaults)

    @staticmethod
    def _written(arguments, defaults):
        return [
            [ast.unparse(one), default and ast.unparse(default)]
            for one, default in zip(arguments, defaults, strict=True)
        ]

    def __str__(self):
        parameters = [f"{text} = {default}" if default else text for text, default in self.positional]
        named = [f"{text} = {default}" if default else text for text, default in self.named]
        return ", ".join([*parameters, *(["*", *named] if named else [])])


def name_of(parameter):
    return parameter[0].partition(":")[0]


def swapped(function):
    """Yield the signature with two parameters swapped, for each pair of neighbouring positional parameters."""
    for one, other in pairwise(range(len(function.args.args))):
        signature = Signature(function)
        first, second = signature.positional[one], signature.positional[other]
        if not {name_of(first), name_of(second)} & GIVEN:
            first[0], second[0] = second[0], first[0]
            yield f"{name_of(second)} and {name_of(first)}", str(signature)


def renamed(function):
    """Yield the signature with one keyword-only parameter renamed, for each keyword-only parameter."""
    for place in range(len(function.args.kwonlyargs)):
        signature = Signature(function)
        name = name_of(signature.named[place])
        signature.named[place][0] = f"new_{signature.named[place][0]}"
        yield name, str(signature)


def dropped(function):
    """Yield the signature with one parameter removed, for each parameter."""
    for part in ("positional", "named"):
        for place, parameter in enumerate(getattr(Signature(function), part)):
            if name_of(parameter) not in GIVEN:
                signature = Signature(function)
                del getattr(signature, part)[place]
                yield name_of(parameter), str(signature)


def span(source, start, end):
    """Convert the lines and columns of a piece of source code to start and end offsets."""
    lines = source.splitlines(keepends=True)
    return tuple(
        sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())
        for line, column in (start, end)
    )


def signature_span(source, function):
    """Return the start and end of a function's parameters."""
    begin, end = span(source, (function.lineno, function.col_offset), (function.body[0].lineno, 0))
    head = source[begin:end]
    first = re.search(r"\bdef \w+\(", head).end()
    return begin + first, begin + first + re.search(r",?\s*\)(?: -> .*)?:\n", head[first:]).start()


def of_signatures(source, change):
    """Return the changes to a module's signatures: for each function, a list of (name, change, start, end, text)."""
    return [
        [
            (function.name, f"{function.name}: {what}", *signature_span(source, function), text)
            for what, text in change(function)
        ]
        for function in functions(source)
    ]


def calls(source):
    """Yield a module's calls to functions of ``reading`` or ``operations``, with their arguments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            names = [
                re.match(r"(?:reading|operations)\.(\w+)$", ast.unparse(one)) for one in (node.func, *node.args[:1])
            ]
            if any(names):
                yield node, names[0] or names[1], node.args[0 if names[0] else 1 :]


def of_arguments(source, kind):
    """Return the changes to a module's calls, in the same form as ``of_signatures``."""
    found = []
    for node, name, positional in calls(source):
        pieces = [ast.get_source_segment(source, one) for one in [*node.args, *node.keywords]]
        first = len(node.args) - len(positional)
        if kind == "swapped":
            changed = [
                (pieces[one], [*pieces[:one], pieces[one + 1], pieces[one], *pieces[one + 2 :]])
                for one in range(first, len(node.args) - 1)
            ]
        else:
            changed = [(pieces[one], [*pieces[:one], *pieces[one + 1 :]]) for one in range(first, len(pieces))]
        begin, end = span(
            source, (node.func.end_lineno, node.func.end_col_offset), (node.end_lineno, node.end_col_offset)
        )
        found.append([(name[1], f"{name[1]}({what})", begin, end, f"({', '.join(rest)})") for what, rest in changed])
    return found


class Checker:
    """A mypy daemon that checks a copy of the package: after a change, it only rechecks affected code."""

    def __init__(self, folder):
        self._folder = folder
        self._times = count(int((folder / CONTRACT).stat().st_mtime) + 10, 10)

    def run(self, *arguments):
        command = [Path(sys.executable).with_name("dmypy"), "--status-file", self._folder / "status.json", *arguments]
        return finished(command, cwd=self._folder, env=os.environ | {"PYTHONPATH": ""}, timeout=600)

    def errors(self, path, source):
        """Write a file, and return the resulting errors, each with the statement that contains it."""
        file = self._folder / path
        file.write_text(source, encoding="utf-8")
        now = next(self._times)
        os.utime(file, (now, now))  # mypy ignores a change within the same second if the size stays the same
        done = self.run("recheck")
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return [
            f"{text}\n{self._statement(*place)}"
            for *place, text in re.findall(r"^(\S+?):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
        ]

    def _statement(self, path, line):
        """Return the innermost statement at a line; for a function or a block, only its first line."""
        source = (self._folder / path).read_text(encoding="utf-8")
        nodes = [
            one
            for one in ast.walk(ast.parse(source))
            if isinstance(one, ast.stmt) and one.lineno <= int(line) <= one.end_lineno
        ]
        innermost = max(nodes, key=lambda one: (one.lineno, -one.end_lineno))
        text = ast.get_source_segment(source, innermost)
        return text.partition("\n")[0] if hasattr(innermost, "body") else text


@pytest.fixture(scope="module")
def checker(tmp_path_factory):
    folder = tmp_path_factory.mktemp("types")
    shutil.copytree(ROOT / "tmpmaild", folder / "tmpmaild", ignore=shutil.ignore_patterns("__pycache__", "web"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    checker = Checker(folder)
    try:
        assert checker.run("start", "--", "--config-file", "pyproject.toml", "--no-error-summary").returncode == 0
        done = checker.run("check", "tmpmaild")
        assert (done.stdout, done.returncode) == ("", 0)
        yield checker
    finally:
        checker.run("stop")


CASES = [
    *(("signatures", path, change) for path in (CONTRACT, *CALLERS, *CALLED) for change in (swapped,)),
    *(("signatures", CONTRACT, change) for change in (renamed, dropped)),
    *(("arguments", path, kind) for path in CALLERS for kind in ("swapped", "dropped")),
]
"""Renamed and dropped parameters are tried only in the contract: a function that uses them would not type-check."""


@pytest.mark.parametrize(
    ("what", "path", "change"),
    CASES,
    ids=[f"{path}-{what}-{getattr(change, '__name__', change)}" for what, path, change in CASES],
)
def test_one_sided_changes_are_detected(checker, figure, what, path, change):
    source = (ROOT / path).read_text(encoding="utf-8")
    changes = of_signatures(source, change) if what == "signatures" else of_arguments(source, change)
    tried, unnoticed = 0, []
    for round_ in zip_longest(*changes):
        made = sorted((one for one in round_ if one), key=lambda one: -one[2])
        text = source
        for _, _, begin, end, new in made:
            text = text[:begin] + new + text[end:]
        errors = checker.errors(path, text)
        tried += len(made)
        unnoticed += [what for name, what, *_ in made if not any(re.search(rf"\b{name}\b", error) for error in errors)]
    assert checker.errors(path, source) == []
    figure(
        f"{path}: {what} {getattr(change, '__name__', change)}", f"{tried - len(unnoticed)} of {tried} noticed", "all"
    )
    assert unnoticed == []
    assert tried
