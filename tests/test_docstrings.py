"""Text that is generated from docstrings does not change when Python removes the docstrings."""

import subprocess
import sys

import pytest

from daemons import environment

DESCRIPTION = "from tmpmaild.http.app import describe_api; print(describe_api().decode())"
COMMANDS = """
from tmpmaild.cli.main import main
commands = [main, *main.commands.values()]
print([" ".join(command.help.split()) for command in commands])
"""
TOOLS = """
import anyio
from tmpmaild import mcp_server
print([(one.name, one.description) for one in anyio.run(mcp_server.build(None, "1").list_tools)])
"""


@pytest.mark.parametrize("program", [DESCRIPTION, COMMANDS, TOOLS], ids=["description", "commands", "tools"])
def test_descriptions_do_not_depend_on_optimisation(program):
    said = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=environment(PYTHONOPTIMIZE=level, PYTHONDONTWRITEBYTECODE="1", PYTHONWARNINGS="ignore"),
            capture_output=True,
            check=True,
        ).stdout
        for level in ("0", "2")
    ]
    assert len(said[0]) > 1000
    assert said[0] == said[1]
