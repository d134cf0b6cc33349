"""The extra ``client``: the service runs without it, and the commands that need it say so."""

import subprocess
import sys
from pathlib import Path

WITHOUT = Path(__file__).with_name("main-extra-without.py.txt").read_text()


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_service_never_loads_the_client():
    done = python(
        "import tmpmaild.cli.main, tmpmaild.daemon, sys; print({'httpx2', 'mcp', 'tmpmaild.client'} & set(sys.modules))"
    )
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_a_missing_client_is_named_with_what_to_install():
    done = python(WITHOUT)
    assert done.stdout == "2\n2\n2\n2\n"
    assert done.stderr == (
        3 * "tmpmaild: the client needs httpx2: pip install httpx2\n"
        + "tmpmaild: the MCP server needs the MCP SDK: pip install mcp httpx2 pydantic\n"
    )


def test_the_commands_never_load_the_service():
    done = python("import tmpmaild.cli.main, sys; print({'hypercorn', 'starlette', 'aiosmtpd'} & set(sys.modules))")
    assert (done.stdout, done.stderr) == ("set()\n", "")
