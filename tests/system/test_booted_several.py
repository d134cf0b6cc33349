"""Several daemons on one machine, set up as in docs/scaling.md, with a real systemd and Debian's own PostgreSQL.

Run with ``make proof WHAT=systemd`` as root, on Debian 12 and Debian 13; the first run downloads these systems.
"""

import json
import os
import re
from pathlib import Path

import pytest

import chroot_image
import machines
from blocks import ROOT, shell_blocks

PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3", "python3-venv", "postgresql", "sudo")
HEADING = "Several daemons on one machine"
CONFIG = Path(__file__).with_name("booted-several-config.toml").read_text()
PASSWORD = "correct horse"
# Four senders, each of which uses a new connection for each message. When its standard input is closed, the script
# prints the replies and the missing acknowledged messages. If the server stops, the script reads its 421 reply even if
# the next command fails.
SEND = Path(__file__).with_name("booted_several_send.py").read_text()
ACCEPTED = Path(__file__).with_name("booted_several_accepted.py").read_text()

pytestmark = pytest.mark.skipif(not os.environ.get("BOOT"), reason="boots a Debian: make proof WHAT=systemd")


def blocks(heading):
    return [block.script for block in shell_blocks("docs/scaling.md") if block.heading == heading]


@pytest.fixture(scope="module", params=chroot_image.SUITES)
def machine(request, tmp_path_factory):
    """Yield the machine after the steps in docs/scaling.md, with two running daemons."""
    folder = tmp_path_factory.mktemp("machine")
    with machines.installed(PACKAGES, folder, "[postgresql]", request.param) as machine:
        machine.run("ln", "-sf", "/opt/tmpmaild/bin/tmpmaild", "/usr/local/bin/tmpmaild")
        # Without a terminal, createuser reads the password twice from its standard input.
        perform(machine, blocks("The database")[0], stdin=f"{PASSWORD}\n{PASSWORD}\n")
        machine.write("/etc/tmpmaild/config.toml", CONFIG)
        machine.write("/etc/tmpmaild/postgresql-password", PASSWORD, "0600")
        section = (ROOT / "docs/scaling.md").read_text().partition(f"## {HEADING}\n")[2].partition("\n## ")[0]
        (drop_in,) = re.findall(r"^```ini\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
        machine.write("/etc/systemd/system/tmpmaild@.service.d/override.conf", drop_in)
        perform(machine, blocks(HEADING)[0])
        yield machine


def perform(machine, script, stdin=None):
    done = machine.run("setsid", "--wait", "bash", "-euo", "pipefail", "-c", script, stdin=stdin, check=False)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}\n{machine.log()}"
    return done.stdout


def test_both_daemons_share_ports_and_a_rolling_restart_loses_no_mail(machine, figure):
    with machine.background(SEND) as sending:
        assert sending.stdout.readline() == "sending\n"
        machine.python(ACCEPTED, "1", "2")
        for _ in range(3):
            for number in (1, 2):
                machine.run("systemctl", "restart", f"tmpmaild@{number}.service")
        sending.stdin.close()
        found = json.loads(sending.stdout.read())
    answers = found["answers"]
    figure("answers while two daemons restart in turns, three times", answers, "SMTP 250, 421, 451; HTTP 200")
    assert found["lost"] == []
    assert answers.keys() <= {"SMTP 250", "SMTP 421", "SMTP 451", "HTTP 200"}, f"{answers}\n{machine.log()}"
    assert answers["SMTP 250"] > 10


def test_one_daemon_can_be_taken_out_of_service_and_put_back(machine):
    taken_out, put_back = blocks(HEADING)[1:3]
    with machine.background(SEND) as sending:
        assert sending.stdout.readline() == "sending\n"
        for _ in range(3):
            perform(machine, taken_out)
            perform(machine, put_back)
        sending.stdin.close()
        found = json.loads(sending.stdout.read())
    assert found["lost"] == []
    assert "ConnectionRefusedError" not in str(found["answers"])
    assert machine.run("systemctl", "is-active", "tmpmaild@2.service").stdout == "active\n"
    assert machine.run("stat", "--format=%a", "/run/credentials/tmpmaild@1.service/postgresql").stdout < "5"


def test_a_command_reaches_the_selected_daemon(machine):
    (command,) = blocks(HEADING)[3:]
    assert " ready\n" in perform(machine, command)
    machine.run("systemctl", "stop", "tmpmaild-smtp@1.socket", "tmpmaild-http@1.socket", "tmpmaild@1.service")
    assert machine.run("bash", "-c", command, check=False).stdout == ""
    machine.run("systemctl", "start", "tmpmaild-smtp@1.socket", "tmpmaild-http@1.socket", "tmpmaild@1.service")


def test_the_journal_match_of_the_fail2ban_filter_finds_both_daemons(machine):
    document = (ROOT / "docs/fail2ban/tmpmaild.conf").read_text()
    match = re.search("^journalmatch = (.*)$", document, re.MULTILINE)[1].split()
    log = machine.run("journalctl", "--no-pager", *match).stdout
    assert " tmpmaild-1[" in log
    assert " tmpmaild-2[" in log


def test_doctor_reports_only_real_problems_and_names_the_file_of_a_wrong_password(machine):
    assert " ready\n" in machine.run("tmpmaild", "--instance", "1", "status").stdout
    listen = "TMPMAILD_CONTROL__LISTEN=unix:/run/tmpmaild-1/control.sock"
    command = ["env", listen, "TMPMAILD_STORAGE__PASSWORD_FILE=/etc/tmpmaild/postgresql-password"]
    found = json.loads(machine.run(*command, "tmpmaild", "doctor", "--json", check=False).stdout)["results"]
    assert {one["check"]: one["text"] for one in found if one["level"] == "problem"} == {}
    machine.write("/etc/tmpmaild/wrong", "wrong", "0600")
    command[2] = "TMPMAILD_STORAGE__PASSWORD_FILE=/etc/tmpmaild/wrong"
    found = json.loads(machine.run(*command, "tmpmaild", "doctor", "--json", check=False).stdout)["results"]
    (refused,) = [one for one in found if one["check"] == "database server"]
    assert "storage.password_file" in refused["advice"]
