"""The operator's commands for webhooks, on a storage with webhooks whose URL cannot be parsed."""

import pytest
from webhookharness import SECRET

from tmpmaild.host.control import NoArguments
from tmpmaild.model import Webhook
from tmpmaild.webhooks.commands import HostArguments, WebhookCommands

pytestmark = pytest.mark.both_engines


@pytest.fixture
async def commands(harness):
    for name, url in (("ada", "no URL"), ("bob", "https://a.example/"), ("cyd", "no URL, too"), ("dan", "")):
        await harness.set(await harness.inbox(name), Webhook(url, frozenset({"message"}), frozenset(), SECRET))
    return WebhookCommands(harness.storage, harness.service.webhooks, harness.service.blocks).commands()


async def answered(commands, name, wanted):
    (line,) = [line async for line in commands[name].run(wanted)]
    return line


async def test_a_host_is_listed_and_forgotten_while_urls_that_cannot_be_parsed_are_counted(commands):
    listed = await answered(commands, "webhooks", NoArguments())
    assert [(entry.host, entry.webhooks) for entry in listed.hosts] == [("", 3), ("a.example", 1)]
    assert (await answered(commands, "webhooks-forget", HostArguments("a.example"))).count == 1
    assert [entry.webhooks for entry in (await answered(commands, "webhooks", NoArguments())).hosts] == [3]
