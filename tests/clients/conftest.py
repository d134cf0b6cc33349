"""The TypeScript client, built once, and an empty project of npm with what `npm pack` makes of it."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from daemons import environment

CLIENT = Path(__file__).parents[2] / "clients/typescript"


def run(*command, cwd=CLIENT, status=0, **variables):
    """Run a command with our ``tmpmaild`` first in PATH; return what it printed. Another status fails the test."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment(PATH=path, npm_config_update_notifier="false", **variables),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def node():
    """Return the function that runs a command; skip where node, npm or what the client is built with is missing."""
    for program in ("node", "npm"):
        if not shutil.which(program):
            pytest.skip(f"needs {program} (Debian packages nodejs and npm)")
    if not (CLIENT / "node_modules/typescript").exists():
        pytest.skip("needs what the TypeScript client is built with (npm ci in clients/typescript)")
    return run


@pytest.fixture(scope="session")
def client(node):
    """Build the client, unless that is done; return its folder."""
    with (CLIENT / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the workers of pytest-xdist share the folder
        built = CLIENT / "dist/cjs/package.json"
        sources = [*CLIENT.glob("src/*.ts"), *CLIENT.glob("*.js*")]
        if not built.exists() or built.stat().st_mtime < max(path.stat().st_mtime for path in sources):
            shutil.rmtree(CLIENT / "dist", ignore_errors=True)
            node("npm", "run", "--silent", "build")
            built.touch()
    return CLIENT


@pytest.fixture(scope="session")
def project(node, client, tmp_path_factory):
    """Return a folder where ``npm init`` was run, and the package installed as it is published."""
    folder = tmp_path_factory.mktemp("project")
    (packed,) = json.loads(node("npm", "pack", "--json", "--ignore-scripts", "--pack-destination", str(folder)))
    node("npm", "init", "-y", cwd=folder)
    node("npm", "install", "--offline", "--no-audit", "--no-fund", f"./{packed['filename']}", cwd=folder)
    for name in ("@playwright", "@types", "undici-types"):
        (folder / "node_modules" / name).symlink_to(client / "node_modules" / name)
    return folder
