"""The ``tmpmaild mcp`` command as a process, used through the SDK's own client.

All tests share a process and a daemon.
"""

import sys
from contextlib import asynccontextmanager, closing

import mcp
import pytest
from anyio.from_thread import start_blocking_portal

import daemons


@asynccontextmanager
async def connected(url, stderr):
    """Connect a client to a server process."""
    settings = daemons.environment(PYTHONWARNINGS="default", TMPMAILD_URL=url)
    server = mcp.StdioServerParameters(command=sys.executable, args=["-m", "tmpmaild", "mcp"], env=settings)
    async with mcp.Client(mcp.stdio_client(server, errlog=stderr)) as client:
        yield client


class Agent:
    """An agent: the client, called from a test's own thread."""

    def __init__(self, portal, client):
        self._portal = portal
        self._client = client
        self.tools = portal.call(client.list_tools).tools
        self.instructions = client.instructions

    def call(self, tool, **arguments):
        """Return the result of a tool."""
        return self._portal.call(self._client.call_tool, tool, arguments)

    def ask(self, tool, **arguments):
        """Call a tool, which must succeed, and return the structured content of its result."""
        result = self.call(tool, **arguments)
        assert not result.is_error, result.content
        return result.structured_content

    def refusal(self, tool, **arguments):
        """Return the text of a tool's error."""
        result = self.call(tool, **arguments)
        assert result.is_error, result
        (content,) = result.content
        return content.text.removeprefix(f"Error executing tool {tool}: ")


@pytest.fixture(scope="session")
def daemon(tmp_path_factory):
    with closing(daemons.Daemon(tmp_path_factory.mktemp("mcp"), **daemons.NO_LIMITS)) as one:
        yield one


@pytest.fixture(scope="session")
def portal():
    with start_blocking_portal() as one:
        yield one


@pytest.fixture(scope="session")
def connect(portal, tmp_path_factory):
    """Return a function that returns a context manager that starts a server process and yields a client for it."""
    stderr = tmp_path_factory.mktemp("mcp-stderr") / "stderr.txt"

    with stderr.open("w") as errlog:
        yield lambda url: portal.wrap_async_context_manager(connected(url, errlog))


@pytest.fixture(scope="session")
def agent(portal, connect, daemon):
    with connect(daemon.url) as client:
        yield Agent(portal, client)
