"""The oldest versions that pyproject.toml declares are enough: with these alone the plugin starts a daemon and gets its mail."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from daemons import finished

ROOT = Path(__file__).parents[2]


def oldest():
    """Return each dependency, and those of the client, at its minimum."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = map(Requirement, project["dependencies"] + project["optional-dependencies"]["client"])
    return [f"{one.name}=={bound.version}" for one in needed for bound in one.specifier if bound.operator == ">="]


def test_a_mail_comes_with_the_oldest_versions_that_are_declared(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    install = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*install, ROOT, "pytest", *oldest()], check=True)
    shutil.copy(ROOT / "tests/examples/pytest/test_welcome.py", tmp_path)
    done = finished([python, "-m", "pytest", "-q", "test_welcome.py"], cwd=tmp_path)
    assert "1 passed" in done.stdout, done.stdout[-4000:]
