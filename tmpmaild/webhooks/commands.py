"""The operator's commands for webhooks: list the hosts that they call; pause, resume or forget a host."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct

from tmpmaild.errors import AddressExpired, AddressNotFound, CommandError
from tmpmaild.host.control import Command, Lines, NoArguments
from tmpmaild.inboxes.blocks import TARGET, Blocks
from tmpmaild.inboxes.commands import Changed, Seconds
from tmpmaild.inboxes.webhooks import Webhooks
from tmpmaild.model import Block, StoredWebhook
from tmpmaild.storage.base import Storage
from tmpmaild.webhooktargets import parse_url

_ROWS: Final = 500
_PAGE: Final = 100

log = logging.getLogger(__name__)


class PauseArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The host to pause, and the duration (None: until it is resumed)."""

    host: str
    seconds: Seconds = None


class HostArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """A host."""

    host: str


class HostEntry(Struct):
    """Webhook counts for a host: the total, those with an event to report, and those whose last call failed.

    ``last_result`` is the result of the latest call, made at ``called_at_ms``. ``host`` is "" for URLs that cannot be
    parsed.
    """

    host: str
    webhooks: int = 0
    waiting: int = 0
    failing: int = 0
    paused: bool = False
    called_at_ms: int | None = None
    last_result: str = ""

    def add(self, stored: StoredWebhook) -> None:
        """Include a webhook in the counts."""
        state = stored.state
        self.webhooks += 1
        self.waiting += stored.is_waiting
        self.failing += state.failures > 0
        if state.called_at_ms is not None and state.called_at_ms >= (self.called_at_ms or 0):
            self.called_at_ms, self.last_result = state.called_at_ms, state.result


class Hosts(Struct, frozen=True):
    """A page of the host list."""

    hosts: Sequence[HostEntry]


class WebhookCommands:
    """The operator's commands for all webhooks."""

    def __init__(self, storage: Storage, webhooks: Webhooks, blocks: Blocks) -> None:
        self._storage = storage
        self._webhooks = webhooks
        self._blocks = blocks
        self._clock = storage.clock

    def commands(self) -> dict[str, Command]:
        """Return the commands of the control socket."""
        return {
            "webhooks": Command(NoArguments, self._list),
            "webhooks-pause": Command(PauseArguments, self._pause),
            "webhooks-resume": Command(HostArguments, self._resume),
            "webhooks-forget": Command(HostArguments, self._forget),
        }

    async def _list(self, _: NoArguments) -> Lines:
        hosts: dict[str, HostEntry] = {}
        async for stored in self._all():
            host = _host_of(stored)
            hosts.setdefault(host, HostEntry(host, paused=self._blocks.has_target(host))).add(stored)
        entries = sorted(hosts.values(), key=lambda entry: entry.host)
        for start in range(0, len(entries), _ROWS):
            yield Hosts(entries[start : start + _ROWS])

    async def _pause(self, arguments: PauseArguments) -> Lines:
        now_ms = self._clock()
        until_ms = None if arguments.seconds is None else now_ms + arguments.seconds * 1000
        added = [Block(TARGET, _host(arguments.host), now_ms, until_ms)]
        await self._storage.change_blocks(added)
        self._blocks.add(added)
        log.info("webhooks to a host were paused by the operator", extra={"about": now_ms})
        yield Changed(1)

    async def _resume(self, arguments: HostArguments) -> Lines:
        entry = (TARGET, _host(arguments.host))
        await self._storage.change_blocks(removed=[entry])
        yield Changed(self._blocks.remove([entry]))

    async def _forget(self, arguments: HostArguments) -> Lines:
        host, count = _host(arguments.host), 0
        async for stored in self._all():
            if _host_of(stored) == host:
                with suppress(AddressExpired, AddressNotFound):
                    await self._webhooks.set(stored.inbox_id, None)
                    count += 1
        log.info("webhooks removed by the operator: %d", count, extra={"about": self._clock()})
        yield Changed(count)

    async def _all(self) -> AsyncIterator[StoredWebhook]:
        after = ""
        while page := await self._storage.list_webhooks(after=after, limit=_PAGE):
            for stored in page:
                yield stored
            after = page[-1].inbox_id


def _host_of(stored: StoredWebhook) -> str:
    """Return the host that a webhook calls, or "" if its URL cannot be parsed because a different version stored it."""
    try:
        return parse_url(stored.webhook.url).host
    except ValueError:
        return ""


def _host(text: str) -> str:
    """Return a host in its normal form. Raises ``CommandError``."""
    try:
        return parse_url(f"https://{f'[{text}]' if text.count(':') > 1 else text}/").host
    except ValueError as error:
        raise CommandError(f"expected the host of a webhook, such as hooks.example.org, not {text!r}") from error
