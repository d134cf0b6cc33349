"""Minimal Debian systems without any preparation: an overlay over debootstrap's files, with this machine's network."""

import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import chroot_image
from machines import overlay

ROOT = Path(__file__).parents[2]
USER = "somebody"
HOMES = {"root": "/root", USER: f"/home/{USER}"}
# Every installer adds these suites; debootstrap only adds the release itself.
_MORE_SUITES = "".join(
    f"deb http://deb.debian.org/{archive} main\n" for archive in ("debian-security {0}-security", "debian {0}-updates")
)
_MAKE_HOMES = f"useradd --create-home --shell /bin/bash {USER} && chmod 0700 {' '.join(HOMES.values())}"


class FreshMachine:
    """A system that runs only the given commands; their changes persist until the context ends."""

    def __init__(self, root, bundle):
        self._command = ["systemd-nspawn", "--quiet", "--directory", root, "--register=no", "--keep-unit", "--pipe"]
        self._command += ["--as-pid2", "--resolv-conf=off", f"--bind-ro={bundle}:/tmpmaild.bundle"]
        self._command += [f"--setenv={variable}" for variable in chroot_image.variables()]

    def run(self, user, script, folder=""):
        """Run a script with bash in the user's home or a folder in it; the output includes standard error."""
        command = [*self._command, f"--user={user}", f"--chdir={HOMES[user]}/{folder}", "bash", "-euc", script]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def must(self, user, script, folder=""):
        done = self.run(user, script, folder)
        assert done.returncode == 0, f"{script}\n{done.stdout[-4000:]}"
        return done.stdout

    def install(self, packages):
        """Install Debian packages."""
        options = "-qq --yes --no-install-recommends"
        self.must("root", f"DEBIAN_FRONTEND=noninteractive apt-get install {options} {packages} > /dev/null")


@contextmanager
def fresh(suite):
    """Yield a Debian system with two users, who have private homes, and with the commit in ``/tmpmaild.bundle``."""
    base = chroot_image.debian(["ca-certificates"], suite)
    with overlay(base) as root, tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "bundle", "create", "--quiet", f"{folder}/bundle", "HEAD"], cwd=ROOT, check=True)
        machine = FreshMachine(root, f"{folder}/bundle")
        (root / "etc/apt/sources.list.d/updates.list").write_text(_MORE_SUITES.format(suite))
        machine.must("root", _MAKE_HOMES)
        machine.must("root", "apt-get -qq update")
        yield machine
