"""The systemd units under a real systemd, on Debian 12 and on Debian 13, each booted in a container.

Run with ``make proof WHAT=systemd`` as root; the first run downloads these systems.
``test_booted_several.py`` covers several daemons on one machine.
"""

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

import chroot_image
import machines
from blocks import shell_blocks
from machines import MAIL, READ

ROOT = Path(__file__).parents[2]
PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3", "python3-venv")

pytestmark = pytest.mark.skipif(not os.environ.get("BOOT"), reason="boots a Debian: make proof WHAT=systemd")
CONFIG = Path(__file__).with_name("booted-config.toml").read_text()
HOLD = Path(__file__).with_name("booted_hold.py").read_text()
CALL = Path(__file__).with_name("booted_call.py").read_text()


ASK_AS_PROXY = Path(__file__).with_name("booted_ask_as_proxy.py").read_text()


LOCK = Path(__file__).with_name("booted_lock.py").read_text()
READY = Path(__file__).with_name("booted_ready.py").read_text()
CREDENTIALS = Path(__file__).with_name("booted-credentials.txt").read_text()
TLS = Path(__file__).with_name("booted-tls.toml").read_text()
# The files that are kept when Debian is upgraded.
KEPT = ("opt/tmpmaild", "etc/tmpmaild", "var/lib/private/tmpmaild", "etc/systemd/system/tmpmaild.service")
# The container can reach neither a time server nor DNS, so this check correctly fails.
TRUE_HERE = {"clock"}


@pytest.fixture(scope="module", params=chroot_image.SUITES)
def installed(request, tmp_path_factory):
    with machines.installed(PACKAGES, tmp_path_factory.mktemp("machine"), suite=request.param) as machine:
        machine.run("ln", "-sf", "/opt/tmpmaild/bin/tmpmaild", "/usr/local/bin/tmpmaild")
        yield machine


@pytest.fixture
def machine(installed):
    """Yield the machine with the service installed and configured as in the README, but stopped."""
    installed.write("/etc/tmpmaild/config.toml", CONFIG)
    installed.run("systemctl", "daemon-reload")
    yield installed
    installed.run("systemctl", "stop", "tmpmaild-smtp.socket", "tmpmaild-http.socket", "tmpmaild")
    installed.run("/bin/sh", "-c", "rm -rf /etc/systemd/system/tmpmaild*.d")
    installed.run("systemctl", "reset-failed")


def test_mail_survives_when_the_service_is_killed(machine):
    machine.run("systemctl", "start", "tmpmaild")
    address = machine.python(MAIL)
    machine.run("systemctl", "kill", "--signal=KILL", "tmpmaild")
    machine.until(NRestarts="1", ActiveState="active")
    assert machine.python(READ, address) == "kept"
    machine.run("systemctl", "reload", "tmpmaild")
    machine.run("/opt/tmpmaild/bin/tmpmaild", "status", "--config", "/etc/tmpmaild/config.toml")
    assert " tmpmaild[" in machine.log()


def test_a_hung_service_is_restarted(machine):
    drop_in = "[Service]\nWatchdogSec=2\nTimeoutAbortSec=2\n"
    machine.write("/etc/systemd/system/tmpmaild.service.d/fast.conf", drop_in)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "tmpmaild")
    machine.run("systemctl", "kill", "--kill-whom=main", "--signal=STOP", "tmpmaild")
    machine.until(NRestarts="1", ActiveState="active")
    assert "Watchdog timeout" in machine.log()
    machine.python(MAIL)


def test_the_service_is_not_restarted_after_a_configuration_error(machine):
    machine.write("/etc/tmpmaild/config.toml", "[smtp]\nmax_connections = 'many'\n")
    assert machine.run("systemctl", "start", "tmpmaild", check=False).returncode != 0
    assert [machine.show(name) for name in ("ExecMainStatus", "SubState", "NRestarts")] == ["78", "failed", "0"]


