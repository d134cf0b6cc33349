"""The interface to the engines: engine settings, engine selection, and read access without a daemon.

The type of the settings determines the engine. Only the selected engine is imported, because its driver may be an
optional dependency. Also contains the schema helpers that both engines use.
"""

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import asdict

import tmpmaild
from tmpmaild.config import databaseurl
from tmpmaild.config.databaseurl import DatabaseUrl
from tmpmaild.config.settings import Config
from tmpmaild.errors import DatabaseError, StartError
from tmpmaild.model import FullMessage, Inbox, Listing, Message, Page
from tmpmaild.storage import audit
from tmpmaild.storage.base import ANY_SIZE, Limits, Storage, Summary
from tmpmaild.storage.operatorbox import OperatorBox
from tmpmaild.storage.paging import InboxLookup
from tmpmaild.storage.rows import Bounds, bounds_of

_ALL_MESSAGES = 1_000_000

log = logging.getLogger(__name__)


class SqliteSettings(Limits, frozen=True, kw_only=True):
    """Settings of the SQLite engine: the database file."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the database for use in messages."""
        return str(self.path)


class PostgresqlSettings(Limits, frozen=True, kw_only=True):
    """Settings of the PostgreSQL engine. The password may be in a file, which is read for each connection."""

    url: DatabaseUrl
    password_file: Path | None = None

    @property
    def name(self) -> str:
        """The name of the database for use in messages."""
        return str(self.url)


class ServerFacts(Struct, frozen=True, kw_only=True):
    """Facts about a writable server, as seen by our role.

    ``schema_refusal`` is the reason why a daemon would refuse the schema, or "". ``schema_step`` is None if the
    database has no schema yet. ``others_may_create`` is true if any role may create objects in our schema. Such objects
    could be used in place of ours. ``others_may_connect`` is true if any role may connect to our database, and can
    therefore send notifications and acquire locks in it. ``settings`` contains the values, as text, of those
    ``_SETTINGS`` in ``postgresql/engine.py`` that the server supports.
    """

    version: str
    settings: Mapping[str, str]
    standby_names: str
    standbys: int
    is_superuser: bool
    is_owner: bool
    may_create: bool
    others_may_create: bool
    others_may_connect: bool
    has_tls: bool
    is_remote: bool
    free_connections: int
    daemons_connections: int
    database_bytes: int
    clock_ahead_seconds: float
    schema_step: int | None
    known_step: int
    schema_refusal: str


class OperatorMail:
    """The operator's inbox, which is read through an engine's functions without a daemon.

    Every method raises ``DatabaseError`` if the storage cannot be read.
    """

    def __init__(
        self,
        read_page: Callable[[Page], Listing | None],
        read_message: Callable[[str, Bounds], tuple[Inbox, FullMessage | None] | None],
        read_box: Callable[[], OperatorBox],
    ) -> None:
        self._read_page = read_page
        self._read_message = read_message
        self.box = read_box  # the clients that sent the messages, and the part of the inbox that each client uses

    def messages(self) -> tuple[Message, ...]:
        """Read all messages, newest first, with truncated bodies."""
        listing = self._read_page(Page(limit=_ALL_MESSAGES, bodies_bytes=0))
        return () if listing is None else listing.messages

    def message(self, message_id: str) -> Message | None:
        """Read one message with its whole body; None if it is not in the inbox."""
        full = self._read(message_id, source=False)
        return None if full is None else full.message

    def source(self, message_id: str) -> FullMessage | None:
        """Read the source of one message; None if it is not in the inbox."""
        return self._read(message_id, source=True)

    def _read(self, message_id: str, *, source: bool) -> FullMessage | None:
        found = self._read_message(message_id, bounds_of(ANY_SIZE, source=source))
        return None if found is None else found[1]


def operator_lookup(name_hash: bytes) -> InboxLookup:
    """Return a lookup for the operator's inbox, which never expires.

    ``name_hash`` is a value that is not the hash of any address.
    """
    return InboxLookup("", name_hash, 0, Limits())


Settings = SqliteSettings | PostgresqlSettings


def settings_of(config: Config) -> Settings:
    """Return the storage settings of a configuration: the location and the limits."""
    limits = Limits(
        max_bytes=config.storage.max_bytes,
        reserve_bytes=4 * config.smtp.max_message_bytes,
        max_messages_per_inbox=config.addresses.max_messages,
        max_bytes_per_inbox=config.addresses.max_bytes,
        max_share_per_creator=config.addresses.max_share_per_client,
    )
    if not config.storage.url:
        return SqliteSettings(path=Path(config.storage.path), **asdict(limits))
    password_file = Path(config.storage.password_file) if config.storage.password_file else None
    url = databaseurl.parse(config.storage.url)
    return PostgresqlSettings(url=url, password_file=password_file, **asdict(limits))


S_contra = TypeVar("S_contra", contravariant=True)


