"""Release files are byte-identical on every build machine, and the release's list of libraries is correct."""

import json
import os
import subprocess

import versions

import constraints
import release


def built(folder, umask):
    """Build the last commit in a clone as another person would: later, in another folder, with another umask."""
    subprocess.run(["git", "clone", "--quiet", release.ROOT, folder], check=True)
    before = os.umask(umask)
    try:
        release.build(folder / "built", folder)
    finally:
        os.umask(before)
    return {path.name: path.read_bytes() for path in (folder / "built").iterdir()}


def test_two_builds_of_a_commit_are_identical(tmp_path, figure):
    first, second = built(tmp_path / "one", 0o022), built(tmp_path / "a longer name", 0o077)
    assert [name for name in first if first[name] != second[name]] == []
    assert first.keys() == second.keys()
    kinds = (".whl", ".tar.gz", ".tgz", ".cdx.json", "SHA256SUMS", ".deb", "-chromium.zip", "-firefox.zip")
    assert [kind for kind in kinds if not any(name.endswith(kind) for name in first)] == []
    done = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path / "one/built", check=False)
    assert done.returncode == 0
    listed_are_pinned(json.loads(next(octets for name, octets in first.items() if name.endswith(".cdx.json"))))
    figure("two builds of a commit, of which other files", "none", "none")


def listed_are_pinned(document):
    """Compare the listed libraries with the pinned versions."""
    pins = constraints.pins()
    listed = {constraints.normal(one["name"]): one["version"] for one in document["components"]}
    assert len(listed) > 40
    assert {name: version for name, version in listed.items() if pins[name] != version} == {}
    assert document["metadata"]["component"]["version"] == versions.of_commit(release.ROOT)
