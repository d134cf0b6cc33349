"""Makes a release: runs checks, sets the version, updates the changelog, commits, and builds all files to publish.

It does not publish anything, but prints the remaining commands. ``docs/releasing.md`` describes the whole process.

Run it as ``make release VERSION=1.2.3``, with ``ARGS=--checked`` if all tests have passed at this commit. Without a
version, it only builds the last commit.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apt
import versions

import deb
import extension

ROOT: Final = Path(__file__).parents[1]
CHECKS: Final = (("test",), ("test-peers", "ARGS=--all-peers"), ("proof", "WHAT=fresh"))
RELEASED: Final = "tests/released.json"
"""The SHA-256 of each version's changelog section when it was released; released sections never change."""
EXTRAS: Final = "client,dns,mcp,postgresql,senders,tls"
_UNRELEASED: Final = re.compile(r"^## Unreleased\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(!\[[^]]*|)\]\((?!https?:|#)([^)]+)\)")
_BY_HAND: Final = """
Publish by hand, from {dist}:
  git tag --sign --cleanup=verbatim --file {dist}/release-notes.md v{version}
  git push origin main v{version}
  twine upload {dist}/*.whl {dist}/*.tar.gz
  npm publish {dist}/tmpmaild-{version}.tgz
  gh release create v{version} --verify-tag --notes-file {dist}/release-notes.md {dist}/*
"""


def obstacles(version: str, root: Path = ROOT) -> Iterator[str]:
    """Yield the reasons why a version cannot be released from the checkout in its current state."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        yield f"{version} is not a version such as 1.2.3"
    if _git(root, "status", "--porcelain"):
        yield "there are uncommitted changes"
    if _git(root, "tag", "--list", f"v{version}"):
        yield f"the tag v{version} already exists"
    new = unreleased((root / "CHANGELOG.md").read_text("utf-8"))
    if not new:
        yield "CHANGELOG.md has nothing below Unreleased"
    elif "### Upgrading\n" not in new:
        yield (
            "CHANGELOG.md has no Upgrading section below Unreleased:"
            " state what an operator has to do, even if it is nothing"
        )
    minor = version.rpartition(".")[0]
    if not (root / "tests/upgrades" / minor).is_dir():
        yield f"tests/upgrades/{minor} is missing, a database of this release: see tests/http/test_app_upgrades.py"


def unreleased(changelog: str) -> str:
    """Return the changelog section of the next version."""
    found = _UNRELEASED.search(changelog)
    return found[1].strip() if found else ""


def closed(changelog: str, version: str, date: str) -> str:
    """Return the changelog with its unreleased section renamed to a version, below a new, empty unreleased section."""
    return changelog.replace("## Unreleased\n", f"## Unreleased\n\n## {version} - {date}\n", 1)


def notes(changelog: str, version: str) -> str:
    """Return the changelog section of a version as the text of its tag, with the date in the first line."""
    _, _, rest = changelog.partition(f"\n## {version} - ")
    if not rest:
        return f"tmpmaild {version}, between releases\n\n{unreleased(changelog)}\n"
    section = rest.partition("\n## ")[0].rstrip()
    return f"tmpmaild {version} - {section}\n"


def fingerprints(changelog: str) -> dict[str, str]:
    """Return the SHA-256 of the changelog section of each released version."""
    versions = re.findall(r"^## (\d\S+) - ", changelog, re.MULTILINE)
    return {version: hashlib.sha256(notes(changelog, version).encode()).hexdigest() for version in versions}


def readable_anywhere(readme: str, version: str) -> str:
    """Return the README with absolute links to the files of a version, because PyPI shows only the README."""

    def linked(match: re.Match[str]) -> str:
        kind = "raw" if match[1] else "blob"
        return f"{match[1]}](https://github.com/tmpmaild/tmpmaild/{kind}/v{version}/{match[2]})"

    return _LINK.sub(linked, readme)


def prepare(version: str, root: Path = ROOT, *, checked: bool) -> None:
    """Run the checks, then commit the version and the changelog."""
    if reasons := list(obstacles(version, root)):
        sys.exit("\n".join(reasons))
    commit = _git(root, "rev-parse", "HEAD")
    for target in () if checked else CHECKS:
        _run("make", *target, cwd=root)
    versions.write(root, version)
    changelog = root / "CHANGELOG.md"
    changelog.write_text(
        closed(changelog.read_text("utf-8"), version, time.strftime("%Y-%m-%d", time.gmtime())), encoding="utf-8"
    )
    (root / RELEASED).write_text(
        json.dumps(fingerprints(changelog.read_text("utf-8")), indent=1) + "\n", encoding="utf-8"
    )
    names = ", ".join(f"make {' '.join(target)}" for target in CHECKS)
    how = "passed, according to the releaser" if checked else "passed"
    _run(
        "git", "commit", "--all", "--quiet", "-m", f"release: {version}", "-m", f"At {commit} {how}: {names}.", cwd=root
    )


def build(target: Path, root: Path = ROOT) -> None:
    """Build the files to publish from the last commit. The same commit results in the same bytes on every machine."""
    environ = os.environ | {"SOURCE_DATE_EPOCH": _git(root, "log", "-1", "--format=%ct")}
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        source.mkdir()
        _run("git", "archive", "--output", source.with_suffix(".tar"), "HEAD", cwd=root)
        _run("tar", "--extract", "--no-same-permissions", "--file", source.with_suffix(".tar"), cwd=source)
        readme = source / "README.md"
        readme.write_text(
            readable_anywhere(readme.read_text("utf-8"), _version((source / "pyproject.toml").read_text("utf-8"))),
            encoding="utf-8",
        )
        versions.write(source, versions.of_commit(root))
        _run(sys.executable, "-m", "hatchling", "build", "-d", target, cwd=source, env=environ)
        _build_npm_package(source / "clients/typescript", target)
        extension.build(target, source / "clients/browser")
        for architecture in deb.MACHINES:
            command = (sys.executable, "tools/deb.py", target, architecture)
            _run(*command, cwd=source, env=environ | {"PYTHONPATH": str(source)})
        _describe(target, source, Path(folder, "venv"))
    (target / "SHA256SUMS").write_text(sums(target), encoding="utf-8")


def _build_npm_package(client: Path, target: Path) -> None:
    (client / "node_modules").symlink_to(ROOT / "clients/typescript/node_modules")
    _run("npm", "run", "--silent", "build", cwd=client)
    _run("npm", "pack", "--silent", "--pack-destination", target, cwd=client)


def _describe(target: Path, source: Path, venv: Path) -> None:
    """Write the SBOM (CycloneDX) for the wheel and its libraries, and the release notes."""
    (wheel,) = target.glob("*.whl")
    version = wheel.name.split("-")[1]
    checked = venv.with_name("wheels")
    pip: tuple[str | Path, ...] = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    pins = ("--require-hashes", "--requirement", source / "constraints/extras.txt")
    _run(*pip, "wheel", "--no-build-isolation", "--wheel-dir", checked, *pins, cwd=source)
    _run(sys.executable, "-m", "venv", "--without-pip", venv, cwd=source)
    pip = (*pip, "--python", venv / "bin/python")
    _run(*pip, "install", "--no-index", "--find-links", checked, f"{wheel}[{EXTRAS}]", cwd=source)
    for named in venv.rglob("tmpmaild-*.dist-info/direct_url.json"):
        named.unlink()  # this file contains the path of the build folder
    cyclonedx = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--pyproject")
    _run(*cyclonedx, "pyproject.toml", "--output-file", target / f"tmpmaild-{version}.cdx.json", venv, cwd=source)
    changelog = (source / "CHANGELOG.md").read_text("utf-8")
    (target / "release-notes.md").write_text(notes(changelog, version), encoding="utf-8")


def audit(target: Path) -> None:
    """Exit if an advisory exists for a library in a release's SBOM, or if advisories cannot be fetched."""
    (listed,) = target.glob("*.cdx.json")
    lines = [f"{one['name']}=={one['version']}\n" for one in json.loads(listed.read_text("utf-8"))["components"]]
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as pins:
        pins.writelines(lines)
        pins.flush()
        command = ("pip-audit", "--strict", "--no-deps", "--disable-pip", "--requirement", pins.name)
        try:
            done = subprocess.run(command, check=False)  # noqa: S603 - no untrusted input
        except FileNotFoundError:
            sys.exit(
                "needs pip-audit (pip install pip-audit), or ARGS=--not-audited if PyPI's advisories cannot be queried"
            )
    if done.returncode:
        sys.exit("a library has a known advisory, or could not be looked up; ARGS=--not-audited continues regardless")


