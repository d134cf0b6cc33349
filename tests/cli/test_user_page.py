"""What ``docs/commands.md`` shows is true."""

import re
import sys
from pathlib import Path

import pytest

from daemons import finished
from tmpmaild import client as api
from tmpmaild.cli import user

PAGE = (Path(__file__).parents[2] / "docs/commands.md").read_text()


def test_every_command_and_option_is_told_of():
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
        timeout=20,
    )
    address, code = done.stdout.split()
    assert code == "481516"
    with pytest.raises(api.AddressExpired):
        client.inbox(address)
