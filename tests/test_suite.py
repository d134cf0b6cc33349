"""The test suite itself: its measurement of growth, its marks, its scripts, and the programs that it needs."""

import re
import subprocess
from pathlib import Path

import pytest

import covered
from daemons import finished
from growth import assert_linear
from scripts import scripts_of

ROOT = Path(__file__).parents[1]


def test_work_that_grows_faster_than_its_data_is_detected():
    def linear(data):
        sum(data)

    def quadratic(data):
        for _ in range(len(data) // 100):
            sum(data)

    assert_linear(linear, range(100_000))
    with pytest.raises(AssertionError, match="s of CPU"):
        assert_linear(quadratic, range(20_000))


def test_test_modules_do_not_search_for_programs_themselves():
    modules = [path for path in (ROOT / "tests").rglob("*.py") if path.name.startswith(("test_", "conftest"))]
    words = ("shutil" + ".which", "Debian" + " package")
    own = [path for path in modules if any(word in path.read_text() for word in words)]
    assert [path for path in own if "examples" not in path.parts] == []


def test_the_marks_that_commands_select_tests_with_exist(pytestconfig):
    marks = {line.partition(":")[0].partition("(")[0] for line in pytestconfig.getini("markers")}
    chosen = [*re.findall(r'-m "([a-z_ ]+)"', (ROOT / "Makefile").read_text()), *covered.KINDS]
    assert {word for one in chosen for word in one.split()} - {"not", "and", "or"} <= marks
    assert len(chosen) > len(covered.KINDS)


def scripts():
    return subprocess.check_output(["git", "ls-files", "tests/*.mjs"], cwd=ROOT, text=True).split()


@pytest.mark.needs("node")
def test_the_scripts_of_the_tests_are_valid():
    found = scripts()
    compile_each = """
        const { SourceTextModule } = require("node:vm"), { readFileSync } = require("node:fs");
        for (const name of process.argv.slice(1)) new SourceTextModule(readFileSync(name, "utf8"), { identifier: name });
    """
    done = finished(["node", "--experimental-vm-modules", "--no-warnings", "--eval", compile_each, *found], cwd=ROOT)
    assert (len(found) > 20, done.returncode) == (True, 0), done.stderr


def test_every_export_of_a_script_is_found():
    for script in map(ROOT.joinpath, scripts()):
        if exported := re.findall(r"^export const (\w+)", script.read_text(), re.MULTILINE):
            assert [*scripts_of(script)] == exported
