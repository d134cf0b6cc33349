"""Creates a signed repository of Debian packages: static files for any web server.

The repository contains all tmpmaild_*.deb files in FOLDER and TARGET/pool. docs/operations.md explains its use.

Requires dpkg-deb and gpg (Debian packages dpkg and gpg), and the secret key.

python tools/apt.py FOLDER TARGET KEY      KEY is in any form that gpg accepts, such as a fingerprint
"""

import argparse
import gzip
import hashlib
import shutil
import subprocess
import time
from email.utils import formatdate
from pathlib import Path
from typing import Final

ARCHITECTURES: Final = ("amd64", "arm64")
_ABOUT: Final = "Origin: tmpmaild\nLabel: tmpmaild\nSuite: stable\nCodename: stable\nComponents: main\n"


def build(folder: Path, root: Path, key: str) -> Path:
    """Add the packages in ``folder`` to the repository in ``root``, rebuild its indexes, and return ``root``."""
    (root / "pool").mkdir(parents=True, exist_ok=True)
    for package in folder.glob("tmpmaild_*.deb"):
        shutil.copy(package, root / "pool")
    packages = sorted((root / "pool").glob("*.deb"))
    release = root / "dists/stable"
    shutil.rmtree(release, ignore_errors=True)
    for architecture in ARCHITECTURES:
        of_it = [package for package in packages if package.stem.endswith(f"_{architecture}")]
        _write_index(release / f"main/binary-{architecture}", "\n".join(stanza(package, root) for package in of_it))
    (release / "Release").write_text(_release(release), encoding="utf-8")
    gpg = ("gpg", "--batch", "--yes", "--armor", "--local-user", key)
    _run(*gpg, "--output", release / "InRelease", "--clear-sign", release / "Release")
    _run(*gpg, "--output", release / "Release.gpg", "--detach-sign", release / "Release")
    _run("gpg", "--batch", "--yes", "--armor", "--output", root / "tmpmaild.asc", "--export", key)
    return root


def stanza(package: Path, root: Path) -> str:
    """Return a package's entry for the package index."""
    control = subprocess.run(["dpkg-deb", "--field", package], check=True, capture_output=True, encoding="utf-8").stdout  # noqa: S603, S607 - ours
    content = package.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    return f"{control}Filename: {package.relative_to(root)}\nSize: {len(content)}\nSHA256: {sha256}\n"


def _write_index(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / "Packages").write_text(text, encoding="utf-8")
    (folder / "Packages.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def _release(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("Packages*"))
    sums = "".join(f" {_sum(path)} {path.stat().st_size} {path.relative_to(folder)}\n" for path in files)
    date = formatdate(time.time(), usegmt=True)
    return f"{_ABOUT}Architectures: {' '.join(ARCHITECTURES)}\nDate: {date}\nSHA256:\n{sums}"


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True)  # noqa: S603 - no untrusted input


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make a signed repository of Debian packages.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("key")
    given = parser.parse_args()
    print(build(given.folder, given.target, given.key))  # noqa: T201
