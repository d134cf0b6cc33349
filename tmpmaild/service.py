"""The product without a wire: create an address, take mail for it, show the mail. No SMTP, no HTTP, no SQL."""

import hashlib
import hmac
from collections.abc import Callable, Sequence

import anyio
import anyio.to_thread
from msgspec import Struct

from tmpmaild import addresses, mime, trace
from tmpmaild.addresses import LocalPartError, Mailbox
from tmpmaild.errors import (
    AddressExpired,
    AddressNotFound,
    AddressTaken,
    InvalidRequest,
    MailboxFull,
    MessageNotFound,
    StorageFull,
    Unauthorized,
)
from tmpmaild.listings import ListingCache
from tmpmaild.model import Envelope, Inbox, InboxChange, Listing, NewInbox, NewMail, Page, ParsedMail
from tmpmaild.recipients import RecipientCache
from tmpmaild.storage.base import OPERATOR_INBOX_ID, Storage

_PARSE_IN_LOOP_BYTES = 32 * 1024
_HEAVY_BYTES = 1024 * 1024  # above it one by one: what parsing and storing copy is several times the mail
_GIVE_BACK_MS = 1000  # each time all that was free must be fetched from the system again
_RANDOM_NAME_TRIES = 5


class Wish(Struct, frozen=True):
    """What a client may ask of a new address; None leaves the choice to the service."""

    local_part: str | None = None
    domain: str | None = None
    private: bool = False


class Rules(Struct, frozen=True):
    """What the operator has decided: the domains (the first is the default), the lifetime, who may read.

    ``hostname`` is our name in the ``Received`` lines of sources.
    """

    domains: tuple[str, ...]
    lifetime_ms: int
    require_token: bool = False
    hostname: str = "localhost"


