"""The units on a real systemd: a Debian 12 that boots in a container of its own.

By ``make proof-systemd``, as root; the first time it makes that Debian from the network. Several daemons at once are in
``test_booted_several.py``.
"""

import os
import re
from pathlib import Path

import pytest

import machines
from blocks import shell_blocks

ROOT = Path(__file__).parents[2]
PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3", "python3-venv")

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


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    with machines.installed(PACKAGES, tmp_path_factory.mktemp("machine")) as machine:
        yield machine


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


def test_the_sockets_are_opened_under_traffic(machine):
    (script,) = [one.script for one in shell_blocks("docs/operations.md") if "start sockets.target" in one.script]
    machine.run("/bin/sh", "-c", "mkdir -p /opt/tmpmaild/src && ln -sfn /units /opt/tmpmaild/src/systemd")
    with machine.background(CALL) as calls:
        assert calls.stdout.readline() == "calling\n"
        for _ in range(3):
            machine.run("bash", "-euc", script)
            machine.run("systemctl", "disable", "--now", "tmpmaild-smtp.socket", "tmpmaild-http.socket")
        calls.stdin.close()
    machine.python(MAIL)


def test_a_proxys_group_can_open_a_socket_of_the_socket_unit(machine):
    document = (ROOT / "docs/operations.md").read_text()
    (drop_in,) = re.findall(r"^```ini\n(\[Socket\].*?)^```", document, re.MULTILINE | re.DOTALL)
    machine.write("/etc/systemd/system/tmpmaild-http.socket.d/unix.conf", drop_in)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "tmpmaild-http.socket", "tmpmaild")
    assert machine.python(ASK_AS_PROXY) == "200"