def test_no_client_is_refused_during_a_restart(machine):
    machine.run("systemctl", "start", "tmpmaild-smtp.socket", "tmpmaild-http.socket", "tmpmaild")
    with machine.background(CALL) as calls:
        assert calls.stdout.readline() == "calling\n"
        for _ in range(3):
            machine.run("systemctl", "restart", "tmpmaild")
        calls.stdin.close()
        answers = dict(answer.split(":") for answer in calls.stdout.read().split())
    assert answers.keys() <= {"220", "421"}, answers
    machine.python(MAIL)


def test_the_sockets_can_be_enabled_under_load(machine):
    (script,) = [one.script for one in shell_blocks("docs/operations.md") if "start sockets.target" in one.script]
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
    assert doctor(machine).keys() == {"certificate"}


def test_the_service_responds_to_every_command(machine):
    """Runs the commands in docs/operations.md as root. On Debian 13, the ids of the database folder are mapped."""
    machine.run("systemctl", "start", "tmpmaild")
    address = machine.python(MAIL)
    assert f"{address}\n" in machine.run("tmpmaild", "inboxes").stdout
    assert " ready\n" in machine.run("tmpmaild", "status").stdout
    assert machine.run("tmpmaild", "block", "--name", "support").stdout == "1 blocked\n"
    assert machine.run("tmpmaild", "blocks").stdout == "name    support\n"
    assert machine.run("tmpmaild", "unblock", "--name", "support").stdout == "1 unblocked\n"
    assert machine.run("tmpmaild", "reload").stdout == "reloaded\n"
    machine.run("tmpmaild", "backup", "/root/copy.db")
    assert machine.run("stat", "--format=%u %a", "/root/copy.db").stdout == "0 600\n"
    assert machine.run("tmpmaild", "purge", address).stdout == "1 inbox purged, its mail erased\n"
    for command in (("postmaster",), ("check-config",)):
        machine.run("tmpmaild", *command)
    machine.run("systemctl", "stop", "tmpmaild")
    assert machine.run("tmpmaild", "status", check=False).returncode == 4
    assert machine.run("tmpmaild", "migrate").stdout.endswith(": up to date\n")
    machine.run("systemctl", "start", "tmpmaild")
    owners = machine.run(
        "/bin/sh", "-c", "stat --format=%u /var/lib/private/tmpmaild /var/lib/private/tmpmaild/*"
    ).stdout
    assert len(set(owners.split())) == 1


def doctor(machine):
    """Return the checks whose result is not ok, by name."""
    results = json.loads(machine.run("tmpmaild", "doctor", "--json", check=False).stdout)["results"]
    return {one["check"]: one for one in results if one["level"] != "ok" and one["check"] not in TRUE_HERE}


def test_doctor_reports_only_real_problems(machine):
    machine.run("systemctl", "start", "tmpmaild")
    assert doctor(machine).keys() == {"certificate"}
    machine.run("systemctl", "stop", "tmpmaild")
    assert doctor(machine).keys() == {"certificate", "service"}
    assert doctor(machine)["service"]["text"] == "tmpmaild.service is stopped"
    machine.run("systemctl", "start", "tmpmaild-smtp.socket", "tmpmaild-http.socket")
    assert doctor(machine).keys() == {"certificate", "service"}
    assert machine.show("ActiveState") == "inactive"
    machine.run("systemctl", "start", "tmpmaild")
    assert doctor(machine).keys() == {"certificate"}


def test_the_service_retries_until_its_port_is_free_and_doctor_reports_why(machine):
    machine.run("systemctl", "start", "tmpmaild")
    machine.run("systemctl", "stop", "tmpmaild")
    with machine.background(HOLD) as holder:
        assert holder.stdout.readline() == "held\n"
        machine.run("systemctl", "start", "tmpmaild", check=False)
        machine.until(NRestarts="2", ExecMainStatus="1", SubState="auto-restart")
        found = doctor(machine)["service"]
    machine.until(ActiveState="active")
    machine.python(MAIL)
    assert found["level"] == "problem"
    assert re.search(r"fails \(.*restarted \d times?\); .*Address already in use", found["text"])


