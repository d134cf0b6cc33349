"""What is installed from the built wheel has all it needs and serves; the sdist gives the same wheel."""

import os
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cold, pytest.mark.proof]

ROOT = Path(__file__).parents[2]


def built(kind, source, folder):
    """Build a wheel or an sdist without network; return the file."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel):
    """Unpack the wheel as pip would."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(wheel.parent / "site")
    return wheel.parent / "site"


def test_the_sdist_has_what_tests_need_and_gives_the_same_wheel(wheel, tmp_path):
    subprocess.run(["tar", "-xf", built("sdist", ROOT, tmp_path), "-C", tmp_path], check=True)
    (source,) = tmp_path.glob("tmpmaild-*/")
    assert all((source / name).exists() for name in ("tests/conftest.py", "constraints.txt", "Makefile", "systemd"))
    with zipfile.ZipFile(built("wheel", source, tmp_path)) as again, zipfile.ZipFile(wheel) as first:
        assert {(one.filename, one.CRC) for one in again.infolist()} == {
            (one.filename, one.CRC) for one in first.infolist()
        }


def test_the_metadata_says_what_an_index_shows(installed):
    (path,) = installed.glob("*.dist-info/METADATA")
    about = message_from_string(path.read_text())
    assert about["License-Expression"] == "MIT"
    assert about["Description-Content-Type"] == "text/markdown"
    assert about.get_payload().startswith("# tmpmaild")
    assert {one.split(",")[0] for one in about.get_all("Project-URL")} >= {"Homepage", "Documentation", "Changelog"}
    assert (path.parent / "licenses/LICENSE").exists()


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
    assert daemon.create().endswith("@mail.example.com")
    assert daemon.stop() == 0
