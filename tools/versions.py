"""Derives a build's version from its commit: a build between two releases sorts between their versions.

For example, the fifth commit after 1.1.0 is ``1.1.1.dev5+gHASH`` (PEP 440). Debian, npm and browsers have their own
formats.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Final

_HASH_CHARACTERS: Final = 8
_between = re.compile(r"(?P<minor>\d+\.\d+)\.(?P<patch>\d+)\.dev(?P<number>\d+)\+g[0-9a-f]+").fullmatch


def of_commit(root: Path) -> str:
    """Return the version of the last commit in a checkout."""
    released = str(tomllib.loads(_git(root, "show", "HEAD:pyproject.toml"))["project"]["version"])
    if _git(root, "log", "-1", "--format=%s") == f"release: {released}":
        return released
    if _git(root, "rev-parse", "--is-shallow-repository") == "true":
        sys.exit("cannot count the commits since the last release; run git fetch --unshallow")
    subject = f"--grep=^release: {re.escape(released)}$"
    last = _git(root, "log", "-1", "--format=%H", subject)
    number = _git(root, "rev-list", "--count", f"{last}..HEAD" if last else "HEAD")
    minor, _, patch = released.rpartition(".")
    return f"{minor}.{int(patch) + 1}.dev{number}+g{_git(root, 'rev-parse', 'HEAD')[:_HASH_CHARACTERS]}"


def of_debian(version: str) -> str:
    """Return a version in Debian's format (deb-version(7)), in which a tilde sorts before all other characters."""
    return version.replace(".dev", "~dev")


def of_npm(version: str) -> str:
    """Return a version in the format of Semantic Versioning."""
    found = _between(version)
    return f"{found['minor']}.{found['patch']}-dev.{found['number']}" if found else version


def of_browser(version: str) -> str:
    """Return a version in the format of browser extensions: up to four numbers and nothing else."""
    found = _between(version)
    return f"{found['minor']}.{int(found['patch']) - 1}.{found['number']}" if found else version


def of_python(version: str) -> str:
    """Return a version unchanged."""
    return version


PLACES: Final[dict[str, tuple[str, Callable[[str], str]]]] = {
    "tmpmaild/__init__.py": (r'^__version__ = "(.+)"$', of_python),
    "pyproject.toml": (r'^version = "(.+)"$', of_python),
    "clients/browser/manifest.json": (r'^  "version": "(.+)",$', of_browser),
    "clients/typescript/package.json": (r'^  "version": "(.+)",$', of_npm),
    "clients/typescript/package-lock.json": (r'"name": "tmpmaild",\n +"version": "(.+)",$', of_npm),
    "docs/testing/ci.md": (r"[A-Z]/tmpmaild:(.+)$", of_npm),
}
"""The files that contain the version, with the pattern that matches it and its format."""


def write(root: Path, version: str) -> None:
    """Write a version to all files that contain it."""
    for name, (pattern, form) in PLACES.items():
        path = root / name
        path.write_text(with_version(path.read_text("utf-8"), pattern, form(version)), encoding="utf-8")


def with_version(text: str, pattern: str, version: str) -> str:
    """Return a text with the version replaced in each match."""
    return re.sub(pattern, lambda match: match[0].replace(match[1], version), text, flags=re.MULTILINE)


def _git(root: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, encoding="utf-8").stdout.strip()  # noqa: S603 - ours
