"""The package on booted Debian 12 and 13 systems: installation, upgrade, move to another machine, removal and purge.

It is also tested during an upgrade of Debian itself. Run with ``make proof WHAT=deb`` as root; the first run downloads
these systems, and every run downloads the upgrades to Debian 13 and to testing.
"""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import apt
import pytest

import certificates
import chroot_image
import deb
import machines
from blocks import ROOT, shell_blocks
from freshmachines import FreshMachine
from machines import MAIL, READ

PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3", "python3-venv")
NEWER = "99.0"
EM_X86_64, EM_AARCH64 = 62, 183  # elf(5)
CONFIG = "/etc/tmpmaild/config.toml"
INSTALL = next(block.script for block in shell_blocks("README.md") if block.heading == "Install on a server")
UPDATES = "Automatic updates"
SERVE = Path(__file__).with_name("deb_serve.py").read_text()
# Prints everything that clients can see of three addresses and STARTTLS. Without arguments, it first creates the
# addresses: one of them is private, and another expires after 20 seconds.
LOOK = Path(__file__).with_name("deb_look.py").read_text()
# Prints an address, sends messages to it until sending fails, and prints the acknowledged messages.
SEND = Path(__file__).with_name("deb_send.py").read_text()
DELIVER = "import smtplib, sys; smtplib.SMTP('127.0.0.1', 25).sendmail('a@example.com', sys.argv[1], b'Subject: new\\r\\n\\r\\n')"
PASSWORD = "correct horse"
CREDENTIAL = "[Service]\nLoadCredential=postgresql:/etc/tmpmaild/postgresql-password\n"
POSTGRESQL = """\
url = "postgresql://tmpmaild@127.0.0.1/tmpmaild"
password_file = "/run/credentials/tmpmaild.service/postgresql"
[control]
listen = "unix:/run/tmpmaild/control.sock"
"""
LIMITS = '[limits]\nexempt = ["127.0.0.0/8"]\n'
MOVES = ("Backups", "Restore")
FETCH_UPGRADE = Path(__file__).with_name("deb_fetch_upgrade.sh").read_text()
# Since version 258, systemd cannot be upgraded on a machine without unified cgroups; a container uses the host's.
HOLD_SYSTEMD = "" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "apt-mark hold systemd > /dev/null\n"
APT_GET = "DEBIAN_FRONTEND=noninteractive apt-get --yes -o Dpkg::Options::=--force-confdef"  # without questions
HOLDS = "find / -xdev -name '*tmpmaild*' -not -path '/packages*'; find /etc/tmpmaild /var/lib/private -mindepth 1"

pytestmark = [
    pytest.mark.skipif(not os.environ.get("BOOT"), reason="boots a Debian: make proof WHAT=deb"),
    pytest.mark.needs("binutils"),
]


def build(folder, umask, architecture="amd64"):
    """Build the package from a clone of the commit, in a separate folder."""
    subprocess.run(["git", "clone", "--quiet", ROOT, folder / "src"], check=True)
    environ = os.environ | {"PYTHONPATH": str(folder / "src")}
    command = [sys.executable, "tools/deb.py", folder, architecture]
    subprocess.run(command, cwd=folder / "src", env=environ, umask=umask, check=True)
    (package,) = folder.glob("*.deb")
    return package


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return build(tmp_path_factory.mktemp("package"), 0o022)


@pytest.fixture(scope="module")
def folder(package, tmp_path_factory):
    """Return a folder with the package and a newer package, which contains a different configuration."""
    folder = tmp_path_factory.mktemp("packages")
    shutil.copy(package, folder)
    root = tmp_path_factory.mktemp("newer") / "root"
    subprocess.run(["dpkg-deb", "--raw-extract", package, root], check=True)
    for path, old, new in (
        (root / "DEBIAN/control", "Version: ", f"Version: {NEWER}+"),
        (root / "usr/lib/tmpmaild/tmpmaild/__init__.py", '__version__ = "', f'__version__ = "{NEWER}+'),
        (root / CONFIG.lstrip("/"), "[storage]", "# new\n[storage]"),
    ):
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root, folder], check=True)
    return folder


