"""Completion scripts: each is printed, its shell reads it, and what it asks for is answered."""

import subprocess

import pytest
from click.testing import CliRunner

from tmpmaild.cli.main import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_it_can_read(shell):
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert f"_TMPMAILD_COMPLETE={shell}_complete" in done.stdout
    read = subprocess.run([shell, "-n"], input=done.stdout, capture_output=True, text=True, check=False)
    assert (read.returncode, read.stdout + read.stderr) == (0, "")


def test_another_shell_is_wrong_usage():
    assert CliRunner().invoke(main, ["completion", "csh"]).exit_code == 2


@pytest.mark.parametrize(
    ("words", "index", "answer"), [("tmpmaild wa", 1, ["watch", "wait"]), ("tmpmaild wait --co", 2, ["--code"])]
)
def test_commands_and_options_are_completed(words, index, answer):
    environ = {"_TMPMAILD_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(index)}
    done = CliRunner().invoke(main, env=environ, prog_name="tmpmaild")
    assert sorted(line.partition(",")[2] for line in done.stdout.split()) == sorted(answer)