def test_a_failing_start_is_retried_indefinitely(machine):
    fails = "[Service]\nExecStart=\nExecStart=/bin/false\nRestartSec=1ms\nRestartSteps=0\n"
    machine.write("/etc/systemd/system/tmpmaild.service.d/fails.conf", fails)
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "tmpmaild", check=False)
    end = time.monotonic() + machines.PATIENCE_SECONDS
    while int(machine.show("NRestarts")) < 100:
        assert machine.show("ActiveState") == "activating"
        assert time.monotonic() < end


def test_retries_for_a_port_in_use_slow_down_from_systemd_254_on(machine):
    machine.run("systemctl", "start", "tmpmaild")
    machine.run("systemctl", "stop", "tmpmaild")
    with machine.background(HOLD) as holder:
        assert holder.stdout.readline() == "held\n"
        machine.run("systemctl", "start", "tmpmaild", check=False)
        machine.until(NRestarts="3", ExecMainStatus="1", SubState="auto-restart")
        pause = machine.show("RestartUSecNext")
    machine.until(ActiveState="active")
    version = int(machine.run("systemctl", "--version").stdout.split()[1])
    assert pause == ("7.160617s" if version >= 254 else "")
    warnings = machine.run("journalctl", "--no-pager", "--grep", "RestartSteps.*ignoring", check=False).stdout
    assert ("Unknown key" in warnings) == (version < 254)


def test_doctor_reports_a_read_only_file_system_and_the_service_does_not_retry(machine):
    machine.run("systemctl", "start", "tmpmaild")
    address = machine.python(MAIL)
    machine.run("systemctl", "stop", "tmpmaild")
    folder = "/var/lib/private/tmpmaild"
    machine.run("mount", "--bind", "--options", "ro", folder, folder)
    try:
        machine.run("systemctl", "start", "tmpmaild", check=False)
        machine.until(ExecMainStatus="78", SubState="failed", NRestarts="0")
        found = doctor(machine)["service"]
    finally:
        machine.run("umount", folder)
    assert re.search(r"fails \(exit-code, exit status 78\); .*mounted read-only", found["text"])
    machine.run("systemctl", "start", "tmpmaild")
    assert machine.python(READ, address) == "kept"


def test_doctor_recognizes_systemd_credentials(machine, tmp_path):
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", "/CN=x", "-addext", "subjectAltName=DNS:mx.tmp.example.org", "-out", "cert.pem"]
    subprocess.run([*command, "-keyout", "key.pem"], cwd=tmp_path, check=True, capture_output=True)
    for name in ("cert.pem", "key.pem"):
        machine.write(f"/etc/pem/{name}", (tmp_path / name).read_text(), "0600")
    machine.write("/etc/systemd/system/tmpmaild.service.d/certificate.conf", CREDENTIALS)
    machine.write("/etc/tmpmaild/config.toml", CONFIG.replace("[smtp]", f"[smtp]\n{TLS}"))
    machine.run("systemctl", "daemon-reload")
    assert doctor(machine).keys() == {"service"}
    machine.run("systemctl", "start", "tmpmaild")
    assert doctor(machine) == {}
    subprocess.run([*command, "-keyout", "key.pem"], cwd=tmp_path, check=True, capture_output=True)
    for name in ("cert.pem", "key.pem"):  # renewed
        machine.write(f"/etc/pem/{name}", (tmp_path / name).read_text(), "0600")
    assert "differs from the certificate that the service was started with" in doctor(machine)["certificate"]["text"]
    machine.run("systemctl", "reload", "tmpmaild")
    assert "systemd provides a renewed certificate only after a restart" in machine.run("tmpmaild", "reload").stdout
    machine.run("systemctl", "restart", "tmpmaild")
    assert doctor(machine) == {}


def test_doctor_accepts_that_ipv6_is_disabled(machine):
    switch = "/proc/sys/net/ipv6/conf/all/disable_ipv6"
    machine.run("/bin/sh", "-c", f"echo 1 > {switch}")
    try:
        machine.run("systemctl", "start", "tmpmaild")
        assert doctor(machine).keys() == {"certificate"}
    finally:
        machine.run("/bin/sh", "-c", f"echo 0 > {switch}")


