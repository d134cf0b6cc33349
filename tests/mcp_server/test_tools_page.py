"""What docs/testing/mcp.md says of tools, commands and bounds."""

import json
import re
from pathlib import Path

from tmpmaild.cli.main import main
from tmpmaild.mcp_server import answers, tools

PAGE = (Path(__file__).parents[2] / "docs/testing/mcp.md").read_text()


def test_every_tool_is_on_the_page_and_no_other(agent):
    rows = re.findall(r"^\| (`.+?) \|", PAGE, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) == {tool.name for tool in agent.tools}


def test_the_configurations_start_a_command_with_options_that_exist():
    blocks = [json.loads(one) for one in re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]
    servers = [one["tmpmaild"] for block in blocks for one in block.values()]
    assert [(one["command"], *one["args"]) for one in servers] == 2 * [
        ("tmpmaild", "mcp", "--url", "http://127.0.0.1:8025")
    ]
    assert "--url" in main.commands["mcp"].params[0].opts


def test_its_bounds_are_those_of_the_server():
    bounds = [answers.MAX_MAILS, tools.MAX_INBOXES, answers.MAX_TEXT]
    assert [f"{one:,}" for one in bounds if f"{one:,}" not in PAGE] == []
