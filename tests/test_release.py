"""tools/release.py before a build: it refuses a release that is not ready, and updates versions and the changelog."""

import json
import re
import shutil
import subprocess
from contextlib import nullcontext

import pytest
import versions

import deb
import release
from tmpmaild import __version__

NOTES = "### Upgrading\n\nNothing.\n\n### Added\n\n- A thing.\n"
CHANGELOG = f"# Changelog\n\n## Unreleased\n\n{NOTES}\n## 1.0.0 - 2026-11-23\n\n- All of it.\n"


def git(folder, *arguments):
    author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "tests/upgrades/1.1").mkdir(parents=True)
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "all")
    return tmp_path


def test_a_version_that_is_ready_can_be_released_once(checkout):
    assert list(release.obstacles("1.1.0", checkout)) == []
    git(checkout, "tag", "v1.1.0")
    assert list(release.obstacles("1.1.0", checkout)) == ["the tag v1.1.0 already exists"]
    assert list(release.obstacles("1.1.1", checkout)) == []


def test_each_obstacle_is_reported(checkout):
    (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 1.0.0 - 2026-11-23\n\n### Upgrading\n")
    assert list(release.obstacles("v2.0", checkout)) == [
        "v2.0 is not a version such as 1.2.3",
        "there are uncommitted changes",
        "CHANGELOG.md has nothing below Unreleased",
        "tests/upgrades/v2 is missing, a database of this release: see tests/http/test_app_upgrades.py",
    ]
    (checkout / "CHANGELOG.md").write_text(CHANGELOG.replace("### Upgrading\n\nNothing.\n\n", ""))
    git(checkout, "commit", "--all", "--quiet", "--message", "notes")
    (said,) = release.obstacles("1.1.0", checkout)
    assert said.startswith("CHANGELOG.md has no Upgrading section below Unreleased")


def test_a_release_commit_lists_the_passed_checks(checkout, monkeypatch):
    for name in versions.PLACES:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(release.ROOT / name, checkout / name)
    shutil.copy(release.ROOT / release.RELEASED, checkout / release.RELEASED)
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", "versions")
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ada@example.com")
    release.prepare("1.1.0", checkout, checked=True)
    said = subprocess.run(["git", "log", "-1", "--format=%B"], cwd=checkout, check=True, capture_output=True, text=True)
    assert re.fullmatch(
        r"release: 1\.1\.0\n\nAt \w{40} passed, according to the releaser: make test, make test-peers ARGS=--all-peers, make proof WHAT=fresh\.\s*",
        said.stdout,
    )
    for name, (pattern, _) in versions.PLACES.items():
        assert set(re.findall(pattern, (checkout / name).read_text(), re.MULTILINE)) == {"1.1.0"}
    assert list(release.obstacles("1.1.1", checkout)) == ["CHANGELOG.md has nothing below Unreleased"]
    assert json.loads((checkout / release.RELEASED).read_text()).keys() == {"1.0.0", "1.1.0"}
    released = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=checkout)
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "later, not release: 1.1.0")
    (find,) = re.findall(r"^git checkout .*$", (release.ROOT / "docs/releasing.md").read_text(), re.MULTILINE)
    subprocess.run(["bash", "-euc", find], cwd=checkout, check=True, capture_output=True)  # the checkout has no tags
    assert subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=checkout) == released


def test_changelog_sections_of_released_versions_are_unchanged():
    """Mistakes are corrected in the next version's section; tools/release.py writes the hashes."""
    said = release.fingerprints((release.ROOT / "CHANGELOG.md").read_text())
    assert said == json.loads((release.ROOT / release.RELEASED).read_text())
    assert __version__ in said


def test_changed_words_are_reported_in_released_sections_but_not_in_the_next_version():
    then = release.fingerprints(CHANGELOG)
    assert then.keys() == {"1.0.0"}
    assert release.fingerprints(CHANGELOG.replace("A thing", "Another thing")) == then
    assert release.fingerprints(CHANGELOG.replace("All of it", "Most of it")) != then
    assert release.fingerprints(CHANGELOG.replace("2026-11-23", "2026-11-24")) != then


PIP_AUDIT = """#!/bin/sh
cat "$5"
exit {code}
"""


def test_a_release_stops_if_there_is_an_advisory_or_the_check_fails(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    (tmp_path / "one.cdx.json").write_text('{"components": [{"name": "h11", "version": "0.16.0"}]}')
    with pytest.raises(SystemExit, match="needs pip-audit"):
        release.audit(tmp_path)
    for code in (1, 0):
        (tmp_path / "pip-audit").write_text(PIP_AUDIT.format(code=code))
        (tmp_path / "pip-audit").chmod(0o755)
        with pytest.raises(SystemExit, match="known advisory") if code else nullcontext():
            release.audit(tmp_path)
    assert capfd.readouterr().out == "h11==0.16.0\n" * 2


def test_the_package_is_for_the_python_versions_whose_libraries_it_contains():
    (depends,) = re.findall(r"^Depends: (.*)$", (release.ROOT / "deb/control").read_text(), re.MULTILINE)
    oldest, newest = [int(python.partition(".")[2]) for python in (deb.PYTHONS[0], deb.PYTHONS[-1])]
    assert tuple(f"3.{minor}" for minor in range(oldest, newest + 1)) == deb.PYTHONS
    assert depends.startswith(f"python3 (>= 3.{oldest}), python3 (<< 3.{newest + 1}), ")


NOT_FOR_OPERATORS = set("decisions extension inbox performance releasing testing testing/ci testing/mcp".split())


def test_the_package_contains_every_linked_page_for_operators():
    texts = [(release.ROOT / f"docs/{page}.md").read_text() for page in deb.PAGES]
    linked = {name for text in texts for name in re.findall(r"\]\(([\w/-]+)\.md[#)]", text)}
    assert linked - set(deb.PAGES) == NOT_FOR_OPERATORS


def test_the_package_can_be_built_without_git_if_its_date_is_given(monkeypatch, tmp_path):
    monkeypatch.setattr(deb, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert deb.date() == "1700000000"
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    with pytest.raises(subprocess.CalledProcessError):
        deb.date()
