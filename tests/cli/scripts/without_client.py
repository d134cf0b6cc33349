"""Run the commands that use the client without its dependencies installed, and print their exit codes."""

import sys

sys.modules["httpx2"] = sys.modules["mcp"] = None

from tmpmaild.cli.main import main  # noqa: E402

for arguments in ["new"], ["watch", "a@a.test"], ["wait", "a@a.test"], ["mcp"]:
    try:
        main(arguments)
    except SystemExit as done:
        print(done.code)
