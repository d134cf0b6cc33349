"""Builds dist/tmpmaild_VERSION_ARCHITECTURE.deb, one package for all releases whose Python version is in PYTHONS.

The program and the pinned versions of its libraries are in /usr/lib/tmpmaild. A virtual environment is not used,
because it would be bound to one Python version. Instead, compiled files are installed once for each Python version,
which is part of their names, and all other files are shared. Nothing has to be rebuilt when a Debian upgrade replaces
Python.

Requires dpkg-deb and strip (Debian packages dpkg and binutils), and access to PyPI. With the same versions of these
programs, a commit always produces the same bytes: all file times are the commit's time, or $SOURCE_DATE_EPOCH. Building
for a foreign architecture does not compile or run any foreign code: the libraries are wheels, and Debian provides a
``strip`` for that architecture.

python tools/deb.py [FOLDER] [ARCHITECTURE]      by default dist/ and this machine's: amd64 or arm64
"""

import argparse
import gzip
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Final

import versions

import constraints
import manpages
from tmpmaild import __version__

ROOT: Final = Path(__file__).parents[1]
# The Python versions of Debian 12, Ubuntu 24.04, Debian 13, Ubuntu 26.04 and the next Debian release, as listed in
# deb/control.
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14", "3.15")
# The extras that configuration keys or user commands need; the MCP server, which is for agents, is not included.
EXTRAS: Final = "client,dns,postgresql,senders"
_FROM_SOURCE: Final = ("dkimpy", "pyspf")  # PyPI has no wheels of these libraries; they contain no compiled files
MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
_GLIBC: Final = ("manylinux2014", "manylinux_2_17", "manylinux_2_28")  # older glibc versions than Debian 12 has
_VERSION: Final = versions.of_debian(__version__)
_SHELLS: Final = {
    "bash": "bash-completion/completions/tmpmaild",
    "zsh": "zsh/vendor-completions/_tmpmaild",
    "fish": "fish/vendor_completions.d/tmpmaild.fish",
}
PAGES: Final = "api commands configuration known-issues metrics operations privacy scaling security webhooks".split()
_FROM_CHECKOUT: Final = (
    "# Uses env, so that this file can be verified on a machine where tmpmaild is not installed.\n",
    "/usr/bin/env /opt/tmpmaild/bin/tmpmaild",
)