def sums(folder: Path) -> str:
    """Return the SHA-256 of each file in the format of ``sha256sum --check``."""
    files = sorted(path for path in folder.iterdir() if path.name not in ("SHA256SUMS", "release-notes.md"))
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def _version(pyproject: str) -> str:
    return str(tomllib.loads(pyproject)["project"]["version"])


def _git(root: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, encoding="utf-8").stdout.strip()  # noqa: S603 - ours


def _run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> None:
    subprocess.run(command, cwd=cwd, env=env, umask=0o022, check=True)  # noqa: S603 - no untrusted input


def main() -> None:
    """Release a version, or build the last commit if no version is given."""
    parser = argparse.ArgumentParser(description="Make a release.")
    parser.add_argument("version", nargs="?", help="such as 1.2.3; if omitted, the last commit is built")
    parser.add_argument("--checked", action="store_true", help="all tests have passed at this commit")
    parser.add_argument("--not-audited", action="store_true", help="do not query PyPI for advisories on our libraries")
    parser.add_argument("--apt-key", help="also create an apt repository, signed with this gpg key")
    given = parser.parse_args()
    if given.version:
        prepare(given.version, checked=given.checked)
    version = versions.of_commit(ROOT)
    target = ROOT / "dist" / version
    build(target)
    _run("sha256sum", "--check", "SHA256SUMS", cwd=target)
    if given.version and not given.not_audited:
        audit(target)
    if given.apt_key:
        apt.build(target, ROOT / "dist/apt", given.apt_key)
    if given.version:
        sys.stdout.write(_BY_HAND.format(dist=target.relative_to(ROOT), version=version))


if __name__ == "__main__":
    main()
