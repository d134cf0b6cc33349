"""The real daemon in its own process, on free ports, isolated from the caller's environment."""

import json
import os
import re
import signal
import smtplib
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from patience import PATIENCE_SECONDS
from warm import Program

FREE_PORTS = {"TMPMAILD_HTTP__LISTEN": "127.0.0.1:0", "TMPMAILD_SMTP__LISTEN": "127.0.0.1:0"}
NO_LIMITS = {
    "TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE": "0",
    "TMPMAILD_ADDRESSES__MAX_MESSAGES": "0",
    "TMPMAILD_ADDRESSES__MAX_BYTES": str(1 << 40),
    "TMPMAILD_ADDRESSES__MAX_SHARE_PER_CLIENT": "1.0",
    "TMPMAILD_LIMITS__EXEMPT": "127.0.0.0/8",
}
# Variables set by a shell, a terminal or a CI system that change the behaviour of programs.
FOREIGN = {
    *("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLORTERM", "PY_COLORS"),
    *("ARGS", "QUICK"),  # variables that make exports to its commands
    *("TERM", "LANG", "LANGUAGE", "PYTHONUNBUFFERED", "PYTHONWARNINGS", "PYTHONDONTWRITEBYTECODE"),
}
# Variables that systemd sets for its services.
OF_SYSTEMD = (
    *("NOTIFY_SOCKET", "LISTEN_", "WATCHDOG_", "JOURNAL_STREAM", "INVOCATION_ID", "CREDENTIALS_DIRECTORY"),
    *("RUNTIME_DIRECTORY", "STATE_DIRECTORY", "CACHE_DIRECTORY", "LOGS_DIRECTORY", "CONFIGURATION_DIRECTORY"),
)
# Passes sockets to a service, as systemd does between fork and exec.
ACTIVATE = Path(__file__).with_name("daemons_activate.py")
KNOWN = {"TERM": "xterm", "LANG": "C.UTF-8"}
_listening = re.compile(r"HTTP on 127\.0\.0\.1:(\d+)[;\s]+SMTP on 127\.0\.0\.1:(\d+)").search


def is_foreign(name):
    return name in FOREIGN or name.startswith(("TMPMAILD_", "LC_", "MAKE", "MFLAGS", *OF_SYSTEMD))


def environment(**settings):
    """Return the environment for a child process, without the caller's settings and with warnings as errors."""
    clean = {name: value for name, value in os.environ.items() if not is_foreign(name)}
    return {**clean, **KNOWN, "PYTHONWARNINGS": "error", "PYTHONWARNDEFAULTENCODING": "1", **settings}


def finished(command, *, check=False, timeout=600, **given):
    """Run a command to completion; return its exit code and its output as text."""
    return subprocess.run(command, capture_output=True, text=True, check=check, timeout=timeout, **given)