def test_reloading_an_invalid_configuration_fails_and_the_service_continues(machine):
    machine.run("systemctl", "start", "tmpmaild")
    machine.write("/etc/tmpmaild/config.toml", CONFIG + "nonsense = 1\n")
    assert machine.run("systemctl", "reload", "tmpmaild", check=False).returncode == 1
    assert machine.show("ActiveState") == "active"
    assert "nonsense: unknown key" in machine.run("journalctl", "--no-pager", "-u", "tmpmaild", "-p", "err").stdout
    # A key that requires a restart does not prevent other keys from being applied.
    changed = CONFIG.replace("tmp.example.org", "other.example.org", 1).replace("/tmpmaild.db", "/other.db")
    machine.write("/etc/tmpmaild/config.toml", changed)
    machine.run("systemctl", "reload", "tmpmaild")
    assert (
        "takes effect only after a restart"
        in machine.run("journalctl", "--no-pager", "-u", "tmpmaild", "-p", "warning").stdout
    )
    machine.write("/etc/tmpmaild/config.toml", changed.replace("/other.db", "/tmpmaild.db"))
    assert "other.example.org" in machine.run("tmpmaild", "status").stdout


def test_journal_lines_have_one_timestamp_and_there_is_no_banner(machine):
    machine.run("systemctl", "start", "tmpmaild")
    # Not filtered by invocation id, because the journal may record the first lines without it.
    log = machine.run("journalctl", "--no-pager", "--output=cat", "--unit=tmpmaild").stdout
    assert "\nINFO tmpmaild.daemon: started: " in f"\n{log}"
    assert "Open http" not in log


def test_the_service_is_ready_within_two_seconds_after_a_lock_is_released(machine, figure):
    machine.run("systemctl", "start", "tmpmaild")
    with machine.background(LOCK) as holder:
        assert holder.stdout.readline() == "locked\n"
        machine.python(READY, "503")
    seconds = float(machine.python(READY, "200"))
    figure("ready again after another process released the database", f"{seconds:.1f} s", "2 s")
    assert seconds < 10  # five times the target, because the machine may be busy


def test_mail_survives_a_debian_upgrade_with_a_new_virtual_environment(tmp_path, figure):
    """A real Debian upgrade needs the network, so a second machine gets the files of the first machine instead."""
    before, after = chroot_image.SUITES
    wheels, carried = tmp_path / "wheels", tmp_path / "carried"
    carried.mkdir()
    subprocess.run(["git", "clone", "--quiet", ROOT, tmp_path / "src"], check=True)
    (tmp_path / before).mkdir()
    with machines.installed(PACKAGES, tmp_path / before, suite=before) as machine:
        machine.write("/etc/tmpmaild/config.toml", CONFIG)
        machine.run("systemctl", "daemon-reload")
        machine.run("systemctl", "start", "tmpmaild")
        address = machine.python(MAIL)
        machine.run("systemctl", "stop", "tmpmaild")
        archive = machine.run("/bin/sh", "-c", f"tar --create --directory=/ {' '.join(KEPT)} | base64").stdout
    (carried / "kept.tar.b64").write_text(archive)
    machines.fetch_for_checkout(wheels, after)
    (tmp_path / after).mkdir()
    mounts = {"/wheels": wheels, "/carried": carried, "/cloned": tmp_path / "src"}
    with machines.booted(PACKAGES, mounts, tmp_path / after / "console.txt", after) as machine:
        machine.run("/bin/sh", "-c", "base64 --decode /carried/kept.tar.b64 | tar --extract --directory=/")
        machine.run("/bin/sh", "-c", "ln -s private/tmpmaild /var/lib/; cp -r /cloned /opt/tmpmaild/src")
        machine.write("/etc/pip.conf", "[global]\nno-index = true\nfind-links = /wheels\n")
        machine.run("systemctl", "daemon-reload")
        assert machine.run("systemctl", "start", "tmpmaild", check=False).returncode != 0
        (recipe,) = [
            one.script for one in shell_blocks("docs/operations.md") if one.heading == "Debian 12 to Debian 13"
        ]
        machine.run("bash", "-euc", recipe)
        assert machine.python(READ, address) == "kept"
        machine.run("/opt/tmpmaild/bin/tmpmaild", "status")
    figure("an upgrade from Debian 12 to Debian 13", "the service runs, its mail is there", "both")
