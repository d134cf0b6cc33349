"""What tools/release.py does before it builds: it refuses what is not ready, and changes versions and changelog."""

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


def test_what_is_ready_can_be_released_once(checkout):
    assert list(release.obstacles("1.1.0", checkout)) == []
    git(checkout, "tag", "v1.1.0")
    assert list(release.obstacles("1.1.0", checkout)) == ["there is a tag v1.1.0 already"]
    assert list(release.obstacles("1.1.1", checkout)) == []


def test_each_obstacle_is_named(checkout):
    (checkout / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 1.0.0 - 2026-11-23\n\n### Upgrading\n")
    assert list(release.obstacles("v2.0", checkout)) == [
        "v2.0 is not a version such as 1.2.3",
        "there are changes that are not committed",
        "CHANGELOG.md has nothing below Unreleased",
        "tests/upgrades/v2 is missing, a database of this release: see tests/http/test_app_upgrades.py",
    ]
    (checkout / "CHANGELOG.md").write_text(CHANGELOG.replace("### Upgrading\n\nNothing.\n\n", ""))
    git(checkout, "commit", "--all", "--quiet", "--message", "notes")
    (said,) = release.obstacles("1.1.0", checkout)
    assert said.startswith("CHANGELOG.md has no Upgrading below Unreleased")


def test_a_release_is_a_commit_that_says_what_was_checked(checkout, monkeypatch):
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
        r"release: 1\.1\.0\n\nAt \w{40} had passed, says who released it: make test, make test-peers ARGS=--all-peers, make proof WHAT=fresh\.\s*",
        said.stdout,
    )
    for name, (pattern, _) in versions.PLACES.items():
        assert set(re.findall(pattern, (checkout / name).read_text(), re.MULTILINE)) == {"1.1.0"}
    assert list(release.obstacles("1.1.1", checkout)) == ["CHANGELOG.md has nothing below Unreleased"]
    assert json.loads((checkout / release.RELEASED).read_text()).keys() == {"1.0.0", "1.1.0"}
    released = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=checkout)
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", "later, not release: 1.1.0")
    (find,) = re.findall(r"^git checkout .*$", (release.ROOT / "docs/releasing.md").read_text(), re.MULTILINE)
    subprocess.run(["bash", "-euc", find], cwd=checkout, check=True, capture_output=True)  # there are no tags
    assert subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=checkout) == released


def test_what_the_changelog_says_of_a_released_version_is_what_was_released():
    """A mistake in it is said in the next version; tools/release.py writes the sums."""
    said = release.fingerprints((release.ROOT / "CHANGELOG.md").read_text())
    assert said == json.loads((release.ROOT / release.RELEASED).read_text())
    assert __version__ in said


def test_a_word_more_or_less_in_a_released_section_is_noticed_and_one_in_the_next_version_is_not():
    then = release.fingerprints(CHANGELOG)
    assert then.keys() == {"1.0.0"}
    assert release.fingerprints(CHANGELOG.replace("A thing", "Another thing")) == then
    assert release.fingerprints(CHANGELOG.replace("All of it", "Most of it")) != then
    assert release.fingerprints(CHANGELOG.replace("2026-11-23", "2026-11-24")) != then


PIP_AUDIT = """#!/bin/sh
cat "$5"
exit {code}
"""


def test_a_release_stops_at_an_advisory_and_where_none_can_be_asked_for(tmp_path, monkeypatch, capfd):
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


def test_the_package_is_for_the_pythons_whose_libraries_it_has():
    (depends,) = re.findall(r"^Depends: (.*)$", (release.ROOT / "deb/control").read_text(), re.MULTILINE)
    oldest, newest = [int(python.partition(".")[2]) for python in (deb.PYTHONS[0], deb.PYTHONS[-1])]
    assert tuple(f"3.{minor}" for minor in range(oldest, newest + 1)) == deb.PYTHONS
    assert depends.startswith(f"python3 (>= 3.{oldest}), python3 (<< 3.{newest + 1}), ")


NOT_FOR_OPERATORS = set("decisions extension inbox performance releasing testing testing/ci testing/mcp".split())


def test_the_package_has_every_page_for_operators_that_its_pages_link_to():
    texts = [(release.ROOT / f"docs/{page}.md").read_text() for page in deb.PAGES]
    linked = {name for text in texts for name in re.findall(r"\]\(([\w/-]+)\.md[#)]", text)}
    assert linked - set(deb.PAGES) == NOT_FOR_OPERATORS


def test_the_package_needs_no_git_where_its_date_is_given(monkeypatch, tmp_path):
    monkeypatch.setattr(deb, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert deb.date() == "1700000000"
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    with pytest.raises(subprocess.CalledProcessError):
        deb.date()
