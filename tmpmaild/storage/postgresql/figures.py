"""What the engine counts for the operator: what the database holds, and how the commits of this daemon go."""

from tmpmaild.measures import Gauge, Measure
from tmpmaild.storage.commits import CommitFigures
from tmpmaild.storage.postgresql.quotas import Usage


class Figures(CommitFigures):
    """What the database holds is counted by all daemons together."""

    def __init__(self, usage: Usage) -> None:
        super().__init__()
        self._usage = usage

    def forget_trouble(self) -> None:
        """Note that the database answers again."""
        self.trouble = ""

    def measures(self) -> tuple[Measure, ...]:
        """Return every measure."""
        return (
            *super().measures(),
            Gauge("storage_inboxes", "Inboxes that are not swept yet.", lambda: self._usage.inboxes),
            Gauge("storage_messages", "Messages in the database.", lambda: self._usage.messages),
            Gauge("storage_used_bytes", "Octets of the database that are in use.", lambda: self._usage.stored_bytes),
            Gauge(
                "storage_max_bytes", "The cap of the database, storage.max_bytes.", lambda: self._usage.limits.cap_bytes
            ),
            Gauge("storage_has_room", "1 while new mail and addresses are accepted.", lambda: self._usage.has_room),
        )
