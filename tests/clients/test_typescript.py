"""The TypeScript client: its own tests, its types, its packed npm package, and the termination of its daemons."""

import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from daemons import environment
from tmpmaild import __version__
from tmpmaild.http.app import describe_api

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients/typescript"

# Prints the process id of the daemon, then runs a long test.
KILLED = Path(__file__).with_name("typescript-killed.mjs").read_text()
ESM = Path(__file__).with_name("typescript-esm.ts").read_text()
COMMONJS = Path(__file__).with_name("typescript-commonjs.ts").read_text()
TSCONFIG = Path(__file__).with_name("typescript-tsconfig.json").read_text()


def test_the_types_match_our_description():
    spec = importlib.util.spec_from_file_location("typescript_types", ROOT / "tools/typescript_types.py")
    types = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(types)
    described = types.source(json.loads(describe_api()))
    assert types.TARGET.read_text() == described, "stale: run `python tools/stable.py`"


def test_the_versions_match_and_the_lock_file_has_hashes_and_no_mirror():
    package, lock = (json.loads((CLIENT / name).read_text()) for name in ("package.json", "package-lock.json"))
    assert package["version"] == lock["version"] == __version__
    assert "dependencies" not in package
    locked = [one for name, one in lock["packages"].items() if name]
    assert len(locked) > 50
    assert [one for one in locked if "integrity" not in one] == []
    named = {name.rpartition("node_modules/")[2] for name in lock["packages"]}
    optional = {name for one in locked for name in one.get("optionalDependencies", {})}
    assert optional - named == set(), "npm ci requires the packages of all platforms, even where npm install does not"
    places = [one["resolved"] for one in locked if "resolved" in one]
    assert [place for place in places if not place.startswith("https://registry.npmjs.org/")] == []


def test_its_own_tests_pass(node, client):
    node("node", "--test", *sorted(map(str, client.glob("test/*.test.mjs"))))


def test_a_killed_node_stops_its_daemon(client, tmp_path):
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules/tmpmaild").symlink_to(client)
    script = tmp_path / "killed.mjs"
    script.write_text(KILLED)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environ = environment(PATH=path, TMPDIR=str(tmp_path))
    with subprocess.Popen(["node", script], env=environ, stdout=subprocess.PIPE) as process:
        daemon = os.pidfd_open(int(process.stdout.readline()))
        process.send_signal(signal.SIGKILL)
        assert select.select([daemon], [], [], 30)[0], "the daemon is still running"
        assert list(tmp_path.glob("tmpmaild-*")) == []
        os.close(daemon)


def test_the_package_works_in_an_empty_project_with_import_and_with_require(node, client, example):
    project = example()
    installed = project / "node_modules/tmpmaild"
    names = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    assert {name for name in names if not name.startswith("dist/")} == {"package.json", "README.md", "LICENSE"}
    assert {Path(name).suffix for name in names if name.startswith("dist/")} == {".js", ".ts", ".json"}
    (project / "esm.mts").write_text(ESM)
    (project / "commonjs.cts").write_text(COMMONJS)
    (project / "tsconfig.json").write_text(TSCONFIG)
    node("node", str(client / "node_modules/typescript/bin/tsc"), cwd=project)
    assert node("node", "esm.mjs", cwd=project) == "mail.example.com number true 0\n"
    assert node("node", "commonjs.cjs", cwd=project) == "true 1 function\n"
