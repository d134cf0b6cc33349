"""The commands in README.md and docs/operations.md, run unchanged on Debian with systemd: install, operate, upgrade.

Two programs that need the internet are replaced: apt-get only installs our package and checks that all others are
already installed, and certbot creates its own certificate. pip and git get their files from this machine.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import chroot_image
import machines
from blocks import ROOT, shell_blocks

INSTALL = [block for block in shell_blocks("README.md") if block.heading == "Install on a server"]
CHECKOUT = [block for block in shell_blocks("docs/operations.md") if block.heading == "From a checkout"]
ALONE = (
    "From a checkout",
    "Debian 12 to Debian 13",
    "Restore",
    "Move to another machine",
    "Automatic updates",
)  # test_booted.py and test_deb.py run these blocks
OPERATIONS = [block for block in shell_blocks("docs/operations.md") if block.heading not in ALONE]
BASE = ("ca-certificates", "dbus", "python3", "systemd", "systemd-sysv")
APT_GET = Path(__file__).with_name("install_apt_get.sh").read_text()
CERTBOT = Path(__file__).with_name("install_certbot.sh").read_text()
MAIL = Path(__file__).with_name("install_mail.py").read_text()
OFFERS_TLS = Path(__file__).with_name("install_offers_tls.py").read_text()
# doctor reports that there is no DNS, and that port 25 cannot be reached from outside.
MAY_FAIL = {"tmpmaild doctor"}


def packages():
    asked = re.findall(
        r"^apt-get install (.+)$", "".join(block.script for block in INSTALL + OPERATIONS + CHECKOUT), re.MULTILINE
    )
    words = {word for line in asked for word in line.split() if not word.startswith(("-", "./"))}
    return sorted({*BASE, *words, "curl", "sqlite3"} - {"certbot"})


@pytest.fixture(scope="module", params=chroot_image.SUITES)
def suite(request):
    return request.param


@pytest.fixture(scope="module")
def internet(suite, tmp_path_factory):
    """Return a folder that contains the package and everything that pip and git would fetch."""
    folder = tmp_path_factory.mktemp("internet")
    subprocess.run(["git", "clone", "--quiet", "--bare", ROOT, folder / "tmpmaild.git"], check=True)
    machines.fetch_for_checkout(folder / "wheels", suite)
    subprocess.run([sys.executable, ROOT / "tools/deb.py", folder], check=True)
    return folder


@pytest.fixture
def machine(amount, suite, internet, tmp_path_factory):
    if amount(whole=False, quick=True):
        pytest.skip("takes minutes; run without QUICK")
    if reason := machines.missing():
        pytest.skip(reason)
    console = tmp_path_factory.mktemp("console") / "console.txt"
    with machines.booted(packages(), {"/internet": internet}, console, suite) as machine:
        machine.write("/usr/local/sbin/apt-get", APT_GET, "0755")
        machine.write("/usr/local/sbin/certbot", CERTBOT, "0755")
        machine.write("/etc/pip.conf", "[global]\nno-index = true\nfind-links = /internet/wheels\n")
        address = "https://github.com/tmpmaild/tmpmaild"
        instead = f'[url "/internet/tmpmaild.git"]\n    insteadOf = {address}\n[safe]\n    directory = *\n'
        machine.write("/etc/gitconfig", instead)
        machine.run("systemctl", "disable", "--now", "nginx")  # both proxies are installed; use Caddy from here on
        yield machine


def perform(machine, block, changes=(), umask="022"):
    """Run a block; each command in it must succeed."""
    script = block.script
    for old, new in dict(changes).items():
        script = script.replace(old, new)
    script = "".join(
        f"{line.split('#')[0].rstrip()} || true\n" if line.startswith(tuple(MAY_FAIL)) else f"{line}\n"
        for line in script.splitlines()
    )
    done = machine.run("bash", "-euo", "pipefail", "-c", f"cd /internet\numask {umask}\n{script}", check=False)
    log = machine.run("journalctl", "--no-pager", "--lines=30", check=False).stdout if done.returncode else ""
    assert done.returncode == 0, f"{block.heading}\n{script}\n{done.stdout}\n{done.stderr}\n{log}"
    return done.stdout


def test_every_shell_block_for_operators_works_unchanged(machine, suite, figure):
    for block in INSTALL:
        perform(machine, block, umask="077")  # root's umask on some machines
    address = machine.python(MAIL, "tmp.example.org")
    for block in OPERATIONS:
        changes = {"name@tmp.example.org": address}
        if block.heading == "Mail to postmaster and abuse":
            (changes["ID"],) = set(re.findall(r"^msg_\w+", machine.run("tmpmaild", "postmaster").stdout, re.MULTILINE))
        if block.heading == "Behind nginx":
            machine.run("systemctl", "disable", "--now", "caddy")
        perform(machine, block, changes)
    asked = ["curl", "--silent", "--insecure", "--resolve", "tmp.example.org:443:127.0.0.1"]
    assert machine.run(*asked, "https://tmp.example.org/readyz").stdout == "ok\n"
    machine.python(MAIL, "tmp.example.net")
    machine.python(OFFERS_TLS)
    proof = f"shell blocks of README.md and docs/operations.md on a Debian {suite}"
    figure(proof, f"{len(INSTALL + OPERATIONS)} work", "all")


def test_an_installation_from_a_checkout_can_be_replaced_by_the_package(machine):
    install, upgrade, leave = CHECKOUT
    perform(machine, install, umask="077")
    address = machine.python(MAIL, "tmp.example.org")
    perform(machine, upgrade)
    perform(machine, leave)
    assert machine.run("systemctl", "show", "--property=FragmentPath", "tmpmaild").stdout.count("/lib/systemd/system/")
    assert machine.run("tmpmaild", "inboxes").stdout.endswith(f" {address}\n")
