"""What SMTP counts for the operator."""

from collections.abc import Callable, Iterator

from tmpmaild.measures import Count, Gauge, Histogram, Measure
from tmpmaild.smtp.replies import MEMORY_FULL, Reply


class SmtpMeasures:
    """The numbers of all SMTP connections; ``sessions`` returns how many are open."""

    def __init__(self, sessions: Callable[[], int], held_bytes: Callable[[], int]) -> None:
        self._mails = Count(
            "smtp_mails_total",
            "Mails that came to their final dot, by result (accepted, refused) and the reply's status code.",
            ("result", "status"),
        )
        self._accepted_bytes = Count("smtp_accepted_bytes_total", "Octets of the accepted mails.")
        self._refusals = Count(
            "smtp_refusals_total", "Negative replies, by code and enhanced status code.", ("code", "status")
        )
        self._limits = Count(
            "smtp_refused_connections_total", "Connections refused, by the limit they met, or blocked.", ("limit",)
        )
        self._memory = Count(
            "smtp_memory_refusals_total",
            "Mails refused because too much mail was coming in at once, for all or one client.",
        )
        self._store_seconds = Histogram("smtp_store_seconds", "From the final dot of a mail to its reply.")
        self._gauges = (
            Gauge("smtp_sessions", "Open SMTP connections.", sessions),
            Gauge("smtp_held_bytes", "Octets of unfinished and unstored mail in memory.", held_bytes),
        )

    def __iter__(self) -> Iterator[Measure]:
        """Yield every measure."""
        counted = (self._mails, self._accepted_bytes, self._refusals, self._limits, self._memory, self._store_seconds)
        return iter((*counted, *self._gauges))

    def count_mail(self, reply: Reply, octets: int, seconds: float) -> None:
        """Count a mail with the reply to its final dot."""
        self._mails.add("accepted" if reply.is_positive else "refused", reply.enhanced_status)
        if reply.is_positive:
            self._accepted_bytes.add(by=octets)
            self._store_seconds.observe(seconds)

    def count_refusal(self, reply: Reply) -> None:
        """Count a negative reply."""
        self._refusals.add(str(reply.code), reply.enhanced_status)
        if reply is MEMORY_FULL:
            self._memory.add()

    def count_refused_connection(self, limit: str) -> None:
        """Count a connection that was refused because of a limit, named by its key."""
        self._limits.add(limit)
