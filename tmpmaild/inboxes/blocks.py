"""The operator's blocks in memory: blocked client networks, names, sender domains and addresses, and webhook targets.

No I/O.
"""

from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_network

from tmpmaild import hostnames
from tmpmaild.clients import parse_ip
from tmpmaild.mail import addresses
from tmpmaild.mail.addresses import PathSyntaxError
from tmpmaild.model import Block

CLIENT, NAME, SENDER, TARGET = "client", "name", "sender", "target"

_Table = dict[int | str, int | None]
"""The expiry of each block by its lookup key; None means that the block does not expire."""


class Blocks:
    """All blocks.

    The cost of a lookup does not depend on the number of blocks. If ``has_any`` is false, no lookup is needed.
    ``clock`` returns Unix milliseconds. There is one table of networks for each prefix length: one lookup per table
    finds every network that contains an address.
    """

    def __init__(self, clock: Callable[[], int], blocks: Iterable[Block] = ()) -> None:
        self._clock = clock
        self._blocks: dict[tuple[str, str], Block] = {}
        self.has_any = False
        self._networks: dict[tuple[int, int], _Table] = {}
        self._tables: dict[str, _Table] = {NAME: {}, SENDER: {}, TARGET: {}}
        self.add(blocks)

    def __iter__(self) -> Iterator[Block]:
        """Yield the blocks that have not expired."""
        return (block for block in self._blocks.values() if self._is_active(block.expires_at_ms))

    def add(self, blocks: Iterable[Block]) -> None:
        """Add blocks; a block replaces an existing one of the same kind and value."""
        for block in blocks:
            table, key = self._place(block.kind, block.value)
            table[key] = block.expires_at_ms
            self._blocks[block.kind, block.value] = block
        self.has_any = bool(self._blocks)

    def replace(self, blocks: Iterable[Block]) -> None:
        """Replace all blocks. Unchanged blocks are not rewritten, because there may be a hundred thousand of them."""
        wanted = {(block.kind, block.value): block for block in blocks}
        self.remove(self._blocks.keys() - wanted.keys())
        self.add([block for place, block in wanted.items() if self._blocks.get(place) != block])

    def remove(self, blocks: Iterable[tuple[str, str]]) -> int:
        """Remove blocks by kind and value; return how many of them were in effect."""
        count = 0
        for kind, value in blocks:
            block = self._blocks.pop((kind, value), None)
            if block is not None:
                table, key = self._place(kind, value)
                del table[key]
                count += self._is_active(block.expires_at_ms)
        self.has_any = bool(self._blocks)
        return count

    def forget_expired(self) -> None:
        """Drop expired blocks."""
        now_ms = self._clock()
        ended = [
            place
            for place, block in self._blocks.items()
            if block.expires_at_ms is not None and block.expires_at_ms <= now_ms
        ]
        self.remove(ended)

    def has_client(self, ip: str) -> bool:
        """Return whether an IP address is in a blocked network."""
        address = parse_ip(ip) if self._networks else None
        if address is None:
            return False
        number, bits = int(address), address.max_prefixlen
        return any(
            version == address.version and self._has(networks, number >> (bits - length))
            for (version, length), networks in self._networks.items()
        )

    def has_name(self, local_part: str) -> bool:
        """Return whether a local part, in the canonical form of inbox addresses, is blocked."""
        return self._has(self._tables[NAME], local_part)

    def has_sender(self, reverse_path: str) -> bool:
        """Return whether an envelope sender, its domain or a parent domain is blocked; a null path is never blocked."""
        senders = self._tables[SENDER]
        if not senders or not reverse_path:
            return False
        try:
            mailbox = addresses.parse_path(reverse_path.encode(), utf8=True)
        except PathSyntaxError:
            return False
        labels = mailbox.domain.split(".")
        return self._has(senders, _folded(mailbox)) or any(
            self._has(senders, ".".join(labels[start:])) for start in range(len(labels))
        )

    def has_target(self, host: str) -> bool:
        """Return whether a host is blocked as a webhook target."""
        return self._has(self._tables[TARGET], host)

    def _has(self, table: _Table, key: int | str) -> bool:
        return key in table and self._is_active(table[key])

    def _is_active(self, expires_at_ms: int | None) -> bool:
        return expires_at_ms is None or self._clock() < expires_at_ms

    def _place(self, kind: str, value: str) -> tuple[_Table, int | str]:
        if kind != CLIENT:
            return self._tables[kind], value
        network = ip_network(value)
        table = self._networks.setdefault((network.version, network.prefixlen), {})
        return table, int(network.network_address) >> (network.max_prefixlen - network.prefixlen)


def name(text: str) -> str:
    """Return a local part in the canonical form of inbox addresses. Raises ValueError."""
    found = addresses.canonical(f"{text}@mail.example.com")
    if found is None:
        raise ValueError("not a local part")
    return found.rpartition("@")[0]


def sender(text: str) -> str:
    """Return a sender in the canonical form of blocks: a domain, or an address in lower case. Raises ValueError."""
    return _folded(addresses.parse_path(text.encode(), utf8=True)) if "@" in text.strip("@") else domain(text)


def _folded(mailbox: addresses.Mailbox) -> str:
    return f"{mailbox.local_part.lower()}@{mailbox.domain}"


def domain(text: str) -> str:
    """Return a domain in lower case with A-labels. Raises ValueError."""
    return hostnames.to_ascii(text.removeprefix("@"))