@pytest.fixture(params=chroot_image.SUITES)
def suite(request):
    return request.param


@pytest.fixture
def machine(suite, folder, tmp_path):
    with machines.booted(PACKAGES, {"/packages": folder}, tmp_path / "console.txt", suite) as machine:
        yield machine


@pytest.mark.needs("binutils-aarch64")
@pytest.mark.parametrize(("architecture", "machine"), [("amd64", EM_X86_64), ("arm64", EM_AARCH64)])
def test_two_builds_are_identical_and_contain_the_compiled_modules_of_each_python(
    tmp_path, figure, architecture, machine
):
    built = []
    for name, umask in (("one", 0o022), ("two", 0o077)):
        (tmp_path / name).mkdir()
        built.append(build(tmp_path / name, umask, architecture))
    first, second = built
    size = f"{first.stat().st_size} bytes for {architecture}"
    figure("two builds of the package", f"{size}, equal: {equal(first, second)}", "True")
    assert equal(first, second)
    subprocess.run(["dpkg-deb", "--extract", first, tmp_path], check=True)
    compiled = list(tmp_path.glob("usr/lib/tmpmaild/**/*.so"))
    assert {struct.unpack_from("<H", path.read_bytes(), 18) for path in compiled} == {(machine,)}
    by_python = {python: names(compiled, python) for python in deb.PYTHONS}
    assert by_python == dict.fromkeys(deb.PYTHONS, by_python["3.11"])
    assert {"_cffi_backend", "_core", "loop", "protocol"} <= by_python["3.11"]


def names(compiled, python):
    """Return the names of modules that are compiled only for this Python version."""
    return {path.name.split(".")[0] for path in compiled if f".cpython-{python.replace('.', '')}-" in path.name}


def equal(one, other):
    return one.name == other.name and one.read_bytes() == other.read_bytes()


