"""Which engine stores the mail: the kind of the settings says. Only that one is loaded; its driver may be an extra."""

import asyncio
import logging
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from pathlib import Path
from types import ModuleType

from msgspec.structs import asdict

import tmpmaild
from tmpmaild.config import databaseurl
from tmpmaild.config.settings import Config
from tmpmaild.errors import DatabaseError, StartError
from tmpmaild.storage.base import Storage, Summary
from tmpmaild.storage.operatormail import OperatorMail
from tmpmaild.storage.settings import PostgresqlSettings, ServerFacts, SqliteSettings, StorageLimits

Settings = SqliteSettings | PostgresqlSettings


def settings_of(config: Config) -> Settings:
    """Return where mail is stored, and how much of it."""
    limits = StorageLimits(
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


def open_storage(settings: Settings) -> AbstractAsyncContextManager[Storage]:
    """Open the storage; leaving the context closes it. Raises ``DatabaseError``, ``StartError``."""
    opened: AbstractAsyncContextManager[Storage] = _module(settings).open_storage(settings)
    return opened


def upgrade(settings: Settings) -> list[str]:
    """Bring the storage to the newest schema; return the names of the steps applied. Raises as ``open_storage``."""
    engine = _module(settings)
    applied: list[str] = (
        engine.upgrade(settings.path) if isinstance(settings, SqliteSettings) else asyncio.run(engine.upgrade(settings))
    )
    return applied


def operator_mail(settings: Settings) -> OperatorMail:
    """Return the operator's inbox, whether daemons use the storage or not. Raises ``StartError``."""
    mail: OperatorMail = _module(settings).operator_mail(settings)
    return mail


def summary(settings: Settings) -> Summary:
    """Return what the storage holds, without a daemon. Raises ``DatabaseError``, ``StartError``."""
    stored: Summary = _module(settings).summary(settings)
    return stored


def server_facts(settings: PostgresqlSettings) -> ServerFacts:
    """Return how the server is set. Raises ``DatabaseError``, also when a daemon would refuse it; ``StartError``."""
    found: ServerFacts = _module(settings).facts(settings)
    return found


def _module(settings: Settings) -> ModuleType:
    """Return the module ``engine`` of the engine that the settings are for."""
    folder = "sqlite" if isinstance(settings, SqliteSettings) else "postgresql"
    try:
        return import_module(f"tmpmaild.storage.{folder}.engine")
    except ImportError as error:
        if error.name != "asyncpg":
            raise
        raise StartError(f"storage.url needs asyncpg: {sys.executable} -m pip install asyncpg") from error


log = logging.getLogger(__name__)


def steps_in(folder: str) -> dict[int, Path]:
    """Return the steps in a folder by number, 1 first. They are in the package in a wheel, next to it in a checkout."""
    package = Path(tmpmaild.__file__).parent
    for place in (package / folder, package.parent / folder):
        steps = {int(file.name[:4]): file for file in sorted(place.glob("[0-9][0-9][0-9][0-9]_*.sql"))}
        if steps:
            return steps
    raise DatabaseError(f"no migrations found in or next to {package}; the installation is incomplete")


def tell(storage: object, applied: Sequence[str]) -> None:
    """Log which steps a start has applied to a storage that was older; nothing of a new one."""
    if applied and not applied[0].startswith("0001"):
        log.info("%s: the schema was brought up to date: %s", storage, ", ".join(applied))


def differences(expected: Sequence[str], found: Sequence[str]) -> list[str]:
    """Return what is missing and what is there besides, in words. A line is a name, ``: `` and what is compared."""
    known, there = set(expected), set(found)
    missing = [f"{line.partition(': ')[0]} is missing or different" for line in expected if line not in there]
    named = {line.partition(": ")[0] for line in expected}
    more = [name for line in found if line not in known and (name := line.partition(": ")[0]) not in named]
    return missing + [f"{name} is new" for name in more]
