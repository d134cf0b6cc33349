"""The minimum versions in pyproject.toml suffice: with these, the plugin starts a daemon and reads its mail."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from daemons import finished

ROOT = Path(__file__).parents[2]


def oldest():
    """Return each dependency, including those of the client, at its minimum version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = map(Requirement, project["dependencies"] + project["optional-dependencies"]["client"])
    return [f"{one.name}=={bound.version}" for one in needed for bound in one.specifier if bound.operator == ">="]


def test_a_message_arrives_with_the_oldest_declared_versions(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    install = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*install, ROOT, "pytest", *oldest()], check=True)
    shutil.copy(ROOT / "tests/examples/pytest/test_welcome.py", tmp_path)
    done = finished([python, "-m", "pytest", "-q", "test_welcome.py"], cwd=tmp_path)
    assert "1 passed" in done.stdout, done.stdout[-4000:]
