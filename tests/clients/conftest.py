"""The TypeScript client, built once, and an empty npm project with the package from `npm pack`."""

import fcntl
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from daemons import environment, finished

CLIENT = Path(__file__).parents[2] / "clients/typescript"
EXAMPLES = Path(__file__).parents[1] / "examples/typescript"


def run(*command, cwd=CLIENT, status=0, **variables):
    """Run a command with our ``tmpmaild`` first in PATH; return its output.

    The test fails if the exit status is not ``status``.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = finished(
        command, cwd=cwd, env=environment(PATH=path, npm_config_update_notifier="false", **variables), timeout=300
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def node():
    """Return ``run``, if the TypeScript compiler is installed."""
    assert (CLIENT / "node_modules/typescript").exists(), "make test-peers installs it if npm is available"
    return run


@pytest.fixture(scope="session")
def client(node):
    """Build the client if necessary; return its folder."""
    with (CLIENT / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # all workers of pytest-xdist share the folder
        built = CLIENT / "dist/cjs/package.json"
        sources = [*CLIENT.glob("src/*.ts"), *CLIENT.glob("*.js*")]
        if not built.exists() or built.stat().st_mtime < max(path.stat().st_mtime for path in sources):
            shutil.rmtree(CLIENT / "dist", ignore_errors=True)
            node("npm", "run", "--silent", "build")
            built.touch()
    return CLIENT


@pytest.fixture(scope="session")
def project(node, client, tmp_path_factory, worker_id):
    """Return a folder with an npm project in which the packed package is installed; all workers share it."""
    own = tmp_path_factory.getbasetemp()
    folder = (own if worker_id == "master" else own.parent) / "project"
    with (CLIENT / "package-lock.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "node_modules/@types").exists():
            _install(folder, node, client)
    return folder


def _install(folder, node, client):
    folder.mkdir()
    (packed,) = json.loads(node("npm", "pack", "--json", "--ignore-scripts", "--pack-destination", str(folder)))
    node("npm", "init", "-y", cwd=folder)
    node("npm", "install", "--offline", "--no-audit", "--no-fund", f"./{packed['filename']}", cwd=folder)
    for name in ("@playwright", "undici-types", "@types"):
        (folder / "node_modules" / name).symlink_to(client / "node_modules" / name)


@pytest.fixture
def example(project, client, tmp_path):
    """Return a function that copies examples into a project for this test."""

    def copy(*names):
        shutil.copytree(project, tmp_path / "project", symlinks=True)
        for name in ("vitest", "vite"):
            (tmp_path / "project/node_modules" / name).symlink_to(client / "node_modules" / name)
        for name in names:
            shutil.copy(EXAMPLES / name, tmp_path / "project")
        return tmp_path / "project"

    return copy
