"""The tests pass with an installed wheel that was built from the sdist, and no other tmpmaild can be imported."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from email import message_from_string
from pathlib import Path

import pytest

from daemons import finished

ROOT = Path(__file__).parents[2]
# This test builds a wheel itself, from sources that are missing in the copy.
BUILDING = ("tests/storage/test_opening.py::test_a_wheel_carries_the_migrations",)


@pytest.fixture
def copy(tmp_path):
    """Return a copy of the repository in which ``tmpmaild/`` contains the installed package."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path], cwd=ROOT, check=True)
    (sdist,) = tmp_path.glob("*.tar.gz")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path, sdist], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([*pip, "--python", tmp_path / "venv", "install", "--no-deps", wheel], check=True)
    (site,) = tmp_path.glob("venv/lib/python3.*/site-packages")
    # The tests' dependencies are already installed in this environment. Python searches the paths in a .pth file but
    # reads no .pth files in them, so the checkout cannot be imported.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    (tmp_path / "copy").mkdir()
    files = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "--exclude=tmpmaild", "-C", tmp_path / "copy"], input=files, check=True)
    # The link is in site-packages, because tests that list the files of the repository do not follow links.
    shutil.move(site / "tmpmaild", tmp_path / "copy/tmpmaild")
    (site / "tmpmaild").symlink_to(tmp_path / "copy/tmpmaild")
    for command in (["init", "--quiet"], ["add", "--all"]):  # for tests that run "git ls-files"
        subprocess.run(["git", *command], cwd=tmp_path / "copy", check=True)
    script = tmp_path / "venv/bin/pytest"  # pip creates such a script next to the interpreter
    script.write_text(f"#!{tmp_path}/venv/bin/python\nimport sys\n\nimport pytest\n\nsys.exit(pytest.main())\n")
    script.chmod(0o755)
    return tmp_path / "copy"


def test_the_wheel_contains_types_and_metadata_but_no_tests(copy):
    (site,) = copy.parent.glob("venv/lib/python3.*/site-packages")
    (described,) = site.glob("tmpmaild-*.dist-info")
    about = message_from_string((described / "METADATA").read_text())
    assert (about["License-Expression"], about["Description-Content-Type"]) == ("MIT", "text/markdown")
    assert about.get_payload().startswith("# tmpmaild")
    assert {one.split(",")[0] for one in about.get_all("Project-URL")} >= {"Homepage", "Documentation", "Changelog"}
    assert (described / "licenses/LICENSE").exists()
    assert (site / "tmpmaild/py.typed").exists()
    assert not (site / "tests").exists()


def test_the_tests_pass_with_the_installed_wheel(copy, amount, figure):
    whole, some = ["-m", "not needs"], ["tests/http/test_files_web.py"]
    python = copy.parent / "venv/bin/python"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    where = finished([python, "-c", "import tmpmaild; print(tmpmaild.__file__)"], cwd="/", check=True)
    assert where.stdout.startswith(str(copy.parent))
    # -P keeps the current folder out of sys.path.
    done = finished(
        [python, "-P", "-m", "pytest", "-q", *amount(whole, some), *map("--deselect={}".format, BUILDING)],
        cwd=copy,
        env=clean,
        timeout=3600,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    figure(
        "the tests with what a wheel from the sdist installs", re.search(r"\d+ passed.*", done.stdout)[0], "0 failed"
    )