class Engine(Protocol[S_contra]):
    """The functions in each engine's ``engine`` module. All functions except ``open_storage`` work without a daemon.

    They raise ``DatabaseError``.
    """

    def open_storage(self, settings: S_contra) -> AbstractAsyncContextManager[Storage]:
        """Open the storage; leaving the context closes it."""

    def upgrade(self, settings: S_contra) -> list[str]:
        """Migrate the storage to the newest schema; return the names of the steps applied."""

    def operator_mail(self, settings: S_contra) -> OperatorMail:
        """Return the operator's inbox. Daemons may be using the storage."""

    def summary(self, settings: S_contra) -> Summary:
        """Return a summary of the stored data."""

    def secret(self, settings: S_contra) -> bytes:
        """Return the secret of the storage, which is the key for hashes."""


class PostgresqlEngine(Engine[PostgresqlSettings], Protocol):
    """The additional functions in PostgreSQL's ``engine`` module."""

    def facts(self, settings: PostgresqlSettings) -> ServerFacts:
        """Return facts about the server and its settings."""


def _sqlite() -> Engine[SqliteSettings]:
    from tmpmaild.storage.sqlite import engine  # noqa: PLC0415 - only the selected engine is loaded

    return engine


def _postgresql() -> PostgresqlEngine:
    """Return the engine for these settings. Raises ``StartError`` if its driver is not installed."""
    try:
        from tmpmaild.storage.postgresql import engine  # noqa: PLC0415 - its driver is an optional dependency
    except ImportError as error:
        if error.name != "asyncpg":
            raise
        raise StartError(f"storage.url needs asyncpg: {sys.executable} -m pip install asyncpg") from error
    return engine


def open_storage(settings: Settings) -> AbstractAsyncContextManager[Storage]:
    """Open the storage; leaving the context closes it. Raises ``DatabaseError``, ``StartError``."""
    if isinstance(settings, SqliteSettings):
        return _sqlite().open_storage(settings)
    return _postgresql().open_storage(settings)


def upgrade(settings: Settings) -> list[str]:
    """Migrate the storage to the newest schema; return the names of the steps applied.

    Raises the same errors as ``open_storage``.
    """
    return _sqlite().upgrade(settings) if isinstance(settings, SqliteSettings) else _postgresql().upgrade(settings)


def operator_mail(settings: Settings) -> OperatorMail:
    """Return the operator's inbox. Daemons may be using the storage. Raises ``StartError``."""
    if isinstance(settings, SqliteSettings):
        return _sqlite().operator_mail(settings)
    return _postgresql().operator_mail(settings)


def summary(settings: Settings) -> Summary:
    """Return a summary of the stored data, without a daemon. Raises ``DatabaseError``, ``StartError``."""
    return _sqlite().summary(settings) if isinstance(settings, SqliteSettings) else _postgresql().summary(settings)


def audit_hash(settings: Settings, address: str, *, day: str) -> str:
    """Return the same hash as ``Storage.audit_hash``. Daemons may be using the storage.

    Raises the same errors as ``summary``.
    """
    secret = _sqlite().secret(settings) if isinstance(settings, SqliteSettings) else _postgresql().secret(settings)
    return audit.audit_hash(secret, address, day=day)


def server_facts(settings: PostgresqlSettings) -> ServerFacts:
    """Return facts about the server and its settings.

    Raises ``StartError``, and ``DatabaseError`` if the server cannot be read or a daemon would refuse it.
    """
    return _postgresql().facts(settings)


def steps_in(folder: str) -> dict[int, Path]:
    """Return the migrations in a folder by number, starting with 1.

    The folder is inside the package in a wheel, and next to the package in a checkout.
    """
    package = Path(tmpmaild.__file__).parent
    for place in (package / folder, package.parent / folder):
        steps = {int(file.name[:4]): file for file in sorted(place.glob("[0-9][0-9][0-9][0-9]_*.sql"))}
        if steps:
            return steps
    raise DatabaseError(f"no migrations found in or next to {package}; the installation is incomplete")


def log_steps(storage: object, applied: Sequence[str]) -> None:
    """Log the migrations that were applied to an existing storage; nothing is logged for a new storage."""
    if applied and not applied[0].startswith("0001"):
        log.info("%s: the schema was upgraded: %s", storage, ", ".join(applied))


def differences(expected: Sequence[str], found: Sequence[str]) -> list[str]:
    """Return descriptions of the missing or changed lines, and of the new names.

    A line consists of a name, ``: `` and the text to compare.
    """
    known, there = set(expected), set(found)
    missing = [f"{line.partition(': ')[0]} is missing or different" for line in expected if line not in there]
    named = {line.partition(": ")[0] for line in expected}
    more = [name for line in found if line not in known and (name := line.partition(": ")[0]) not in named]
    return missing + [f"{name} is new" for name in more]
