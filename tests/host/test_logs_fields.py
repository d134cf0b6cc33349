"""The fields of JSON log lines: the code passes exactly the fields that docs/operations.md documents."""

import ast
import json
import logging
import re
from pathlib import Path

import pytest

from tmpmaild.host.logs import FIELDS, JsonFormatter

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/operations.md").read_text(encoding="utf-8").partition("### JSON\n")[2].partition("\n### ")[0]
METHODS = ("debug", "info", "warning", "error", "exception", "critical", "log")


def written(**passed):
    record = logging.LogRecord("tmpmaild.x", logging.INFO, "x", 1, "it %s", ("failed",), None)
    vars(record).update(passed)
    return json.loads(JsonFormatter().format(record))


def dicts(function, value):
    """Return the dict literals in a function that ``extra=value`` may refer to."""
    if isinstance(value, ast.Dict):
        return [value]
    assigned = [one for one in ast.walk(function) if isinstance(one, ast.Assign)]
    return [one.value for one in assigned if ast.unparse(one.targets[0]) == ast.unparse(value)]


def passed():
    """Yield the location, the name and the expression of each field that the code passes to a logger."""
    for path in sorted(ROOT.glob("tmpmaild/**/*.py")):
        functions = [
            one
            for one in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        for function in functions:
            for call in ast.walk(function):
                if not (isinstance(call, ast.Call) and getattr(call.func, "attr", "") in METHODS):
                    continue
                for keyword in call.keywords:
                    if keyword.arg != "extra":
                        continue
                    place = f"{path.relative_to(ROOT)}:{call.lineno}"
                    found = [one for one in dicts(function, keyword.value) if isinstance(one, ast.Dict)]
                    assert found, f"{place}: write extra as a dict literal, so that this test can read it"
                    for one in found:
                        for key, value in zip(one.keys, one.values, strict=True):
                            yield place, ast.literal_eval(key), value


PASSED = list(passed())


def test_every_field_that_the_code_passes_to_a_logger_is_known_to_the_json_format():
    """``about`` is not written to the log, because it only identifies repetitions of the same event."""
    assert [f"{place}: {name}" for place, name, _ in PASSED if name not in (*FIELDS, "about")] == []


def test_no_documented_field_is_unused():
    assert set(FIELDS) - {name for _, name, _ in PASSED} == set()


def test_the_table_on_the_page_lists_exactly_the_possible_fields():
    cells = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    documented = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    line = written(**dict.fromkeys(FIELDS, "x"), exc_text="why", repeated=2)
    assert documented == set(line)


def test_the_page_lists_exactly_the_events_that_the_code_passes():
    events = {ast.literal_eval(value) for _, name, value in PASSED if name == "event"}
    listed = PAGE.partition("Values of `event`:")[2].partition("Other lines")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == events


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_without_a_value_is_omitted(name):
    assert name not in written()
    assert name not in written(**{name: ""})
    assert written(**{name: 0})[name] == 0


def test_a_field_is_escaped_like_the_message_and_keeps_its_type():
    line = written(path="/api/\udcff", status=404, milliseconds=1.5, about="unseen")
    assert (line["path"], line["status"], line["milliseconds"]) == ("/api/\\udcff", 404, 1.5)
    assert "about" not in line
