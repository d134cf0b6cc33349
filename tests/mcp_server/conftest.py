"""The command ``tmpmaild mcp`` as a process, spoken to by the SDK's own client; one process and one daemon for all tests."""

import sys
from contextlib import asynccontextmanager, closing

import mcp
import pytest
from anyio.from_thread import start_blocking_portal

import daemons


@asynccontextmanager
async def connected(url, stderr):
    """Have a client of a server process."""
    settings = daemons.environment(PYTHONWARNINGS="default", TMPMAILD_URL=url)
    server = mcp.StdioServerParameters(command=sys.executable, args=["-m", "tmpmaild", "mcp"], env=settings)
    async with mcp.Client(mcp.stdio_client(server, errlog=stderr)) as client:
        yield client


class Agent:
    """The client, called from a test's own thread."""

    def __init__(self, portal, client):
        self._portal = portal
        self._client = client
        self.tools = portal.call(client.list_tools).tools
        self.instructions = client.instructions

    def call(self, tool, **arguments):
        """Return the result of a tool."""
        return self._portal.call(self._client.call_tool, tool, arguments)

    def ask(self, tool, **arguments):
        """Return what a tool answered; it must not have failed."""
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
    """Return a function that starts a server process, and gives an agent that ends it."""
    stderr = tmp_path_factory.mktemp("mcp-stderr") / "stderr.txt"

    with stderr.open("w") as errlog:
        yield lambda url: portal.wrap_async_context_manager(connected(url, errlog))


@pytest.fixture(scope="session")
def agent(portal, connect, daemon):
    with connect(daemon.url) as client:
        yield Agent(portal, client)
