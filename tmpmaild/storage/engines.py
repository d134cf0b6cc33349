"""Which engine stores the mail: the kind of the settings says. The other one is not loaded."""

import asyncio
import sys
from contextlib import AbstractAsyncContextManager
from types import ModuleType

from tmpmaild.errors import StartError
from tmpmaild.storage.base import OperatorMail, Storage, Summary
from tmpmaild.storage.settings import PostgresqlSettings, ServerFacts, SqliteSettings
from tmpmaild.storage.sqlite.engine import open_storage as open_sqlite
from tmpmaild.storage.sqlite.engine import operator_mail as sqlite_operator_mail
from tmpmaild.storage.sqlite.engine import upgrade as upgrade_sqlite
from tmpmaild.storage.sqlite.operatormail import summary as sqlite_summary
from tmpmaild.times import clock_ms

Settings = SqliteSettings | PostgresqlSettings


def open_storage(settings: Settings) -> AbstractAsyncContextManager[Storage]:
    """Open the storage; leaving the context closes it. Raises ``DatabaseError``, ``StartError``."""
    if isinstance(settings, SqliteSettings):
        return open_sqlite(settings, clock_ms)
    opened: AbstractAsyncContextManager[Storage] = _postgresql().open_storage(settings)
    return opened


def upgrade(settings: Settings) -> list[str]:
    """Bring the storage to the newest schema; return the names of the steps applied. Raises as ``open_storage``."""
    if isinstance(settings, SqliteSettings):
        return upgrade_sqlite(settings.path)
    applied: list[str] = asyncio.run(_postgresql().upgrade(settings))
    return applied


def operator_mail(settings: Settings) -> OperatorMail:
    """Return the operator's inbox, whether daemons use the storage or not. Raises ``StartError``."""
    if isinstance(settings, SqliteSettings):
        return sqlite_operator_mail(settings.path)
    mail: OperatorMail = _postgresql().operator_mail(settings)
    return mail


def summary(settings: Settings) -> Summary:
    """Return what the storage holds, without a daemon. Raises ``DatabaseError``, ``StartError``."""
    if isinstance(settings, SqliteSettings):
        return sqlite_summary(settings.path)
    stored: Summary = _postgresql().summary(settings)
    return stored


def server_facts(settings: PostgresqlSettings) -> ServerFacts:
    """Return how the server is set. Raises ``DatabaseError``, also when a daemon would refuse it; ``StartError``."""
    found: ServerFacts = _postgresql().facts(settings)
    return found


def _postgresql() -> ModuleType:
    try:
        from tmpmaild.storage.postgresql import engine  # noqa: PLC0415 - needs asyncpg
    except ImportError as error:
        if error.name != "asyncpg":
            raise
        raise StartError(f"storage.url needs asyncpg: {sys.executable} -m pip install asyncpg") from error
    return engine
