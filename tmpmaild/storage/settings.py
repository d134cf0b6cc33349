"""What may be stored and where, as values: each engine's settings, and the limits that follow from them.

Apart from the engines, so that they can be made where the driver of one is not installed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from tmpmaild.config.databaseurl import DatabaseUrl

OPERATOR_MAX_MESSAGES: Final = 200
OPERATOR_MAX_BYTES: Final = 50 * 1024 * 1024
NO_LIMIT: Final = 1 << 62


class Limits(Struct, frozen=True, kw_only=True):
    """What inboxes may hold: all of them, one (messages and octets), and all inboxes of its creator.

    The operator's inbox has limits of its own.
    """

    cap_bytes: int = NO_LIMIT
    reserve_bytes: int = 0
    max_messages: int = NO_LIMIT
    max_bytes: int = NO_LIMIT
    max_creator_bytes: int = NO_LIMIT
    operator_max_messages: int = OPERATOR_MAX_MESSAGES
    operator_max_bytes: int = OPERATOR_MAX_BYTES


class StorageLimits(Struct, frozen=True, kw_only=True):
    """What may be stored; 0 means no limit, for ``max_bytes`` the default of the engine.

    ``reserve_bytes`` must stay free for mail that is being received. The share is of ``max_bytes``.
    """

    max_bytes: int = 0
    reserve_bytes: int = 0
    max_messages_per_inbox: int = 0
    max_bytes_per_inbox: int = 0
    max_share_per_creator: float = 1.0

    def up_to(self, cap_bytes: int) -> Limits:
        """Return what follows for inboxes that may hold so much together."""
        return Limits(
            cap_bytes=cap_bytes,
            reserve_bytes=self.reserve_bytes,
            max_messages=self.max_messages_per_inbox or NO_LIMIT,
            max_bytes=self.max_bytes_per_inbox or NO_LIMIT,
            max_creator_bytes=int(self.max_share_per_creator * cap_bytes),
        )


class SqliteSettings(StorageLimits, frozen=True, kw_only=True):
    """A file."""

    path: Path

    @property
    def name(self) -> str:
        """The database, as it is called in messages."""
        return str(self.path)


class PostgresqlSettings(StorageLimits, frozen=True, kw_only=True):
    """A database on a server. The password may be in a file, which is read for each connection."""

    url: DatabaseUrl
    password_file: Path | None = None

    @property
    def name(self) -> str:
        """The database, as it is called in messages."""
        return str(self.url)


class ServerFacts(Struct, frozen=True, kw_only=True):
    """A server that takes writes, as our role sees it.

    ``schema_obstacle`` says why a daemon would not start with the schema, ``schema_step`` is None before there is one.
    ``others_may_create``: any role may put objects into our schema, which could be used in place of ours.
    ``others_may_connect``: any role may connect to our database, and so send notifications and take locks there.
    ``settings`` are those that exist of ``_SETTINGS`` in ``engine.py``, as text.
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
    schema_obstacle: str
