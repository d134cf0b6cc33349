"""Mutates ten modules with one small change at a time, and counts how often the tests detect the change.

It uses those mutations from Cosmic Ray that resemble human mistakes: an off-by-one error, a similar comparison
operator, an additional ``not``. Cosmic Ray's own runner cannot sample mutations, and has only one test command for all
modules. The sample depends on the text of the lines, so changes to a module hardly affect it, and changes to the tests
do not affect it. All tests run in a copy of the checkout.

make proof WHAT=mutants                             all ten modules, in about an hour
.venv/bin/python tools/mutants.py --each 10 mime    ten mutations of one module
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT: Final = Path(__file__).parents[1]
MODULES: Final = {
    "smtp/conversation": ("smtp/test_conversation*",),
    "inboxes/reading": ("inboxes/test_reading*", "inboxes/test_service*", "inboxes/test_caches*"),
    "storage/rows": ("storage/test_rows*", "storage/test_contract*"),
    "storage/sqlite/operations": ("storage/test_contract*", "storage/test_sweeping*", "storage/test_writer_changing*"),
    "webhooks/schedule": ("webhooks/test_schedule*", "webhooks/test_dispatcher*"),
    "http/validation": ("http/test_validation*", "http/test_requests*", "http/test_addresses*", "http/test_messages*"),
    "findings/lines": ("findings/test_lines*", "findings/test_codes*"),
    "findings/naming": ("findings/test_naming*", "findings/test_codes*"),
    "findings/scoring": ("findings/test_scoring*", "findings/test_codes*"),
    "mail/mime": ("mail/test_mime*",),
}
"""The modules, each with its tests."""
_ALWAYS: Final = (
    *("AddNot", "ExceptionReplacer", "NumberReplacer", "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceFalseWithTrue"),
    *("ReplaceTrueWithFalse", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ZeroIterationForLoop"),
)
_PAIRS: Final = (
    *(
        "Add_Sub",
        "Sub_Add",
        "Mul_FloorDiv",
        "FloorDiv_Mul",
        "Div_Mul",
        "Mod_FloorDiv",
        "LShift_RShift",
        "RShift_LShift",
    ),
    *("BitAnd_BitOr", "Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is"),
)
_IN_SIGNATURE: Final = ("parameters", "param", "argument")
_NOT_COPIED: Final = shutil.ignore_patterns(".*", "node_modules", "build", "dist", "__pycache__")
_PATIENCE_SECONDS: Final = 120


class Mutant(NamedTuple):
    """One change: its operator, its line, and the index of its place among all places where the operator applies."""

    rank: str
    operator: str
    occurrence: int
    line: int


def mutants(source: str, seed: str) -> list[Mutant]:
    """Return possible changes to a module in pseudorandom order, with at most one change of each kind per place."""
    lines, nodes, chosen = source.splitlines(), list(ast_nodes(get_ast(source))), dict[tuple[object, str], Mutant]()
    for name in sorted(operator_names()):
        kind, _, pair = name.partition("/")[2].partition("_")
        if kind not in _ALWAYS and pair not in _PAIRS:
            continue
        places = ((node, *place) for node in nodes for place in get_operator(name)().mutation_positions(node))
        for occurrence, (node, start, end) in enumerate(places):
            text = "\n".join(lines[start[0] - 2 : start[0] + 1])
            rank = hashlib.sha256(f"{seed} {name} {start[1]} {text}".encode()).hexdigest()
            mutant = Mutant(rank, name, occurrence, start[0])
            if node.parent is None or node.parent.type not in _IN_SIGNATURE:
                chosen[(start, end), kind] = min(chosen.get(((start, end), kind), mutant), mutant)
    return sorted(chosen.values())


def changed(source: str, mutant: Mutant) -> str:
    """Return the source with a change applied."""
    text: str = mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence)
    return text


def outcomes(module: str, folder: Path, each: int, seed: str) -> Iterator[tuple[Mutant, bool]]:
    """Yield changes to a module, and for each whether the tests fail after the change in a copy of the checkout."""
    path = folder / "tmpmaild" / f"{module}.py"
    tests = [str(test) for pattern in MODULES[module] for test in sorted((folder / "tests").glob(f"{pattern}.py"))]
    source, begun = path.read_text("utf-8"), time.monotonic()
    if _fail(tests, folder, _PATIENCE_SECONDS):
        sys.exit(f"the tests of {module} fail without any change")
    patience = 10 + 3 * (time.monotonic() - begun)
    for mutant in mutants(source, seed)[:each]:
        path.write_text(changed(source, mutant), encoding="utf-8")
        yield mutant, _fail(tests, folder, patience)
    path.write_text(source, encoding="utf-8")


def _fail(tests: list[str], folder: Path, patience_seconds: float) -> bool:
    command = [sys.executable, "-m", "pytest", "-n0", "-qx", "--hypothesis-seed=0", "-m", "not needs", *tests]
    given: Any = {"cwd": folder, "env": os.environ | {"PYTHONPATH": str(folder)}, "timeout": patience_seconds}
    try:
        run = subprocess.run(command, capture_output=True, check=False, **given)  # noqa: S603 - no untrusted input
    except subprocess.TimeoutExpired:
        return True
    return run.returncode != 0


def main() -> None:
    """Print a line for each module and for each change that no test detected."""
    parser = argparse.ArgumentParser(description="Count how many small mutations the tests detect.")
    parser.add_argument("modules", nargs="*", help="parts of module names; by default all modules")
    parser.add_argument("--each", type=int, default=52, help="mutations of each module")
    parser.add_argument("--seed", default="1", help="a different seed selects different mutations")
    given = parser.parse_args()
    survivors = []
    sys.stdout.write("| module | mutants | killed | survived |\n|---|---|---|---|\n")
    with tempfile.TemporaryDirectory() as place:
        folder = shutil.copytree(ROOT, Path(place, "copy"), ignore=_NOT_COPIED)
        for module in (one for one in MODULES if not given.modules or any(part in one for part in given.modules)):
            lines = (folder / "tmpmaild" / f"{module}.py").read_text("utf-8").splitlines()
            found = list(outcomes(module, folder, given.each, given.seed))
            alive = [mutant for mutant, is_killed in found if not is_killed]
            survivors += [f"{module}.py:{one.line} {one.operator}: {lines[one.line - 1].strip()}" for one in alive]
            sys.stdout.write(f"| {module} | {len(found)} | {len(found) - len(alive)} | {len(alive)} |\n")
            sys.stdout.flush()
    sys.stdout.write("".join(f"{one}\n" for one in survivors))


if __name__ == "__main__":
    main()
