"""Every regular expression that third-party input can reach takes linear time for any input."""

import ast
import re
import runpy
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from badinputs import bad_inputs

import tmpmaild
from growth import TIMES, assert_linear, cpu_seconds

PACKAGE = Path(tmpmaild.__file__).parent
# These expressions match input from the operator or from ourselves.
OURS = {"bundling.py", "databaseurl.py", "embedded.py", "openapi.py"}
NOT_OF_STRANGERS = {"cli", "config", "host", "storage", *OURS}
PATHS = [path for path in sorted(PACKAGE.rglob("*.py")) if NOT_OF_STRANGERS.isdisjoint(path.relative_to(PACKAGE).parts)]
USES = {"match", "fullmatch", "search", "findall", "finditer", "sub", "subn", "split"}
MADE_LATER = {"app.py", "waiting.py"}  # compiled at run time, from our routes or from a tester's pattern
CHARACTERS = 2000
QUICK_SECONDS = 0.001  # a quadratic expression takes at least three times as long
MOST_LOOKED_AT = 3


class Made(NamedTuple):
    place: str
    expression: re.Pattern
    uses: frozenset[str]


@cache
def nodes(path):
    """Return all AST nodes of a module."""
    return list(ast.walk(ast.parse(path.read_text())))


@cache
def calls(path):
    """Return the calls in a module that compile expressions."""
    attributes = [node for node in nodes(path) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    named = [node for node in attributes if node.func.attr in {"compile", *USES}]
    return [node for node in named if ast.unparse(node.func.value) == "re"]


@cache
def uses():
    """Return the methods called on each name in the package, as if it were an expression."""
    found = {}
    for path in PATHS:
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in USES:
                found.setdefault(node.value.id, set()).add(node.attr)
    return found


def uses_of(path, line):
    """Return the methods called on the expression that a line compiles, or all methods if this is unclear."""
    for node in nodes(path):
        if isinstance(node, ast.Assign) and node.lineno <= line <= node.end_lineno:
            if isinstance(node.value, ast.Attribute):
                return {node.value.attr}
            if isinstance(node.value, ast.Call):
                return uses().get(getattr(node.targets[0], "id", ""), USES)
    return USES


@cache
def made():
    """Return the expressions of these modules, which are executed again with a ``compile`` that records them."""
    seen, compile_ = [], re.compile

    def noting(pattern, flags=0):
        caller = sys._getframe(1)
        seen.append((Path(caller.f_code.co_filename), caller.f_lineno, compile_(pattern, flags)))
        return seen[-1][-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(re, "compile", noting)
        for path in PATHS:
            if calls(path) or path.name == "cues.py":  # lexicon.py compiles the words of cues.py
                runpy.run_path(str(path), run_name="noted")
    seen += [
        (path, call.lineno, compile_(call.args[0].value))
        for path in PATHS
        for call in calls(path)
        if call.func.attr != "compile" and isinstance(call.args[0], ast.Constant)
    ]
    return [
        Made(f"{path.name}:{line}", expression, frozenset(uses_of(path, line)))
        for path, line, expression in dict.fromkeys(seen)
        if path in PATHS
    ]


def test_every_call_that_compiles_an_expression_was_recorded():
    """Otherwise the next test would miss the expressions that are compiled there."""
    seen = {one.place for one in made()}
    unseen = {
        f"{path.name}:{call.lineno}"
        for path in PATHS
        for call in calls(path)
        if path.name not in MADE_LATER
        and not any(f"{path.name}:{line}" in seen for line in range(call.lineno, call.end_lineno + 1))
    }
    assert unseen == set()


@pytest.mark.parametrize("name", [path.name for path in PATHS if re.search(r"\bre\.[a-z]+\(", path.read_text())])
def test_expressions_take_linear_time(name):
    for one in made():
        if one.place.startswith(f"{name}:"):
            for work in works(one):
                assert_all_linear(work, bad_inputs(one.expression))


def assert_all_linear(work, inputs):
    """Measure the slowest inputs again, if a quadratic expression could be the reason."""
    taken = sorted(((cpu_seconds(work, bad.text(CHARACTERS)), bad) for bad in inputs), reverse=True)
    for seconds, bad in taken[:MOST_LOOKED_AT]:
        if seconds > QUICK_SECONDS:
            assert_linear(lambda size, bad=bad: work(bad.text(len(size))), range(TIMES * CHARACTERS))


def works(one):
    """Yield the ways in which an expression is used: as a full match, from one position, or from every position."""

    def fitting(text):
        return text if isinstance(one.expression.pattern, str) else text.encode("latin-1", "replace")

    if "fullmatch" in one.uses:
        yield lambda text: one.expression.fullmatch(fitting(text))
    if "match" in one.uses:
        yield lambda text: one.expression.match(fitting(text))
    if one.uses - {"match", "fullmatch"}:
        yield lambda text: one.expression.subn(fitting(""), fitting(text))
