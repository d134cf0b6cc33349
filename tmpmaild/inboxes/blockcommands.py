"""The operator's commands that block clients, names and senders; ``blocks.py`` has what they change in memory."""

import logging
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_network
from typing import Annotated, Any

from msgspec import Meta, Struct

from tmpmaild.commands import Answer, Command, NoArguments
from tmpmaild.errors import CommandError
from tmpmaild.inboxes import blocks
from tmpmaild.inboxes.blocks import CLIENT, NAME, SENDER, Blocks
from tmpmaild.model import Block
from tmpmaild.peers import Network, Networks
from tmpmaild.storage.base import Policy

_LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
_ROWS = 500
_A_YEAR_SECONDS = 365 * 86_400

log = logging.getLogger(__name__)


class Named(Struct, frozen=True, forbid_unknown_fields=True):
    """Networks of clients, names of inboxes and domains of senders."""

    clients: Sequence[str] = ()
    names: Sequence[str] = ()
    senders: Sequence[str] = ()


class Blocked(Named, frozen=True, forbid_unknown_fields=True):
    """What to block, for how long (None: until it is unblocked); ``force``: also what is the operator's own."""

    seconds: Annotated[int, Meta(ge=1, le=_A_YEAR_SECONDS)] | None = None
    force: bool = False


class BlockList(Struct, frozen=True):
    """Some lines of a list."""

    blocks: Sequence[Block]


class Changed(Struct, frozen=True):
    """How many were changed."""

    count: int


class BlockCommands:
    """Changes ``blocks``, and what the storage keeps of them. ``own`` are the networks that need force.

    ``clock`` gives Unix milliseconds.
    """

    def __init__(self, policy: Policy, known: Blocks, own: Networks, *, clock: Callable[[], int]) -> None:
        self.own = own
        self._policy = policy
        self._known = known
        self._clock = clock

    def commands(self) -> dict[str, Command]:
        """Return what the control socket answers by this."""
        return {
            "block": Command(Blocked, self._block),
            "unblock": Command(Named, self._unblock),
            "blocks": Command(NoArguments, self._list),
        }

    async def _block(self, wanted: Blocked) -> Answer:
        places = _places(wanted)
        if not wanted.force:
            self._refuse_own(places)
        now_ms = self._clock()
        until_ms = None if wanted.seconds is None else now_ms + wanted.seconds * 1000
        added = [Block(kind, value, now_ms, until_ms) for kind, value in places]
        await self._policy.add_blocks(added)
        self._known.add(added)
        log.info("blocked by the operator: %d", len(added), extra={"about": now_ms})
        yield Changed(len(added))

    async def _unblock(self, wanted: Named) -> Answer:
        places = _places(wanted)
        await self._policy.remove_blocks(places)
        count = self._known.remove(places)
        log.info("unblocked by the operator: %d", count, extra={"about": self._clock()})
        yield Changed(count)

    async def _list(self, _: NoArguments) -> Answer:
        known = sorted(self._known, key=lambda block: (block.kind, block.value))
        for start in range(0, len(known), _ROWS):
            yield BlockList(known[start : start + _ROWS])

    def _refuse_own(self, places: Sequence[tuple[str, str]]) -> None:
        for kind, value in places:
            if kind == CLIENT and (own := _overlapping(ip_network(value), (*_LOOPBACK, *self.own))):
                raise CommandError(
                    f"{value} holds addresses of {own}, which is this machine, a trusted proxy or exempt from limits;"
                    " --force blocks it all the same"
                )


def _overlapping(network: Network, others: Networks) -> Network | None:
    return next((other for other in others if other.version == network.version and _overlap(network, other)), None)


def _overlap(one: Any, other: Any) -> bool:
    return bool(one.overlaps(other))


def _places(wanted: Named) -> list[tuple[str, str]]:
    """Return kinds and values, each once. Raises ``CommandError``."""
    places = list(dict.fromkeys(_parsed(wanted)))
    if not places:
        raise CommandError("a network of clients, a name or a domain of senders is expected")
    return places


def _parsed(wanted: Named) -> Iterator[tuple[str, str]]:
    kinds: tuple[tuple[str, Sequence[str], Callable[[str], Any], str], ...] = (
        (CLIENT, wanted.clients, blocks.network, "an IP address, or a network such as 192.0.2.0/24 without host bits"),
        (NAME, wanted.names, blocks.name, "a local part"),
        (SENDER, wanted.senders, blocks.domain, "a domain"),
    )
    for kind, texts, parse, expected in kinds:
        for text in texts:
            try:
                yield kind, str(parse(text))
            except ValueError as error:
                raise CommandError(f"{expected} is expected, not {text!r}") from error
