"""Whether there is room for more: the cap of the file, the reserve of the disk. An inbox's own is in ``room.py``."""

import math
import shutil
import sqlite3
import time
from pathlib import Path

from tmpmaild.storage.layout import PAGE_BYTES

_MEASURE_EVERY_SECONDS = 0.1


class Space:
    """Whether there is room: asked of the disk and the file in the writer's thread, answered from memory."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, cap_bytes: int, reserve_bytes: int) -> None:
        self._path = path
        self._connection = connection
        self._cap_bytes = cap_bytes
        self._disk_reserve_bytes = max(256 * 1024 * 1024, cap_bytes // 10, reserve_bytes)
        self._cap_reserve_bytes = min(cap_bytes // 10, reserve_bytes)
        self._measured_at_seconds = -math.inf
        self._moved_bytes = 0.0
        self.has_room = True
        self.measure()

    def measure(self, moved_bytes: float = 0.0) -> None:
        """Look again, unless that was a moment and a few octets ago: it costs the writer six hand-overs of the GIL.

        The WAL is not bounded by the cap, hence the disk's own reserve.
        """
        now = time.monotonic()
        self._moved_bytes += moved_bytes
        fresh = now - self._measured_at_seconds < _MEASURE_EVERY_SECONDS
        # Without room little is written, so who makes some by deleting may be the last batch for long.
        if self.has_room and fresh and self._moved_bytes < self._cap_reserve_bytes // 8:
            return
        self._measured_at_seconds, self._moved_bytes = now, 0.0
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        used_bytes = (pages - free) * PAGE_BYTES
        self.has_room = (
            used_bytes + self._cap_reserve_bytes <= self._cap_bytes
            and shutil.disk_usage(self._path.parent).free >= self._disk_reserve_bytes
        )
