"""The units on a real systemd: a Debian 12 that boots in a container of its own.

By ``make proof-systemd``, as root; the first time it makes that Debian from the network, in ``$TMPMAILD_DEBIAN``.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEBIAN = Path(os.environ.get("TMPMAILD_DEBIAN", "/var/cache/tmpmaild/debian-12"))
PATIENCE_SECONDS = 120

pytestmark = pytest.mark.skipif(not os.environ.get("BOOT"), reason="boots a Debian: make proof-systemd")
CONFIG = """
domains = ["tmp.example.org"]
[smtp]
listen = ["0.0.0.0:25", "[::]:25"]
[storage]
path = "/var/lib/tmpmaild/tmpmaild.db"
"""
MAIL = """
import json, smtplib, urllib.request
addresses = "http://127.0.0.1:8025/api/v1/addresses"
address = json.load(urllib.request.urlopen(addresses, b""))["address"]
smtplib.SMTP("127.0.0.1", 25, timeout=30).sendmail("a@example.com", [address], b"Subject: kept\\r\\n\\r\\n")
print(address)
"""
READ = """
import json, sys, urllib.request
mails = json.load(urllib.request.urlopen(f"http://127.0.0.1:8025/api/v1/addresses/{sys.argv[1]}/messages"))
print(*[mail["subject"] for mail in mails["messages"]])
"""
HOLD = """
import socket, sys
with socket.create_server(("0.0.0.0", 25)):
    print("held", flush=True)
    sys.stdin.read()
"""
CALL = """
import collections, socket, sys, threading
answers, enough = collections.Counter(), threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), enough.set())).start()
while not enough.is_set():
    try:
        with socket.create_connection(("127.0.0.1", 25), timeout=60) as client:
            answers[client.recv(100)[:3].decode()] += 1
    except OSError as error:
        answers[type(error).__name__] += 1
    if sum(answers.values()) == 1:
        print("calling", flush=True)
