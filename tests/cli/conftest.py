"""The real daemon, commands in their own processes, a terminal for them, and servers other than tmpmaild."""

import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryFile

import pytest
from click.testing import CliRunner
from scripted import Scripted

import daemons
from daemons import environment
from patience import PATIENCE_SECONDS
from tmpmaild import client as api
from tmpmaild.cli.main import main
from warm import Program

ONTO_FULL_DISK = {"> /dev/full": "stdout", "2> /dev/full": "stderr"}
CODE = b"From: Shop <shop@shop.example>\r\nSubject: Confirm\r\n\r\nYour verification code is 481516\r\n"
SETTINGS = {
    "TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE": "0",
    "TMPMAILD_LIMITS__EXEMPT": "127.0.0.0/8",
    "TMPMAILD_ADDRESSES__MAX_LIFETIME_SECONDS": "7200",
    "TMPMAILD_SMTP__FAULTS": "true",
    "TMPMAILD_WEBHOOKS__ALLOW": "hooks.example.org",
}


class Daemon(daemons.Daemon):
    """A daemon that commands connect to, with a sample message to deliver."""

    def deliver(self, address, mail=CODE):
        self.deliver_raw(address, mail, sender="sender@example.org")


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    with closing(Daemon(tmp_path_factory.mktemp("cli"), **SETTINGS)) as one:
        yield one


@pytest.fixture
def mortal_daemon(tmp_path):
    """Run a daemon that tests may stop and start."""
    with closing(Daemon(tmp_path, **SETTINGS)) as one:
        yield one


@pytest.fixture(scope="session")
def client(daemon):
    with api.Client(daemon.url) as one:
        yield one


@pytest.fixture
def inbox(client):
    return client.create()


class Running:
    """A command in its own process, whose output is read only when a test waits for text."""

    def __init__(self, arguments, environ, columns, ignored):
        self.has_terminal = columns is not None
        self.output, theirs = pty.openpty() if self.has_terminal else os.pipe()
        if self.has_terminal:
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with Path(os.devnull).open(encoding="utf-8") as nothing:
            stdin = theirs if self.has_terminal else nothing.fileno()
            streams = {"stdin": stdin, "stdout": theirs, "stderr": subprocess.PIPE, "has_terminal": self.has_terminal}
            self.process = Program(list(map(str, arguments)), env=environ, ignored=ignored, **streams)
        os.close(theirs)
        self.seen = ""

    def until(self, text):
        """Read until a text appears, and return everything that has been read so far."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.seen:
            assert select.select([self.output], [], [], deadline - time.monotonic())[0], f"{text!r} not in {self.seen}"
            assert self._read(), f"it ended without {text!r}: {self.seen}{self.errors()}"
        return self.seen

    def until_line(self, text):
        """Read until a line that contains a text is complete; return that line."""
        self.until(text)
        while "\n" not in self.seen[self.seen.index(text) :]:
            assert self._read()
        return next(line for line in self.seen.splitlines() if text in line)

    def end(self):
        """Read to the end; return the exit code."""
        while self._read():
            pass
        return self.process.wait(PATIENCE_SECONDS)

    def interrupt(self):
        """Press Ctrl-C, or send the equivalent signal."""
        if self.has_terminal:
            os.write(self.output, b"\x03")
        else:
            self.process.send_signal(signal.SIGINT)
        return self.end()

    def catches(self, number):
        """Return whether the process handles a signal."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return bool(int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> (number - 1) & 1)

    def errors(self):
        return self.process.stderr.read().decode()

    def errors_until(self, text):
        """Read standard error up to the line that contains a text."""
        return next(line for line in iter(self.process.stderr.readline, b"") if text in line.decode())

    def _read(self):
        try:
            octets = os.read(self.output, 65536)
        except OSError:  # the terminal is no longer open for writing in any process
            return False
        self.seen += octets.decode()
        return bool(octets)

    def hang_up(self):
        """Close our end of the terminal or pipe."""
        os.close(self.output)
        self.output = None

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        if self.output is not None:
            os.close(self.output)


@pytest.fixture
def run(daemon):
    """Return a function that starts a command; with ``columns``, at a terminal of that width."""
    with ExitStack() as started:

        def run(*arguments, columns=None, ignored=(), **settings):
            environ = environment(**{"TMPMAILD_URL": daemon.url, **settings})
            return started.enter_context(closing(Running(arguments, environ, columns, ignored)))

        yield run


def _with_full_disk(stream, arguments, env):
    with (
        Path(os.devnull).open("wb") as nothing,
        Path("/dev/full").open("wb") as full,
        TemporaryFile("w+", encoding="utf-8") as errors,
    ):
        streams = {"stdout": nothing.fileno(), "stderr": errors.fileno(), stream: full.fileno()}
        status = Program(arguments, env=env, **streams).wait(PATIENCE_SECONDS)
        errors.seek(0)
        return subprocess.CompletedProcess(arguments, status, stderr=errors.read())


@pytest.fixture
def redirected(daemon):
    """Return a function that runs a command as a shell does, with its output redirected."""
    env = environment(TMPMAILD_URL=daemon.url)

    def redirected(redirection, *arguments):
        if redirection in ONTO_FULL_DISK:
            return _with_full_disk(ONTO_FULL_DISK[redirection], arguments, env)
        # Python detects closed standard streams only at startup, so the command needs a new process.
        command = ["sh", "-c", f'exec "$0" -m tmpmaild "$@" {redirection}', sys.executable, *arguments]
        return daemons.finished(command, env=env, timeout=PATIENCE_SECONDS)

    return redirected


@pytest.fixture
def hanging_url(hanging):
    return f"http://127.0.0.1:{hanging.getsockname()[1]}"


@pytest.fixture
def hanging():
    """Run a server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_SECONDS)
        yield server


@pytest.fixture
def call(daemon):
    """Return a function that runs a command to completion in this process."""

    def call(*arguments, **settings):
        return CliRunner().invoke(main, [*map(str, arguments)], env={"TMPMAILD_URL": daemon.url, **settings})

    return call


@pytest.fixture
def scripted():
    """Return a function that serves responses (status, headers, body) in sequence, and returns the URL."""
    with ExitStack() as servers:

        def serve(*answers, on_last=lambda: None):
            left = list(answers)

            def answer(asked):
                if asked.method == "DELETE":
                    serve.deleted.append(asked.target)
                    return Scripted.json(b"", status="204 No Content")
                serve.asked.append(asked.target)
                status, headers, body = left.pop(0) if left else (503, {}, b"")
                if not left:
                    on_last()
                fields = [f"{name}: {value}" for name, value in headers.items() if name != "Content-Type"]
                return Scripted.json(
                    body, *fields, status=f"{status} x", kind=headers.get("Content-Type", "text/plain")
                )

            server = servers.enter_context(closing(Scripted()))
            server.answer = answer
            return server.url

        serve.deleted, serve.asked = [], []
        yield serve
