"""Every way of creating an address supports every option; exceptions are listed here with reasons."""

import inspect
import re
from pathlib import Path

import msgspec

from tmpmaild.cli.main import main
from tmpmaild.client import AsyncClient, Client
from tmpmaild.http.inputs import CreateRequest
from tmpmaild.mcp_server import tools

TYPESCRIPT = Path(__file__).parents[2] / "clients/typescript/src"
NOT_OF_THE_WISH = {"keep", "as_json", "server"}
NOT_FOR_AGENTS = {
    "private",  # an agent's inboxes are always private
    "webhook",  # a message that misleads the agent could have other messages sent elsewhere
    "faults",  # faults are for test scripts, which use a client
}


def parameters(function):
    return {name: one for name, one in inspect.signature(function).parameters.items() if name != "self"}


WISHES = set(parameters(Client.create))


def test_the_clients_accept_every_option_of_the_service():
    assert {field.encode_name for field in msgspec.structs.fields(CreateRequest)} == WISHES
    assert parameters(AsyncClient.create) == parameters(Client.create)


def test_the_command_has_an_option_for_every_wish():
    options = {option.name for option in main.commands["new"].params} - NOT_OF_THE_WISH
    assert options == WISHES


def test_an_agent_may_use_every_option_that_is_not_excluded():
    for function in (tools.Tools.create_inbox, tools.OwnInboxes.create):
        assert set(parameters(function)) == WISHES - NOT_FOR_AGENTS


def test_the_typescript_client_accepts_the_same_options():
    source = (TYPESCRIPT / "service.ts").read_text()
    members = re.findall(r"^  (\w+)\?:", source.partition("interface NewInbox {")[2].partition("\n}")[0], re.MULTILINE)
    assert {re.sub(r"(?=[A-Z])", "_", name).lower() for name in members} == WISHES
    fixtures = "".join((TYPESCRIPT / name).read_text() for name in ("opened.ts", "testing.ts", "playwright.ts"))
    assert "{ private: true, ...wanted }" in fixtures