print(*(f"{answer}:{count}" for answer, count in answers.items()))
"""


ASK_AS_PROXY = """
import grp, os, pwd, socket
os.setgroups([]), os.setgid(grp.getgrnam("www-data").gr_gid), os.setuid(pwd.getpwnam("www-data").pw_uid)
with socket.socket(socket.AF_UNIX) as client:
    client.connect("/run/tmpmaild-http.sock")
    client.sendall(b"GET /healthz HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    print(client.recv(1000).split()[1].decode())
"""


class Machine:
    """The container that has booted; what is run in it is run as its root."""

    def __init__(self, leader):
        self._enter = ["nsenter", "--target", str(leader), "--all"]
        self._environ = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}

    def run(self, *command, stdin=None, check=True):
        done = subprocess.run(
            [*self._enter, *command], env=self._environ, input=stdin, capture_output=True, text=True, check=False
        )
        assert not check or done.returncode == 0, (command, done.stdout, done.stderr)
        return done

    def python(self, script, *arguments):
        return self.run("/usr/bin/python3", "-c", script, *arguments).stdout.strip()

    @contextmanager
    def background(self, script):
        """Run a script that ends when its standard input does: nsenter does not pass signals on."""
        command = [*self._enter, "/usr/bin/python3", "-c", script]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=self._environ, stdin=pipe, stdout=pipe, text=True) as process:
            try:
                yield process
            finally:
                process.stdin.close()

    def write(self, path, text):
        self.run("/bin/sh", "-c", 'mkdir -p "${0%/*}" && cat > "$0"', path, stdin=text)

    def show(self, name):
        return self.run("systemctl", "show", "--property", name, "--value", "tmpmaild").stdout.strip()

    def until(self, **states):
        end = time.monotonic() + PATIENCE_SECONDS
        while {name: self.show(name) for name in states} != states:
            assert time.monotonic() < end, self.log()
            time.sleep(0.2)

    def log(self):
        return self.run("journalctl", "--no-pager", "--unit", "tmpmaild", "--lines", "60").stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    constraints = ("--constraint", ROOT / "constraints.txt")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--quiet", *constraints, "--wheel-dir", folder, ROOT],
        check=True,
    )
    return folder


@pytest.fixture(scope="module")
def debian():
    for program in ("systemd-nspawn", "debootstrap", "nsenter"):
        if not shutil.which(program):
            pytest.skip(f"needs {program} (Debian packages systemd-container, debootstrap, util-linux)")
    if os.geteuid() != 0:
        pytest.skip("only root can boot a container")
    if not (DEBIAN / "etc/debian_version").exists():
        with_these = "--include=systemd,systemd-sysv,dbus,python3,python3-venv"
        DEBIAN.parent.mkdir(parents=True, exist_ok=True)
        half = DEBIAN.with_suffix(".half")
        shutil.rmtree(half, ignore_errors=True)
        subprocess.run(["debootstrap", "--variant=minbase", with_these, "bookworm", half], check=True)
        half.rename(DEBIAN)
    return DEBIAN


@pytest.fixture(scope="module")
def booted(debian, wheels, tmp_path_factory):
    console = tmp_path_factory.mktemp("console") / "console.txt"
    command = ["systemd-nspawn", "--quiet", "--directory", debian, "--volatile=overlay", "--private-network"]
    command += ["--register=no", "--keep-unit", "--console=read-only"]
    command += [f"--bind-ro={wheels}:/wheels", f"--bind-ro={ROOT / 'systemd'}:/units", "--boot"]
    with console.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield _when_up(process, console)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def _when_up(process, console):
    end = time.monotonic() + PATIENCE_SECONDS
    while process.poll() is None and time.monotonic() < end:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        machine = Machine(children[0]) if children else None
        if machine:
            state = machine.run("systemctl", "is-system-running", check=False).stdout.strip()
            if state in ("running", "degraded"):
                return machine
        time.sleep(0.2)
    pytest.skip(f"no container boots here: {console.read_text(errors='replace')[-500:]}")


@pytest.fixture(scope="module")
def installed(booted):
    booted.run("python3", "-m", "venv", "/opt/tmpmaild")
    booted.run("/opt/tmpmaild/bin/pip", "install", "--quiet", "--no-index", "--find-links", "/wheels", "tmpmaild")
    booted.run("/bin/sh", "-c", "cp /units/* /etc/systemd/system/")
    return booted


@pytest.fixture
def machine(installed):
    """Return the machine with the service installed, stopped, and configured as in the README."""
    installed.write("/etc/tmpmaild/config.toml", CONFIG)
    installed.run("systemctl", "daemon-reload")
    yield installed
    installed.run("systemctl", "stop", "tmpmaild-smtp.socket", "tmpmaild-http.socket", "tmpmaild")
    installed.run("/bin/sh", "-c", "rm -rf /etc/systemd/system/tmpmaild*.d")
    installed.run("systemctl", "reset-failed")


def test_mail_survives_that_the_service_is_killed(machine):
    machine.run("systemctl", "start", "tmpmaild")
    address = machine.python(MAIL)
    machine.run("systemctl", "kill", "--signal=KILL", "tmpmaild")
    machine.until(NRestarts="1", ActiveState="active")
    assert machine.python(READ, address) == "kept"
    machine.run("systemctl", "reload", "tmpmaild")
    machine.run("/opt/tmpmaild/bin/tmpmaild", "status", "--config", "/etc/tmpmaild/config.toml")
    assert " tmpmaild[" in machine.log()


def test_a_stuck_service_is_started_again(machine):
    drop_in = "[Service]\nWatchdogSec=2\nTimeoutAbortSec=2\n"
    machine.write("/etc/systemd/system/tmpmaild.service.d/fast.conf", drop_in)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "tmpmaild")
    machine.run("systemctl", "kill", "--signal=STOP", "tmpmaild")
    machine.until(NRestarts="1", ActiveState="active")
    assert "Watchdog timeout" in machine.log()
    machine.python(MAIL)


def test_a_mistake_in_the_configuration_is_not_tried_again(machine):
    machine.write("/etc/tmpmaild/config.toml", "[smtp]\nmax_connections = 'many'\n")
    assert machine.run("systemctl", "start", "tmpmaild", check=False).returncode != 0
    assert [machine.show(name) for name in ("ExecMainStatus", "SubState", "NRestarts")] == ["78", "failed", "0"]


def test_a_taken_port_is_tried_again_until_it_is_free(machine):
    with machine.background(HOLD) as holder:
        assert holder.stdout.readline() == "held\n"
        machine.run("systemctl", "start", "tmpmaild", check=False)
        machine.until(ExecMainStatus="1", SubState="auto-restart")
    machine.until(ActiveState="active")
    machine.python(MAIL)


def test_a_restart_refuses_nobody(machine):
    machine.run("systemctl", "start", "tmpmaild-smtp.socket", "tmpmaild-http.socket", "tmpmaild")
    with machine.background(CALL) as calls:
        assert calls.stdout.readline() == "calling\n"
        for _ in range(3):
            machine.run("systemctl", "restart", "tmpmaild")
        calls.stdin.close()
        answers = dict(answer.split(":") for answer in calls.stdout.read().split())
    assert answers.keys() <= {"220", "421"}, answers
    machine.python(MAIL)


def test_a_proxys_group_can_open_a_socket_of_the_socket_unit(machine):
    document = (ROOT / "docs/operations.md").read_text()
    (drop_in,) = re.findall(r"^```ini\n(\[Socket\].*?)^```", document, re.MULTILINE | re.DOTALL)
    machine.write("/etc/systemd/system/tmpmaild-http.socket.d/unix.conf", drop_in)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "tmpmaild-http.socket", "tmpmaild")
    assert machine.python(ASK_AS_PROXY) == "200"