def build(target: Path, architecture: str) -> Path:
    """Build the package in a folder and return its path."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "root")
        libraries(root / "usr/lib/tmpmaild", Path(name), MACHINES[architecture])
        _programs(root)
        _documentation(root)
        _control(root, architecture)
        _set_modes(root)
        target.mkdir(parents=True, exist_ok=True)
        package = target / f"tmpmaild_{_VERSION}_{architecture}.deb"
        _run("dpkg-deb", "-Zxz", "--root-owner-group", "--build", root, package)
    return package


def libraries(folder: Path, scratch: Path, machine: str) -> None:
    """Install tmpmaild and its dependencies for each Python into the same folder."""
    pip = (sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check")
    pins = {name: scratch / f"{name}.txt" for name in ("sources", "wheels")}
    pins["sources"].write_text(constraints.requirements("service", only=_FROM_SOURCE), encoding="utf-8")
    pins["wheels"].write_text(constraints.requirements("service", without=_FROM_SOURCE), encoding="utf-8")
    built = (*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", scratch)
    _run(*built, "--require-hashes", "--requirement", pins["sources"])
    _run(*built, ROOT)
    (wheel,) = scratch.glob("tmpmaild-*.whl")
    for python in PYTHONS:
        platforms = [f"--platform={glibc}_{machine}" for glibc in _GLIBC]
        options = ("--only-binary=:all:", f"--python-version={python}", *platforms)
        fetched, one = scratch / f"wheels-{python}", scratch / python
        checked = ("--require-hashes", "--no-deps", "--requirement", pins["wheels"])
        _run(*pip, "download", f"--dest={fetched}", *options, *checked)
        known = ("--no-index", f"--find-links={fetched}", f"--find-links={scratch}")
        _run(*pip, "install", f"--target={one}", "--no-compile", *known, *options, f"{wheel}[{EXTRAS}]")
        shutil.copytree(one, folder, dirs_exist_ok=True)
    for unwanted in (folder / "bin", folder / "share", *folder.glob("*/tests")):
        shutil.rmtree(unwanted)
    for name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"):  # pip needs these only to uninstall
        for path in folder.glob(f"*.dist-info/{name}"):
            path.unlink()
    for compiled in folder.rglob("*.so"):
        _run(strip_of(machine), "--strip-unneeded", compiled)


def strip_of(machine: str) -> str:
    """Return the name of the ``strip`` program for a machine type; Debian also provides it for foreign machines."""
    return f"{machine}-linux-gnu-strip"


def units() -> dict[str, str]:
    """Return the systemd units, changed to start the packaged program."""
    comment, program = _FROM_CHECKOUT
    found = sorted([*ROOT.glob("systemd/*.service"), *ROOT.glob("systemd/*.socket")])
    return {
        unit.name: unit.read_text("utf-8").replace(comment, "").replace(program, "/usr/bin/tmpmaild") for unit in found
    }


def examples() -> dict[str, Path]:
    """Return the files in /usr/share/doc/tmpmaild/examples."""
    others = [ROOT / "config.example.toml", *ROOT.glob("docs/proxy/*"), *ROOT.glob("docs/monitoring/*")]
    return {"fail2ban.conf": ROOT / "docs/fail2ban/tmpmaild.conf"} | {path.name: path for path in others}


def _programs(root: Path) -> None:
    """Install the command, its completion, its configuration and the units in Debian's directories."""
    _copy("deb/tmpmaild", root / "usr/bin/tmpmaild")
    _copy("systemd/config.toml", root / "etc/tmpmaild/config.toml")
    _copy("deb/rtupdate", root / "usr/share/python3/runtime.d/tmpmaild.rtupdate")
    for name, text in units().items():
        _write(root / "usr/lib/systemd/system" / name, text)
    for shell, place in _SHELLS.items():
        _write(root / "usr/share" / place, _output(sys.executable, "-m", "tmpmaild", "completion", shell))


def _documentation(root: Path) -> None:
    _write(root / "usr/share/man/man1/tmpmaild.1.gz", manpages.command_page())
    _write(root / "usr/share/man/man5/tmpmaild.toml.5.gz", manpages.configuration_page())
    _copy("deb/lintian-overrides", root / "usr/share/lintian/overrides/tmpmaild")
    here = root / "usr/share/doc/tmpmaild"
    for name, path in examples().items():
        _copy(path, here / "examples" / name)
    for page in PAGES:
        _copy(f"docs/{page}.md", here / f"{page}.md")
    _write(here / "CHANGELOG.md.gz", (ROOT / "CHANGELOG.md").read_text("utf-8"))
    date = formatdate(int(os.environ["SOURCE_DATE_EPOCH"]))
    what = "  * CHANGELOG.md.gz lists the changes, and explains what to do when upgrading."
    author = next(
        line for line in (ROOT / "deb/control").read_text("utf-8").splitlines() if line.startswith("Maintainer: ")
    )
    entry = f"tmpmaild ({_VERSION}) stable; urgency=medium\n\n{what}\n\n -- {author.partition(' ')[2]}  {date}\n"
    _write(here / "changelog.gz", entry)
    text = (ROOT / "deb/copyright").read_text("utf-8")
    licence = "".join(f" {line}\n" if line else " .\n" for line in _licence().splitlines())
    _write(here / "copyright", text.format(libraries="\n".join(_licences(root)), licence=licence.rstrip("\n")))


def _licence() -> str:
    """Return the text of the licence without its title and copyright line."""
    return (ROOT / "LICENSE").read_text("utf-8").split("\n\n", 2)[2]


