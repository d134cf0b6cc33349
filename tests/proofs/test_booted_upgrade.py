"""An upgrade from Debian 12 to Debian 13 by docs/operations.md: the folders of one machine in another, and its mail is there.

By ``make proof-systemd``, as root. Debian's own upgrade needs the network: here the second machine gets what the first
had in ``/opt``, ``/etc`` and ``/var/lib``.
"""

import os
import subprocess

import pytest
from test_booted import CONFIG, MAIL, PACKAGES, READ

import chroot_image
import machines
from blocks import ROOT, shell_blocks

pytestmark = pytest.mark.skipif(not os.environ.get("BOOT"), reason="boots a Debian: make proof-systemd")
KEPT = ("opt/tmpmaild", "etc/tmpmaild", "var/lib/private/tmpmaild", "etc/systemd/system/tmpmaild.service")


def test_the_environment_is_made_anew_and_mail_is_kept(tmp_path, figure):
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
    machines.fetch(wheels, after, f"{ROOT}[dns]", "hatchling")
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
