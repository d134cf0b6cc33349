"""The examples in ``docs/commands.md`` are correct, and each shell can use its completion script."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from daemons import finished
from patience import PATIENCE_SECONDS
from tmpmaild import client as api
from tmpmaild.cli import user
from tmpmaild.cli.main import main

PAGE = (Path(__file__).parents[2] / "docs/commands.md").read_text()


def test_every_command_and_option_is_documented():
    assert [one.name for one in user.COMMANDS if f"tmpmaild {one.name}" not in PAGE] == []
    options = {option for one in user.COMMANDS for parameter in one.params for option in parameter.opts}
    assert [one for one in sorted(options) if one.startswith("--") and one not in PAGE] == []


def test_the_script_finds_its_code_and_leaves_nothing_behind(tmp_path, daemon, client, call):
    (script,) = [block for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) if "mkfifo" in block]
    program = tmp_path / "tmpmaild"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tmpmaild "$@"\n')
    program.chmod(0o755)
    send = f'echo "$address"; tmpmaild send --server 127.0.0.1:{daemon.smtp_port} "$address" >&2\nsed'
    done = finished(
        ["bash", "-c", script.replace("sed", send, 1)],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "TMPMAILD_URL": daemon.url},
        timeout=PATIENCE_SECONDS,
    )
    address, code = done.stdout.split()
    assert code == "481516"
    with pytest.raises(api.AddressExpired):
        client.inbox(address)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_it_can_read(shell):
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert f"_TMPMAILD_COMPLETE={shell}_complete" in done.stdout
    read = subprocess.run([shell, "-n"], input=done.stdout, capture_output=True, text=True, check=False)
    assert (read.returncode, read.stdout + read.stderr) == (0, "")


def test_an_unsupported_shell_is_a_usage_error():
    assert CliRunner().invoke(main, ["completion", "csh"]).exit_code == 2


@pytest.mark.parametrize(
    ("words", "index", "answer"), [("tmpmaild wa", 1, ["watch", "wait"]), ("tmpmaild wait --co", 2, ["--code"])]
)
def test_commands_and_options_are_completed(words, index, answer):
    environ = {"_TMPMAILD_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(index)}
    done = CliRunner().invoke(main, env=environ, prog_name="tmpmaild")
    assert sorted(line.partition(",")[2] for line in done.stdout.split()) == sorted(answer)
