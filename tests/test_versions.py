"""A build between two releases sorts after the first and before the second in every kind of version comparison."""

import itertools
import re
import shutil
import subprocess

import pytest
import versions
from packaging.version import Version

AUTHOR = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
BETWEEN = ("1.1.1.dev2+g00000000", "1.1.1.dev10+gffffffff")


def git(folder, *arguments):
    done = subprocess.run(["git", *AUTHOR, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """Create a checkout in which 1.1.0 has been released."""
    git(tmp_path, "init", "--quiet")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.1.0"\n')
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "release: 1.1.0")
    return tmp_path


def add_commits(checkout, *subjects):
    for subject in subjects:
        git(checkout, "commit", "--quiet", "--allow-empty", "--message", subject)


def test_a_release_and_each_later_commit_have_different_versions(checkout):
    assert versions.of_commit(checkout) == "1.1.0"
    add_commits(checkout, "one", "release: make it faster", "not release: 1.1.0")
    assert re.fullmatch(r"1\.1\.1\.dev3\+g[0-9a-f]{8}", versions.of_commit(checkout))
    assert git(checkout, "rev-parse", "HEAD").startswith(versions.of_commit(checkout).partition("+g")[2])
    (checkout / "pyproject.toml").write_text('[project]\nversion = "1.1.1"\n')
    git(checkout, "commit", "--quiet", "--all", "--message", "release: 1.1.1")
    assert versions.of_commit(checkout) == "1.1.1"


def test_missing_commits_are_not_miscounted(checkout, tmp_path_factory):
    add_commits(checkout, "one", "two")
    shallow = tmp_path_factory.mktemp("shallow")
    git(shallow, "clone", "--quiet", "--depth=1", f"file://{checkout}", ".")
    with pytest.raises(SystemExit, match="git fetch --unshallow"):
        versions.of_commit(shallow)


@pytest.mark.needs("apt")
def test_dpkg_sorts_builds_between_their_releases():
    sorted_ones = ["1.1.0", *map(versions.of_debian, BETWEEN), "1.1.1"]
    for older, newer in itertools.pairwise(sorted_ones):
        subprocess.run(["dpkg", "--compare-versions", older, "lt", newer], check=True)


def test_pip_npm_and_browsers_sort_builds_between_their_releases():
    assert sorted(["1.1.1", *reversed(BETWEEN), "1.1.0"], key=Version) == ["1.1.0", *BETWEEN, "1.1.1"]
    assert [*map(versions.of_npm, BETWEEN)] == ["1.1.1-dev.2", "1.1.1-dev.10"]  # semver.org, rule 11
    numbers = [[*map(int, versions.of_browser(one).split("."))] for one in ("1.1.0", *BETWEEN, "1.1.1")]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("form", [versions.of_debian, versions.of_npm, versions.of_browser, versions.of_python])
def test_a_release_version_has_the_same_form_everywhere(form):
    assert form("1.10.2") == "1.10.2"


def test_a_version_is_written_to_all_files_in_the_form_that_each_needs(tmp_path):
    root = versions.__file__.rpartition("/tools/")[0]
    for name in versions.PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(f"{root}/{name}", tmp_path / name)
    versions.write(tmp_path, BETWEEN[0])
    for name, (pattern, form) in versions.PLACES.items():
        assert set(re.findall(pattern, (tmp_path / name).read_text(), re.MULTILINE)) == {form(BETWEEN[0])}
