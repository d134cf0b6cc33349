"""Tests over the rows of a table: one test for all of them, where none changes what the next one finds.

A test of its own for each row, by ``parametrize``, takes a millisecond for nothing, and ten where a fixture opens a storage.
"""

import functools
import inspect
from contextlib import contextmanager
from pathlib import Path

import pytest


def rows_of(module):
    """Return the rows in the file of data beside a module, by the name of their table: a row is an expression of Python."""
    found = {}
    for line in Path(module).with_suffix(".txt").read_text().split("\n"):
        if line.startswith("## "):
            rows = found[line.removeprefix("## ")] = []
        elif line and not line.startswith("#"):
            rows.append(eval(line, {"__builtins__": {}}))
    return found


def table(names, rows):
    """Call the test with each row and the same fixtures; report every row that fails, with what it is. As ``parametrize``."""
    names = names if isinstance(names, tuple) else (names,)
    cases = [dict(zip(names, row if len(names) > 1 else (row,), strict=True)) for row in rows]
    assert cases

    def over(test):
        @functools.wraps(test)
        def run(**fixtures):
            with _failures(len(cases)) as failures:
                for case in cases:
                    with _noted(failures, case):
                        test(**fixtures, **case)

        @functools.wraps(test)
        async def run_async(**fixtures):
            with _failures(len(cases)) as failures:
                for case in cases:
                    with _noted(failures, case):
                        await test(**fixtures, **case)

        wrapper = run_async if inspect.iscoroutinefunction(test) else run
        wrapper.__signature__ = inspect.Signature(
            [one for one in inspect.signature(test).parameters.values() if one.name not in names]
        )
        return wrapper

    return over


@contextmanager
def _failures(count):
    failures = []
    yield failures
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {count} rows", failures)


@contextmanager
def _noted(failures, case):
    try:
        yield
    except (Exception, pytest.fail.Exception) as raised:  # noqa: BLE001 - as a test that fails by itself
        error = raised if isinstance(raised, Exception) else AssertionError(str(raised))  # pytest's is a BaseException
        error.add_note(f"row: {case!r:.300}")
        failures.append(error)
