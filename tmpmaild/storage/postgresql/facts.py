"""What ``tmpmaild doctor`` looks at on a server, as plain values; asked for in ``examining.py``."""

from collections.abc import Mapping

from msgspec import Struct


class ServerFacts(Struct, frozen=True, kw_only=True):
    """A server that takes writes, as our role sees it.

    ``schema_obstacle`` says why a daemon would not start with the schema, ``schema_step`` is None before there is one.
    ``others_may_create``: any role may put objects into our schema, which could be used in place of ours.
    ``others_may_connect``: any role may connect to our database, and so send notifications and take locks there.
    ``settings`` are those that exist of ``_SETTINGS`` in ``examining.py``, as text.
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
