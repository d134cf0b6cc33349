"""The third-party programs that tests need, and the Debian packages that provide them; no other file lists them.

A test that starts one of these programs is marked ``needs("name of the program")``. Run as a script, this module prints
the packages that are missing on this machine.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"])


class Peer(NamedTuple):
    """A program's Debian packages, and whether it is usable on this machine."""

    packages: tuple[str, ...]
    is_here: Callable[[], bool]


def which(program: str) -> str | None:
    """Return the path of a program, which may be in an administrator's folder such as /usr/sbin."""
    return shutil.which(program, path=PATH)


def postgresql() -> Path | None:
    """Return the folder that contains initdb and postgres, in the newest installed version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def _programs(*names: str, packages: tuple[str, ...] = ()) -> Peer:
    return Peer(packages or names, lambda: all(map(which, names)))


def _can_load(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _swaks_knows_tls() -> bool:
    program = which("swaks")
    said = program and subprocess.run([program, "--support"], capture_output=True, text=True, check=False).stdout
    return "TLS supported" in (said or "")


# Playwright's node is linked against libatomic.
_BROWSERS = ("chromium", "chromium-headless-shell")
_JUNIT = Path("/usr/share/java/junit-platform-console-standalone.jar")
NGINX_STREAM = Path("/usr/lib/nginx/modules/ngx_stream_module.so")
_HTTP = Path("/usr/lib/mono/4.5/System.Net.Http.dll")
_ASSEMBLIES = ("libmono-system-net-http4.0-cil", "libmono-system-runtime-serialization4.0-cil")
PEERS = {
    "apt": _programs("apt-get", "dpkg-deb", packages=("apt", "dpkg")),
    "bats": _programs("bats"),
    "binutils": _programs("strip", packages=("binutils",)),
    "binutils-aarch64": _programs("aarch64-linux-gnu-strip", packages=("binutils-aarch64-linux-gnu",)),
    "caddy": _programs("caddy"),
    "chromium": Peer((*_BROWSERS, "libatomic1"), lambda: all(map(which, _BROWSERS)) and _can_load("libatomic.so.1")),
    "csharp": Peer(("mono-mcs", *_ASSEMBLIES), lambda: bool(which("mcs") and _HTTP.exists())),
    "curl": _programs("curl"),
    "fail2ban": _programs("fail2ban-regex", packages=("fail2ban",)),
    "firefox": _programs("firefox-esr"),
    "fish": _programs("fish"),
    "go": _programs("go", packages=("golang-go",)),
    "gpg": _programs("gpg", "gpgconf", packages=("gpg", "gpg-agent", "gpgconf")),
    "haproxy": _programs("haproxy"),
    "java": Peer(("default-jdk-headless", "junit5"), lambda: bool(which("javac") and _JUNIT.exists())),
    "jq": _programs("jq"),
    "lintian": _programs("lintian"),
    "mandoc": _programs("mandoc"),
    "mergerfs": Peer(("mergerfs",), lambda: bool(which("mergerfs")) and os.access("/dev/fuse", os.W_OK)),
    "msmtp": _programs("msmtp"),
    "nginx": _programs("nginx", packages=("nginx-light",)),
    "nginx-stream": Peer(
        ("nginx-light", "libnginx-mod-stream"), lambda: bool(which("nginx")) and NGINX_STREAM.exists()
    ),
    "node": _programs("node", "npm", packages=("nodejs", "npm")),
    "opendkim": _programs("opendkim"),
    "openssl": _programs("openssl"),
    "php": _programs("php", "phpunit", packages=("php-cli", "phpunit")),
    "postfix": _programs("postfix"),
    "postgresql": Peer(("postgresql",), lambda: bool(postgresql() and which("psql"))),
    "prometheus": _programs("promtool", packages=("prometheus",)),
    "ruby": _programs("ruby", packages=("ruby", "ruby-minitest")),
    "sqlite3": _programs("sqlite3"),
    "strace": _programs("strace"),
    "swaks": Peer(("swaks", "libnet-ssleay-perl"), _swaks_knows_tls),
    "systemd": _programs("systemd-analyze", packages=("systemd",)),
    "webkit": _programs("WebKitWebDriver", "Xvfb", packages=("webkit2gtk-driver", "xvfb")),
    "xdotool": _programs("xdotool"),
    "zsh": _programs("zsh"),
}


ONLY_OF_PROOFS = (
    "binutils",
    "binutils-aarch64",
    "csharp",
    "go",
    "java",
    "lintian",
    "mandoc",
    "php",
    "postfix",
    "ruby",
    "xdotool",
)


def missing(names: Iterable[str] = tuple(PEERS.keys() - ONLY_OF_PROOFS)) -> list[str]:
    """Return the programs that are not usable on this machine."""
    return [name for name in sorted(names) if not PEERS[name].is_here()]


def packages(names: Iterable[str]) -> str:
    """Return the packages of these programs, as arguments for apt-get."""
    return " ".join(package for name in names for package in PEERS[name].packages)


if __name__ == "__main__":
    sys.stdout.write(packages(missing()) + "\n")
