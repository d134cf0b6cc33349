"""Runs pytest in separate folders and processes, so that the plugin is tested under realistic conditions."""

import os
import subprocess
import sys
from contextlib import closing
from functools import partial
from typing import NamedTuple

import pytest
from _pytest.config import default_plugins

import daemons
import warm

PLUGIN = "tmpmaild.pytest_plugin"
# Omit modules that are loaded as plugins, because pytest warns about them.
LOADED = [*(f"_pytest.{name}" for name in default_plugins), "tmpmaild.client", "trustme"]


class Run(NamedTuple):
    """A completed pytest run."""

    status: int
    text: str


def environment(python_path="", **more):
    """Return an environment in which pytest loads only the specified plugins, not all installed plugins."""
    path = os.pathsep.join(filter(None, [str(python_path), os.environ.get("PYTHONPATH")]))
    clean = {name: value for name, value in daemons.environment().items() if not name.startswith("PYTEST_")}
    return {**clean, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path, **more}


def options(*arguments, plugin=PLUGIN):
    return ["-p", plugin, "-p", "no:cacheprovider", "-W", "error", *arguments]


def run_pytest(folder, *arguments, tests=None, ini="", plugin=PLUGIN, **variables):
    """Run the tests, which are passed as text or exist in the folder.

    A ``python_path`` requires a fresh Python process.
    """
    (folder / "pytest.ini").write_text(f"[pytest]\naddopts = --import-mode=importlib --strict-config\n{ini}")
    if tests is not None:
        (folder / "test_it.py").write_text(tests)
    arguments = options(f"--basetemp={folder / 'temp'}", *arguments, plugin=plugin)
    given = {"cwd": folder, "env": environment(**variables), "timeout": 120}
    if "python_path" in variables:
        command = [sys.executable, "-m", "pytest", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **given)
    else:
        done = warm.run(arguments, module="pytest", loaded=LOADED, **given)
    return Run(done.returncode, done.stdout + done.stderr)


@pytest.fixture(scope="module")
def run_in():
    """Return the function that runs pytest in a folder."""
    return run_pytest


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """Return the options for a service that is already running, for runs that do not test the embedded daemon."""
    settings = {**daemons.NO_LIMITS, "TMPMAILD_SMTP__AUTH": "any", "TMPMAILD_SMTP__FAULTS": "true"}
    settings["TMPMAILD_SMTP__KEEP_REFUSALS"] = "true"
    with closing(daemons.Daemon(tmp_path_factory.mktemp("service"), **settings)) as daemon:
        yield (f"--tmpmaild-url={daemon.url}", f"--tmpmaild-smtp=127.0.0.1:{daemon.smtp_port}")


@pytest.fixture
def run(tmp_path):
    """Return a function that runs pytest in this test's folder."""
    return partial(run_pytest, tmp_path)


@pytest.fixture
def start_pytest(tmp_path):
    """Return a function that starts pytest and leaves it running."""
    started = []

    def start(tests, *arguments):
        (tmp_path / "test_it.py").write_text(tests)
        command = [sys.executable, "-m", "pytest", *options(f"--basetemp={tmp_path / 'temp'}", "-s", *arguments)]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        started.append(subprocess.Popen(command, cwd=tmp_path, env=environment(), process_group=0, **output))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
