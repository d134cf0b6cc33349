"""Which engine stores the mail: the kind of the settings says. Only that one is loaded; its driver may be an extra."""

import asyncio
import sys
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from types import ModuleType

from tmpmaild.errors import StartError
from tmpmaild.storage.base import Storage, Summary
from tmpmaild.storage.operatormail import OperatorMail
from tmpmaild.storage.settings import PostgresqlSettings, ServerFacts, SqliteSettings

Settings = SqliteSettings | PostgresqlSettings


def open_storage(settings: Settings) -> AbstractAsyncContextManager[Storage]:
    """Open the storage; leaving the context closes it. Raises ``DatabaseError``, ``StartError``."""
    opened: AbstractAsyncContextManager[Storage] = _module(settings, "engine").open_storage(settings)
    return opened


def upgrade(settings: Settings) -> list[str]:
    """Bring the storage to the newest schema; return the names of the steps applied. Raises as ``open_storage``."""
    engine = _module(settings, "engine")
    applied: list[str] = (
        engine.upgrade(settings.path) if isinstance(settings, SqliteSettings) else asyncio.run(engine.upgrade(settings))
    )
    return applied


def operator_mail(settings: Settings) -> OperatorMail:
    """Return the operator's inbox, whether daemons use the storage or not. Raises ``StartError``."""
    mail: OperatorMail = _module(settings, "examining").operator_mail(settings)
    return mail


def summary(settings: Settings) -> Summary:
    """Return what the storage holds, without a daemon. Raises ``DatabaseError``, ``StartError``."""
    stored: Summary = _module(settings, "examining").summary(settings)
    return stored


def server_facts(settings: PostgresqlSettings) -> ServerFacts:
    """Return how the server is set. Raises ``DatabaseError``, also when a daemon would refuse it; ``StartError``."""
    found: ServerFacts = _module(settings, "examining").facts(settings)
    return found


def _module(settings: Settings, name: str) -> ModuleType:
    """Return a module of the engine that the settings are for; each has ``engine`` and ``examining``."""
    folder = "sqlite" if isinstance(settings, SqliteSettings) else "postgresql"
    try:
        return import_module(f"tmpmaild.storage.{folder}.{name}")
    except ImportError as error:
        if error.name != "asyncpg":
            raise
        raise StartError(f"storage.url needs asyncpg: {sys.executable} -m pip install asyncpg") from error
