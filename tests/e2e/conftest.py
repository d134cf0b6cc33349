"""The real process, on free ports, in a folder of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from typing import NamedTuple

import pytest

NO_LIMITS = {
    "TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE": "0",
    "TMPMAILD_ADDRESSES__MAX_MESSAGES": "0",
    "TMPMAILD_ADDRESSES__MAX_BYTES": str(1 << 40),
    "TMPMAILD_ADDRESSES__MAX_SHARE_PER_CLIENT": "1.0",
    "TMPMAILD_LIMITS__EXEMPT": "127.0.0.0/8",
}
FREE_PORTS = {"TMPMAILD_HTTP__LISTEN": "127.0.0.1:0", "TMPMAILD_SMTP__LISTEN": "127.0.0.1:0"}


class Answer(NamedTuple):
    status: int
    headers: dict
    json: dict


class Daemon:
    """One running ``tmpmaild serve``."""

    def __init__(self, folder, environ):
        self.folder = folder
        self.database = folder / "tmpmaild.db"
        with (folder / "stderr.txt").open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tmpmaild", "serve"],
                cwd=folder,
                env=environ,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self.banner = ""
        while "/messages" not in self.banner:
            line = self.process.stdout.readline()
            assert line, f"it did not start: {self.errors()}"
            self.banner += line
        self.http_port = int(re.search(r"HTTP on 127.0.0.1:(\d+)", self.banner)[1])
        self.smtp_port = int(re.search(r"SMTP on 127.0.0.1:(\d+)", self.banner)[1])

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http_port}"

    def request(self, path, method="GET", body=None, headers=()):
        request = urllib.request.Request(self.url + path, method=method, data=body, headers=dict(headers))
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return Answer(answer.status, dict(answer.headers), json.loads(answer.read()))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, dict(error.headers), json.loads(error.read()))

    def create(self):
        return self.request("/api/v1/addresses", "POST").json["address"]

    def messages(self, address, query=""):
        return self.request(f"/api/v1/addresses/{address}/messages{query}").json["messages"]

    def errors(self):
        return (self.folder / "stderr.txt").read_text()

    def stop(self, number=signal.SIGTERM, timeout=10):
        self.process.send_signal(number)
        return self.process.wait(timeout)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def environment(**settings):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TMPMAILD_")}
    return {**clean, "PYTHONWARNINGS": "error", **FREE_PORTS, **settings}


@pytest.fixture
def start(tmp_path):
    """Return a function that starts the daemon with settings from the environment."""
    daemons = []

    def start(folder=tmp_path, **settings):
        daemons.append(Daemon(folder, environment(**settings)))
        return daemons[-1]

    yield start
    for daemon in daemons:
        daemon.close()


@pytest.fixture(scope="module")
def start_in():
    """Return a function that starts a daemon without limits, for all tests of a module."""
    daemons = []

    def start(folder, **settings):
        daemons.append(Daemon(folder, environment(**NO_LIMITS, **settings)))
        return daemons[-1]

    yield start
    for daemon in daemons:
        daemon.close()


@pytest.fixture
def command(tmp_path):
    """Return a function that runs a command of tmpmaild to its end."""

    def run(*arguments, **settings):
        return subprocess.run(
            [sys.executable, "-m", "tmpmaild", *map(str, arguments)],
            cwd=tmp_path,
            env=environment(**settings),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def no_limits():
    return dict(NO_LIMITS)
