"""Whether the open files are still the ones at their paths: writes to a removed file succeed and are lost."""

import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)


class Files:
    """The database and its WAL as they were opened; used in the writer's thread.

    ``lost`` is true once one of them was removed or replaced; ``wal_bytes`` is the length of the WAL at the last look.
    """

    def __init__(self, path: Path) -> None:
        # Absolute, as SQLite keeps it: a renamed folder is missing for both.
        self.path = path.absolute()
        self.lost = False
        self.wal_bytes = 0
        self._wal = wal_of(path)
        self._opened = self._identities()

    def look(self) -> bool:
        """Look at the paths, two calls of stat(2); return ``lost``, which stays true.

        No descriptor is needed: SQLite keeps both files open, so no other file can have their inode numbers. And
        closing one would drop the locks that SQLite holds for this process on the same file.
        """
        if not self.lost:
            try:
                self.lost = self._identities() != self._opened
                reason = "is not the file that was opened"
            except OSError as error:
                self.lost = True
                reason = f"cannot be found ({error.strerror})"
            if self.lost:
                log.error("%s: the database or its -wal %s; no mail is accepted any more, stopping", self.path, reason)
        return self.lost

    def _identities(self) -> tuple[int, ...]:
        database, wal = os.stat(self.path), os.stat(self._wal)  # noqa: PTH116 - half the time of Path.stat
        self.wal_bytes = wal.st_size
        return database.st_dev, database.st_ino, wal.st_dev, wal.st_ino


def wal_of(path: Path) -> Path:
    """Return where SQLite keeps the WAL: next to the target of a symbolic link."""
    file = path.resolve()
    return file.with_name(file.name + "-wal")