class InboxService:
    """Addresses and their mail. One instance a process; every collaborator is handed in.

    ``clock`` gives Unix milliseconds, ``choice`` picks one of a string's characters, ``new_token`` makes a secret.
    ``give_memory_back`` is called in a thread now and then after a large mail has been put together and parsed.
    """

    def __init__(
        self,
        storage: Storage,
        rules: Rules,
        *,
        clock: Callable[[], int],
        choice: Callable[[str], str],
        new_token: Callable[[], str],
        give_memory_back: Callable[[], None] = lambda: None,
    ) -> None:
        self._storage = storage
        self._rules = rules
        self._clock = clock
        self._choice = choice
        self._new_token = new_token
        self._give_memory_back = give_memory_back
        self._gave_back_ms = 0
        self._recipients = RecipientCache()
        self._listings = ListingCache()
        self._parsers = anyio.CapacityLimiter(2)
        self._heavy = anyio.Semaphore(1)
        storage.on_committed(self._on_committed)

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains mail is taken for."""
        return self._rules.domains

    def has_room(self) -> bool:
        """Tell whether new mail and addresses can be stored now."""
        return self._storage.has_room()

    async def create(self, wish: Wish, creator: str | None) -> tuple[Inbox, str]:
        """Give out an address and the token that commands it.

        ``creator`` is the client whose share the mail counts against, None for none. Raises ``InvalidRequest``,
        ``AddressTaken``, ``StorageFull``.
        """
        if not self.has_room():
            raise StorageFull("no room for a new address")
        domain = self._domain(wish.domain)
        if wish.local_part is not None:
            return await self._create(_checked(wish.local_part), domain, wish, creator)
        for _ in range(_RANDOM_NAME_TRIES):
            try:
                return await self._create(addresses.random_local_part(self._choice), domain, wish, creator)
            except AddressTaken:
                continue
        raise AddressTaken("no free name was found")

    async def find(self, address: str, token: str | None = None) -> Inbox:
        """Find a live address as a client wrote it.

        Raises ``AddressNotFound``, ``AddressExpired``, ``Unauthorized``.
        """
        folded = self._fold(address, token)
        now_ms = self._clock()
        return self._admit(await self._storage.find_inbox(folded, now_ms), token, now_ms)

    async def list_messages(self, address: str, page: Page, token: str | None = None) -> Listing:
        """Read one page of a live address. Raises as ``find``."""
        folded = self._fold(address, token)
        now_ms = self._clock()
        listing = self._listings.get(folded, page, now_ms) or await self._read(folded, page, now_ms)
        self._admit(listing.inbox if listing else None, token, now_ms)
        assert listing is not None
        return listing

    async def _read(self, address: str, page: Page, now_ms: int) -> Listing | None:
        moment = self._listings.moment
        listing = await self._storage.list_messages(address, page, now_ms)
        if listing is not None:
            self._listings.put(address, page, listing, moment)
        return listing

    async def read_source(
        self, address: str, message_id: str, token: str | None = None, *, up_to_bytes: int | None = None
    ) -> tuple[bytes, bytes | None]:
        """Read a message of a live address as it came: our trace fields, and the octets below them.

        These are None when they are more than ``up_to_bytes``. Raises as ``find``, and ``MessageNotFound``.
        """
        folded = self._fold(address, token)
        now_ms = self._clock()
        found = await self._storage.read_source(folded, message_id, now_ms, up_to_bytes)
        inbox, source = found or (None, None)
        self._admit(inbox, token, now_ms)
        if source is None:
            raise MessageNotFound("no such message in this inbox")
        return trace.fields(source, self._rules.hostname), source.raw

    def recipient_now(self, mailbox: Mailbox) -> str | None:
        """Return the inbox id a recipient stands for if that is known without waiting; None: ask ``recipient``."""
        inbox = self._recipients.get(addresses.inbox_address(mailbox), self._clock())
        return inbox.id if inbox else None

    async def recipient(self, mailbox: Mailbox) -> str:
        """Return the id of the inbox a recipient stands for.

        Raises ``AddressNotFound`` alike for what never was, is over, or was deleted; ``MailboxFull``.
        """
        if addresses.is_operator(mailbox, self._rules.domains):
            return await self._operator()
        now_ms = self._clock()
        inbox = await self._storage.find_inbox(addresses.inbox_address(mailbox), now_ms)
        if inbox is None or inbox.expires_at_ms <= now_ms:
            raise AddressNotFound("no live address")
        if inbox.full:
            raise MailboxFull("the inbox takes no more")
        self._recipients.put(inbox)
        return inbox.id

    async def _operator(self) -> str:
        if await self._storage.operator_is_full():
            raise MailboxFull("the operator's inbox takes no more")
        return OPERATOR_INBOX_ID

    async def deliver(self, envelope: Envelope, inbox_ids: Sequence[str], raw: bytes) -> str:
        """Store a mail for all of its inboxes that live; it is on disk when the first one's message id returns.

        Raises ``AddressNotFound`` when no inbox is left, ``MailboxFull``, ``StorageFull``, ``StorageUnavailable``.
        """
        if len(raw) <= _PARSE_IN_LOOP_BYTES:
            return await self._store(envelope, inbox_ids, raw, mime.parse(raw))
        if len(raw) <= _HEAVY_BYTES:
            return await self._parse_and_store(envelope, inbox_ids, raw)
        async with self._heavy:
            return await self._parse_and_store(envelope, inbox_ids, raw)

    async def _parse_and_store(self, envelope: Envelope, inbox_ids: Sequence[str], raw: bytes) -> str:
        parsed = await anyio.to_thread.run_sync(self._parse, raw, limiter=self._parsers)
        return await self._store(envelope, inbox_ids, raw, parsed)

    def _parse(self, raw: bytes) -> ParsedMail:
        parsed = mime.parse(raw)
        now_ms = self._clock()
        if len(raw) > _HEAVY_BYTES and abs(now_ms - self._gave_back_ms) >= _GIVE_BACK_MS:
            self._gave_back_ms = now_ms
            self._give_memory_back()
        return parsed

    async def _store(self, envelope: Envelope, inbox_ids: Sequence[str], raw: bytes, parsed: ParsedMail) -> str:
        mail = NewMail(envelope=envelope, inbox_ids=tuple(inbox_ids), raw=raw, parsed=parsed)
        try:
            return await self._storage.add_message(mail)
        except (AddressNotFound, MailboxFull):
            for inbox_id in inbox_ids:
                self._recipients.forget(inbox_id)
            raise

    def forget_expired(self) -> None:
        """Drop from memory what is over."""
        now_ms = self._clock()
        self._recipients.forget_expired(now_ms)
        self._listings.forget_expired(now_ms)

    def _on_committed(self, changes: Sequence[InboxChange]) -> None:
        self._recipients.update(changes)
        self._listings.update(changes)

    def _domain(self, wish: str | None) -> str:
        if wish is None:
            return self._rules.domains[0]
        folded = wish.lower()
        if folded not in self._rules.domains:
            raise InvalidRequest(("/domain", f"expected one of {', '.join(self._rules.domains)}"))
        return folded

    async def _create(self, local_part: str, domain: str, wish: Wish, creator: str | None) -> tuple[Inbox, str]:
        token = self._new_token()
        now_ms = self._clock()
        new = NewInbox(
            address=f"{local_part}@{domain}",
            created_at_ms=now_ms,
            expires_at_ms=now_ms + self._rules.lifetime_ms,
            private=wish.private,
            token_hash=_digest(token),
            creator=creator,
        )
        return await self._storage.create_inbox(new), token

    def _fold(self, address: str, token: str | None) -> str:
        if self._rules.require_token and token is None:
            raise Unauthorized("every inbox needs its token here")
        folded = addresses.fold(address)
        if folded is None:
            raise AddressNotFound("no address")
        return folded

    def _admit(self, inbox: Inbox | None, token: str | None, now_ms: int) -> Inbox:
        """Let a client have an inbox: with the right token where one is needed, and while it lives."""
        if inbox is None:
            raise AddressNotFound("no such address")
        if (inbox.private or self._rules.require_token) and not _opens(inbox, token):
            raise AddressNotFound("not for this client")
        if inbox.expires_at_ms <= now_ms:
            raise AddressExpired(inbox.expires_at_ms)
        return inbox


def _checked(local_part: str) -> str:
    try:
        return addresses.check_local_part(local_part)
    except LocalPartError as error:
        raise InvalidRequest(("/local_part", str(error))) from error


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _opens(inbox: Inbox, token: str | None) -> bool:
    return token is not None and hmac.compare_digest(_digest(token), inbox.token_hash or b"")