def wait_until(condition, seconds=PATIENCE_SECONDS):
    """Poll until a condition is true; return its value."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "the condition is still false"
        time.sleep(0.01)
    return found


class Answer(NamedTuple):
    status: int
    headers: dict
    json: dict


class Daemon:
    """A ``tmpmaild serve`` process; after a restart it has the same ports and the same folder."""

    def __init__(self, folder, *, listeners=None, tracer=(), is_warm=True, **settings):
        """Start the daemon; ``listeners`` are named sockets, passed in the same way as by systemd.

        ``tracer`` is a command that runs the daemon as our direct child. Without a tracer, the daemon is forked from a
        Python process that has already imported it. With ``is_warm=False``, the daemon starts as a new process, for
        tests of startup and of memory use.
        """
        self._is_warm = is_warm and not tracer
        self.folder = Path(folder)
        self._tracer = tracer
        self._listeners = listeners or {}
        self.database = self.folder / "tmpmaild.db"
        self._environ = environment(**{**FREE_PORTS, **settings})
        self.start()

    def start(self):
        with (self.folder / "stderr.txt").open("ab") as stderr:
            begun = stderr.tell()
            if self._is_warm:
                given = {"env": self._environ, "stderr": stderr.fileno(), "listeners": self._listeners}
                self.process = Program(["serve"], cwd=self.folder, text=True, **given)
            else:
                self.process = self._started_cold(stderr)
        self.banner = self._logged_banner(begun) if self.setting("LOG__FORMAT") == "json" else self._printed_banner()
        self.http_port, self.smtp_port = map(int, _listening(self.banner).groups())
        self._environ["TMPMAILD_HTTP__LISTEN"] = f"127.0.0.1:{self.http_port}"
        self._environ["TMPMAILD_SMTP__LISTEN"] = f"127.0.0.1:{self.smtp_port}"

    def _printed_banner(self):
        printed = ""
        while "/messages" not in printed:
            line = self.process.stdout.readline()
            assert line, f"it did not start: {self.errors()}"
            printed += line
        return printed

    def _logged_banner(self, begun):
        """Return the log output since the start, once the daemon is serving; with JSON logs, there is no banner."""
        logged = wait_until(lambda: _listening(self.log()[begun:]) or self.process.poll() is not None)
        assert logged is not True, f"it did not start: {self.errors()}"
        return self.log()[begun:]

    def _started_cold(self, stderr):
        return subprocess.Popen(
            [*self._tracer, *self._command()],
            cwd=self.folder,
            env=self._environ,
            pass_fds=[listener.fileno() for listener in self._listeners.values()],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    def _command(self):
        command = [sys.executable, "-m", "tmpmaild", "serve"]
        if not self._listeners:
            return command
        descriptors = ",".join(str(listener.fileno()) for listener in self._listeners.values())
        return [sys.executable, ACTIVATE, descriptors, ":".join(self._listeners), *command]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http_port}"

    def setting(self, name):
        """Return a setting from the environment, such as ``STORAGE__URL``; "" if it is not set."""
        return self._environ.get(f"TMPMAILD_{name}", "")

    def log(self):
        """Return everything written to standard error so far."""
        return (self.folder / "stderr.txt").read_text()

    def errors(self):
        """Return the log without INFO lines."""
        lines = self.log().splitlines(keepends=True)
        return "".join(line for line in lines if " INFO tmpmaild." not in line)

    def memory_mib(self, what):
        """Return the current (``VmRSS``) or peak (``VmHWM``) memory usage."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(re.search(rf"{what}:\s+(\d+) kB", status)[1]) / 1024

    def stop(self, number=signal.SIGTERM, timeout=PATIENCE_SECONDS):
        """Stop the daemon with a signal; return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(timeout)
        self.process.stdout.close()
        return code

    def restart(self):
        assert self.stop() == 0
        self.start()

    def request(self, path, method="GET", body=None, headers=()):
        """Send an HTTP request; a dict is sent as JSON."""
        if isinstance(body, dict):
            body, headers = json.dumps(body).encode(), {"Content-Type": "application/json", **dict(headers)}
        request = urllib.request.Request(self.url + path, method=method, data=body, headers=dict(headers))
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                return Answer(answer.status, dict(answer.headers), json.loads(answer.read() or b"null"))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, dict(error.headers), json.loads(error.read()))

    def create(self):
        return self.request("/api/v1/addresses", "POST").json["address"]

    def messages(self, address, query=""):
        return self.request(f"/api/v1/addresses/{address}/messages{query}").json["messages"]

    def smtp(self, **options):
        """Return a connected ``smtplib`` client."""
        given = {"local_hostname": "localhost", "timeout": PATIENCE_SECONDS, **options}
        return smtplib.SMTP("127.0.0.1", self.smtp_port, **given)

    def deliver_raw(self, address, *mails, sender="alice@example.com"):
        """Send messages unchanged, in one session."""
        with self.smtp() as client:
            for octets in mails:
                client.sendmail(sender, [address], octets)

    def close(self):
        """Kill the daemon if it is running; under make coverage, stop it cleanly, so that its coverage is saved."""
        if "COVERAGE_PROCESS_CONFIG" in os.environ:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE_SECONDS)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
