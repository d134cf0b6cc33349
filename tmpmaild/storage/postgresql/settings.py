"""The settings of the PostgreSQL engine, apart from it: they can be made where its driver is not installed."""

from pathlib import Path

from tmpmaild.databaseurl import DatabaseUrl
from tmpmaild.storage.base import StorageLimits


class StorageSettings(StorageLimits, frozen=True, kw_only=True):
    """The settings of the engine. The password may be in a file, which is read for each connection."""

    url: DatabaseUrl
    password_file: Path | None = None

    @property
    def name(self) -> str:
        """The database, as it is called in messages."""
        return str(self.url)
