"""A fresh Debian 12 or 13 that boots with systemd in its own container, with only a loopback network device."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import chroot_image
import constraints
from daemons import finished

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 120
PROGRAMS = ("systemd-nspawn", "nsenter", "debootstrap")
PYTHONS = {"bookworm": "3.11", "trixie": "3.13"}
# The first script creates an address, sends it a message through port 25, and prints the address; the second prints the
# subjects of an address's messages.
MAIL = Path(__file__).with_name("machines_mail.py").read_text()
READ = Path(__file__).with_name("machines_read.py").read_text()


def missing():
    """Return the reason why no machine can be booted here, or "" if booting can be attempted."""
    absent = [name for name in PROGRAMS if not shutil.which(name)]
    if absent:
        return f"needs {', '.join(absent)} (Debian packages systemd-container, util-linux, debootstrap)"
    return "" if os.geteuid() == 0 else "only root can boot a container"


class Machine:
    """A booted container; commands run in it as root."""

    def __init__(self, leader):
        self._enter = ["nsenter", "--target", str(leader), "--all"]
        self._environ = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}

    def run(self, *command, stdin=None, check=True):
        done = finished([*self._enter, *command], env=self._environ, input=stdin, timeout=None)
        assert not check or done.returncode == 0, (command, done.stdout, done.stderr)
        return done

    def python(self, script, *arguments):
        return self.run("/usr/bin/python3", "-c", script, *arguments).stdout.strip()

    @contextmanager
    def background(self, script):
        """Run a script that exits when its standard input is closed, because nsenter does not forward signals."""
        command = [*self._enter, "/usr/bin/python3", "-c", script]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=self._environ, stdin=pipe, stdout=pipe, text=True) as process:
            try:
                yield process
            finally:
                process.stdin.close()

    def write(self, path, text, mode="0644"):
        self.run("/bin/sh", "-c", 'mkdir -p "${0%/*}" && cat > "$0" && chmod "$1" "$0"', path, mode, stdin=text)

    def show(self, name):
        return self.run("systemctl", "show", "--property", name, "--value", "tmpmaild").stdout.strip()

    def until(self, **states):
        end = time.monotonic() + PATIENCE_SECONDS
        while {name: self.show(name) for name in states} != states:
            assert time.monotonic() < end, self.log()
            time.sleep(0.2)

    def log(self):
        return self.run("journalctl", "--no-pager", "--unit", "tmpmaild*", "--lines", "300").stdout


@contextmanager
def installed(packages, folder, extra="", suite=chroot_image.SUITES[0]):
    """Boot Debian with the program in ``/opt/tmpmaild`` and its units in ``/etc/systemd/system``; yield a Machine.

    ``folder`` is for the wheels and the console output; ``extra`` is an optional dependency group, such as
    ``[postgresql]``.
    """
    if reason := missing():
        pytest.skip(reason)
    wheels = folder / "wheels"
    pip = [sys.executable, "-m", "pip", "--quiet", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", wheels, ROOT], check=True)
    fetch(wheels, suite, *(f"{wheel}{extra}" for wheel in wheels.glob("*.whl")))
    mounts = {"/wheels": wheels, "/units": ROOT / "systemd"}
    with booted(packages, mounts, folder / "console.txt", suite) as machine:
        machine.run("python3", "-m", "venv", "/opt/tmpmaild")
        pip = ("/opt/tmpmaild/bin/pip", "install", "--quiet", "--no-index", "--find-links", "/wheels")
        machine.run(*pip, f"tmpmaild{extra}")
        machine.run("/bin/sh", "-c", "cp /units/* /etc/systemd/system/")
        yield machine


def fetch(folder, suite, *wanted):
    """Download the wheels for these requirements in the pinned versions, for this Debian's Python."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--quiet", "--only-binary=:all:", "--dest", folder]
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as versions:
        versions.writelines(f"{name}=={version}\n" for name, version in constraints.pins().items())
        versions.flush()
        subprocess.run([*pip, "--python-version", PYTHONS[suite], "--constraint", versions.name, *wanted], check=True)


def fetch_for_checkout(folder, suite):
    """Download the wheels that docs/operations.md installs in addition to a checkout, for this Debian's Python."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--quiet", "--only-binary=:all:", "--dest", folder]
    pins = ("--require-hashes", "--no-deps", "--requirement", ROOT / "constraints/run.txt")
    subprocess.run([*pip, "--python-version", PYTHONS[suite], *pins], check=True)


@contextmanager
def overlay(base):
    """Mount a writable overlay, stored on disk, over a Debian system; yield its root."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="tmpmaild-machine-") as name:
        upper, work, root = folders = [Path(name, part) for part in ("upper", "work", "root")]
        for folder in folders:
            folder.mkdir()
        options = f"lowerdir={base},upperdir={upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, root], check=True)
        try:
            yield root
        finally:
            subprocess.run(["umount", root], check=True)


@contextmanager
def booted(packages, mounts, console, suite=chroot_image.SUITES[0], root=None):
    """Boot Debian with these packages and mounted folders (a dict of inside to outside paths); yield a Machine.

    ``suite`` is the name of the Debian release, ``console`` a file for the console output, and ``root`` the root of an
    existing Debian system, which may be changed. Skips the test if no container boots on this machine.
    """
    base = [root] if root else [chroot_image.debian(packages, suite), "--volatile=overlay"]
    command = ["systemd-nspawn", "--quiet", "--directory", *base, "--private-network"]
    command += ["--register=no", "--keep-unit", "--console=read-only", "--boot"]
    command += [f"--bind-ro={ours}:{inside}" for inside, ours in mounts.items()]
    # This folder is on disk, because systemd 257 cannot map the ids of a dynamic user's folders on an overlay.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as private, console.open("wb") as output:
        command += [f"--bind={private}:/var/lib/private"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            yield _when_up(process, console)
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)


def _when_up(process, console):
    end = time.monotonic() + PATIENCE_SECONDS
    while process.poll() is None and time.monotonic() < end:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()
        machine = Machine(children[0]) if children else None
        if machine:
            state = machine.run("systemctl", "is-system-running", check=False).stdout.strip()
            if state in ("running", "degraded"):
                return machine
        time.sleep(0.2)
    return pytest.skip(f"no container boots here: {console.read_text(errors='replace')[-500:]}")
