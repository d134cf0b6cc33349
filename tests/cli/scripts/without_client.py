"""Runs the commands that need the client where what it needs is not installed, and prints their exit codes."""

import sys

sys.modules["httpx2"] = sys.modules["mcp"] = None

from tmpmaild.cli.main import main  # noqa: E402

for arguments in ["new"], ["watch", "a@a.test"], ["wait", "a@a.test"], ["mcp"]:
    try:
        main(arguments)
    except SystemExit as done:
        print(done.code)