def _licences(root: Path) -> Iterator[str]:
    found = importlib.metadata.distributions(path=[str(root / "usr/lib/tmpmaild")])
    for one in sorted(found, key=lambda one: one.name.lower()):
        about = one.metadata
        classified = [text.rpartition(" :: ")[2] for text in about.get_all("Classifier", []) if "License ::" in text]
        licence = about.get_all("License-Expression", []) or about.get_all("License", []) or classified
        yield from textwrap.wrap(f"{one.name} {one.version}: {licence[0].splitlines()[0]}", 78, initial_indent=" ")


def _control(root: Path, architecture: str) -> None:
    files = sorted(path for path in root.rglob("*") if path.is_file())
    kibibytes = sum(path.stat().st_size + 1023 >> 10 for path in files)
    sums = [
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(root)}\n"
        for path in files
        if path.parts[len(root.parts)] != "etc"
    ]
    text = (ROOT / "deb/control").read_text("utf-8")
    folder = root / "DEBIAN"
    _write(folder / "control", text.format(version=_VERSION, architecture=architecture, kibibytes=kibibytes))
    _write(folder / "conffiles", "/etc/tmpmaild/config.toml\n")
    _write(folder / "md5sums", "".join(sums))
    for script in ("postinst", "prerm", "postrm"):
        _copy(f"deb/{script}", folder / script)


def _set_modes(root: Path) -> None:
    """Make all files readable, and programs with an interpreter line executable, regardless of the umask."""
    for path in root.rglob("*"):
        programs = (root / "DEBIAN", root / "usr/bin", root / "usr/share/python3/runtime.d")
        is_program = path.parent in programs and path.read_bytes().startswith(b"#!")
        path.chmod(0o755 if path.is_dir() or is_program else 0o644)
    root.chmod(0o755)


def _build_with_version(target: Path, architecture: str) -> None:
    """Build the package from a copy of the checkout, with the version of the last commit."""
    with tempfile.TemporaryDirectory() as name:
        for tracked in _output("git", "ls-files", "-z").split("\0"):
            if (ROOT / tracked).is_file():
                (copy := Path(name, tracked)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / tracked, copy)
        versions.write(Path(name), versions.of_commit(ROOT))
        command = (sys.executable, "tools/deb.py", target, architecture)
        subprocess.run(command, cwd=name, env=os.environ | {"PYTHONPATH": name}, check=True)  # noqa: S603 - ours


def date() -> str:
    """Return the package's timestamp in seconds: $SOURCE_DATE_EPOCH, or the time of the last commit."""
    return os.environ.get("SOURCE_DATE_EPOCH") or _output("git", "log", "-1", "--format=%ct").strip()


def _copy(source: str | Path, target: Path) -> None:
    _write(target, (ROOT / source).read_text("utf-8"))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode()
    path.write_bytes(gzip.compress(content, 9, mtime=0) if path.suffix == ".gz" else content)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, encoding="utf-8").stdout  # noqa: S603 - ours


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, cwd=ROOT)  # noqa: S603 - no untrusted input


def main() -> None:
    """Build the package for the architecture on the command line."""
    parser = argparse.ArgumentParser(description="Build the package.")
    parser.add_argument("folder", nargs="?", default="dist", type=Path)
    parser.add_argument("architecture", nargs="?", choices=MACHINES, help="by default this machine's")
    given = parser.parse_args()
    architecture = given.architecture or _output("dpkg", "--print-architecture").strip()
    strip = strip_of(MACHINES[architecture])
    if absent := [name for name in ("dpkg-deb", strip) if not shutil.which(name)]:
        binutils = f"binutils-{strip.removesuffix('-strip').replace('_', '-')}"
        sys.exit(f"needs {', '.join(absent)} (Debian packages dpkg, {binutils})")
    os.environ["SOURCE_DATE_EPOCH"] = date()
    os.environ["DPKG_DEB_THREADS_MAX"] = "1"  # otherwise the output of xz would depend on the number of processors
    if (ROOT / ".git").exists():
        _build_with_version(given.folder.resolve(), architecture)
        return
    sys.stdout.write(f"{build(given.folder.resolve(), architecture)}\n")


if __name__ == "__main__":
    main()
