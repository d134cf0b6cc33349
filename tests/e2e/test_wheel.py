"""What is installed from the built wheel has all it needs and serves."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Build the wheel without network and unpack it as pip would."""
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_carries_the_migrations_and_the_types(installed):
    assert sorted(path.name for path in (installed / "tmpmaild/migrations").iterdir()) == sorted(
        path.name for path in (ROOT / "migrations").iterdir()
    )
    assert (installed / "tmpmaild/py.typed").exists()
    assert not (installed / "tests").exists()


def test_the_wheel_serves(installed, tmp_path, start):
    python_path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    where = subprocess.run(
        [sys.executable, "-c", "import tmpmaild; print(tmpmaild.__file__)"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": python_path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(installed))
    daemon = start(PYTHONPATH=python_path)
    assert daemon.create().endswith("@tmpmaild.example")
    assert daemon.stop() == 0