@pytest.mark.needs("lintian", "mandoc")
def test_lintian_and_mandoc_report_nothing(package, tmp_path):
    done = subprocess.run(["lintian", "--fail-on=error,warning", package], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    subprocess.run(["dpkg-deb", "--extract", package, tmp_path], check=True)
    pages = sorted(tmp_path.glob("usr/share/man/man*/*"))
    assert [page.name for page in pages] == ["tmpmaild.1.gz", "tmpmaild.toml.5.gz"]
    subprocess.run(["gunzip", *pages], check=True)
    command = ["mandoc", "-T", "lint", "-W", "warning", *(page.with_suffix("") for page in pages)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def install(machine, package):
    """Run the README's commands in a folder that contains only the package, without a network."""
    script = INSTALL.replace("apt-get update\n", "")
    machine.run("bash", "-euc", f"mkdir /tmp/here; cd /tmp/here; ln -s /packages/{package.name} .\n{script}")


def test_the_package_can_be_installed_upgraded_removed_and_purged(machine, suite, package, figure):
    before = machine.run("bash", "-c", HOLDS, check=False).stdout
    machine.run("apt-get", "install", "--yes", f"/packages/{package.name}")
    assert [machine.show(name) for name in ("UnitFileState", "ActiveState")] == ["disabled", "inactive"]
    assert machine.run("systemctl", "start", "tmpmaild", check=False).returncode == 1
    assert f"{CONFIG}: domains[0]: expected a domain name, found '<your domain>'" in machine.log()
    assert machine.show("NRestarts") == "0"

    install(machine, package)
    address = machine.python(MAIL)
    assert address.endswith("@tmp.example.org")
    assert machine.python(READ, address) == "kept"
    assert machine.show("UnitFileState") == "enabled"

    configured = machine.run("cat", CONFIG).stdout
    machine.run("bash", "-c", f"{APT_GET} install /packages/tmpmaild_{NEWER}*.deb")
    assert machine.run("cat", CONFIG).stdout == configured
    assert machine.run("cat", f"{CONFIG}.dpkg-dist").stdout != configured
    machine.until(ActiveState="active")
    assert machine.run("tmpmaild", "status").stdout.startswith(f"tmpmaild {NEWER}+")
    assert machine.python(READ, address) == "kept"

    machine.run("apt-get", "remove", "--yes", "tmpmaild")
    assert machine.show("ActiveState") == "inactive"
    assert machine.run("cat", CONFIG).stdout == configured
    assert machine.run("find", "/usr", "-name", "*tmpmaild*").stdout == ""
    machine.run("bash", "-c", f"{APT_GET} install /packages/tmpmaild_{NEWER}*.deb")
    machine.run("systemctl", "start", "tmpmaild")
    assert machine.python(READ, address) == "kept"
    machine.run("apt-get", "purge", "--yes", "tmpmaild")
    assert machine.show("LoadState") == "not-found"
    assert machine.run("bash", "-c", HOLDS, check=False).stdout == before
    figure(f"the package on a Debian {suite}", "installed, upgraded, removed, purged", "all")


def test_an_upgrade_does_not_stop_the_running_version_if_the_new_one_would_not_start(machine, package):
    install(machine, package)
    address = machine.python(MAIL)
    configured = machine.run("cat", CONFIG).stdout
    process = machine.show("MainPID")
    machine.write(CONFIG, configured.replace("[smtp]", "[smtp]\nmax_conections = 9"))  # not loaded by the service yet
    said = machine.run("bash", "-c", f"{APT_GET} install /packages/tmpmaild_{NEWER}*.deb 2>&1").stdout
    assert "smtp.max_conections: unknown key, did you mean smtp.max_connections?" in said
    assert "tmpmaild: the old version goes on running, since this one would not start" in said
    assert machine.show("MainPID") == process
    assert machine.python(READ, address) == "kept"
    machine.write(CONFIG, configured)
    machine.run("bash", "-c", "tmpmaild check-config && systemctl restart tmpmaild")  # suggested by the package
    assert machine.run("tmpmaild", "status").stdout.startswith(f"tmpmaild {NEWER}+")
    assert machine.python(READ, address) == "kept"


def test_mail_can_be_moved_to_a_new_machine(machine, suite, folder, package, tmp_path):
    """Uses the commands in docs/operations.md; addresses, postmaster's mail and the address key are moved too."""
    make, restore = [block.script for block in shell_blocks("docs/operations.md") if block.heading in MOVES]
    install(machine, package)
    address = machine.python(MAIL)
    machine.run("bash", "-euc", make)
    copy = machine.run("base64", "/root/tmpmaild.copy").stdout
    configured = machine.run("cat", CONFIG).stdout
    with machines.booted(PACKAGES, {"/packages": folder}, tmp_path / "second.txt", suite) as second:
        second.run("apt-get", "install", "--yes", f"/packages/{package.name}")
        second.write(CONFIG, configured)
        second.run("bash", "-c", "base64 --decode > /root/tmpmaild.copy", stdin=copy)
        second.run("bash", "-euc", restore)
        assert second.python(READ, address) == "kept"
        assert "1 inbox" in second.run("tmpmaild", "status").stdout
        owners = second.run("bash", "-c", "stat --format=%u /var/lib/private/tmpmaild{,/*} | uniq").stdout
        assert len(owners.splitlines()) == 1
        assert second.run("stat", "--format=%a", "/var/lib/private/tmpmaild/tmpmaild.db").stdout == "600\n"
        refused = second.run("tmpmaild", "restore", "/root/tmpmaild.copy", check=False)
        assert (refused.returncode, "in use by another tmpmaild" in refused.stderr) == (1, True)
        second.run("systemctl", "stop", "tmpmaild")
        refused = second.run("tmpmaild", "restore", "/root/tmpmaild.copy", check=False)
        assert (refused.returncode, "holds 1 inbox and 1 message; move" in refused.stderr) == (1, True)


def blocks(page, heading):
    return [block.script for block in shell_blocks(page) if block.heading == heading]


def perform(machine, script, stdin=None):
    """Run a script without a terminal, so that createuser reads the password twice from its standard input."""
    done = machine.run("setsid", "--wait", "bash", "-euo", "pipefail", "-c", script, stdin=stdin, check=False)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}\n{machine.log()}"


def make_database(machine):
    perform(machine, blocks("docs/scaling.md", "The database")[0], stdin=f"{PASSWORD}\n{PASSWORD}\n")


def serve(machine, package, engine, folder):
    """Install the service with this storage engine, and with a certificate stored in certbot's layout."""
    install(machine, package)
    configured = machine.run("cat", CONFIG).stdout
    if engine == "postgresql":
        make_database(machine)
        machine.write("/etc/tmpmaild/postgresql-password", PASSWORD, "0600")
        machine.write("/etc/systemd/system/tmpmaild.service.d/password.conf", CREDENTIAL)
        configured = re.sub("^path = .*\n", POSTGRESQL, configured, flags=re.MULTILINE)
    machine.write(CONFIG, configured + LIMITS)
    certificates.make(folder, "mx.tmp.example.org", certificate="fullchain.pem", key="privkey.pem")
    for name in ("fullchain.pem", "privkey.pem"):
        machine.write(f"/etc/letsencrypt/archive/tmp.example.org/{name}", (folder / name).read_text(), "0600")
    link = "mkdir /etc/letsencrypt/live; ln -s ../archive/tmp.example.org /etc/letsencrypt/live/"
    perform(machine, link + "\n" + blocks("docs/operations.md", "STARTTLS")[0])


@pytest.fixture
def old_and_new(engine, package, tmp_path):
    """Yield two running machines: one with Debian 12, and one with Debian 13 and the package installed."""
    packages = PACKAGES if engine == "sqlite" else (*PACKAGES, "postgresql", "sudo")
    mounts = {"/packages": package.parent}
    before, after = chroot_image.SUITES
    with (
        machines.booted(packages, mounts, tmp_path / "old.txt", before) as old,
        machines.booted(packages, mounts, tmp_path / "new.txt", after) as new,
    ):
        serve(old, package, engine, tmp_path)
        new.run("apt-get", "install", "--yes", f"/packages/{package.name}")
        if engine == "postgresql":
            make_database(new)
        yield old, new


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_clients_see_no_difference_after_a_move_to_a_newer_debian(engine, old_and_new, figure):
    """Uses the commands in docs/operations.md and docs/scaling.md, while messages arrive and an address expires."""
    old, new = old_and_new
    pack, unpack, delete = blocks("docs/operations.md", "Move to another machine")
    if engine == "postgresql":
        dump, load, drop = blocks("docs/scaling.md", "Move the database")
        pack, unpack, delete = pack + dump, load + unpack, delete + drop
    before = json.loads(old.python(LOOK))
    with old.background(SEND) as sending:
        address = sending.stdout.readline().strip()
        perform(old, pack)
        sent = json.loads(sending.stdout.read())
    for path in old.run("find", "/root", "-name", "*.tar", "-o", "-name", "*.dump").stdout.split():
        copy = old.run("base64", path).stdout
        new.run("bash", "-c", 'umask 077; base64 --decode > "$0"', path, stdin=copy)
    time.sleep(20)  # wait until the third address has expired
    perform(new, unpack)
    after = json.loads(new.python(LOOK, json.dumps(before["keys"])))
    assert (after["certificate"], after["seen"][:2]) == (before["certificate"], before["seen"][:2])
    assert after["seen"][2] == [410] * 4
    subjects = new.python(READ, address).split()
    assert 0 < len(sent["acknowledged"]) <= len(subjects) <= len(sent["acknowledged"]) + 1, sent
    assert set(sent["acknowledged"]) <= set(subjects)
    kept = before["keys"][0][0]
    new.python(DELIVER, kept)
    assert new.python(READ, kept) == "new kept"
    held = {"inboxes": 3, "messages": len(subjects) + 6}  # postmaster has three messages; expired inboxes are deleted
    end = time.monotonic() + machines.PATIENCE_SECONDS
    while (numbers := json.loads(new.run("tmpmaild", "status", "--json").stdout)["numbers"]) != numbers | held:
        assert time.monotonic() < end, numbers
        time.sleep(1)
    perform(old, delete)
    assert old.run("find", "/root", "/var/lib/private", "-type", "f", "-mmin", "-60").stdout == ""
    figure(f"a move from Debian 12 to 13 on {engine}", f"{len(subjects)} mails came meanwhile, all are there", "all")


@pytest.mark.needs("gpg")
def test_unattended_upgrades_installs_a_new_version(suite, package, folder, tmp_path, monkeypatch):
    """Uses the commands in docs/operations.md and a repository on the machine itself, which has no network."""
    (block,) = [one.script for one in shell_blocks("docs/operations.md") if one.heading == UPDATES]
    (home := tmp_path / "gnupg").mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    generate = ["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "ada@example.com", "ed25519"]
    subprocess.run([*generate, "sign"], check=True)
    apt.build(folder, folder / "apt", "ada@example.com")
    subprocess.run(["gpgconf", "--kill", "all"], check=True)
    more = (*PACKAGES, "curl", "unattended-upgrades")
    with machines.booted(more, {"/packages": folder}, tmp_path / "console.txt", suite) as machine:
        machine.run("rm", "-f", "/etc/apt/sources.list")
        install(machine, package)
        address = machine.python(MAIL)
        with machine.background(SERVE) as server:
            assert server.stdout.readline() == "serves\n"
            machine.run("bash", "-euc", block.replace("https://apt.example.org", "http://127.0.0.1:8080"))
            machine.run("apt-get", "update", "--error-on=any")
            said = machine.run("unattended-upgrade", "--debug").stdout
        assert machine.run("tmpmaild", "status").stdout.startswith(f"tmpmaild {NEWER}+"), said
        assert machine.python(READ, address) == "kept"


@pytest.mark.parametrize("debians", [("bookworm", "trixie"), ("trixie", "testing")])
def test_debian_can_be_upgraded_with_the_package_installed(package, folder, tmp_path, figure, debians):
    """The packages of the next Debian release are downloaded before the machine boots, because it has no network."""
    before, after = debians
    with machines.overlay(chroot_image.debian(PACKAGES, before)) as root:
        FreshMachine(root, package).must("root", HOLD_SYSTEMD + f"before={before} after={after}\n{FETCH_UPGRADE}")
        with machines.booted(PACKAGES, {"/packages": folder}, tmp_path / "console.txt", root=root) as machine:
            install(machine, package)
            address = machine.python(MAIL)
            machine.run("bash", "-c", f"{APT_GET} --no-download full-upgrade")
            python = machine.python("import sys; print('%d.%d' % sys.version_info[:2])")
            assert python in deb.PYTHONS
            assert python != machines.PYTHONS[before]
            assert machine.python(READ, address) == "kept"
            machine.run("systemctl", "restart", "tmpmaild")
            assert machine.python(READ, address) == "kept"
            machine.python(MAIL)
            compiled = machine.run("find", "/usr/lib/tmpmaild", "-name", "*.pyc").stdout.split()
            assert {name.split(".")[-2] for name in compiled} == {f"cpython-{python.replace('.', '')}"}
    runs = f"with Python {python} the service runs, its mail is there"
    figure(f"Debian {before} upgraded to {after} below the package", runs, "both")
