"""How fast a mail comes in."""

_MEASURED_SECONDS = 300
_MIN_BYTES_PER_SECOND = 500  # as Postfix's smtpd_min_data_rate


class Pace:
    """The pace of one mail, from loop times and the octets received so far. ``since`` is when it was last measured."""

    __slots__ = ("_bytes", "since")

    def __init__(self) -> None:
        self.since = 0.0
        self._bytes = 0

    def begin(self, now: float, received_bytes: int = 0) -> None:
        """Measure from here on."""
        self.since = now
        self._bytes = received_bytes

    def is_too_slow(self, now: float, received_bytes: int) -> bool:
        """Return whether the mail has trickled lately; asked more often, it is measured once in some minutes."""
        seconds = now - self.since
        if seconds <= _MEASURED_SECONDS:
            return False
        # Measured since the last time, not since DATA: a mail that comes fast at first could be stretched over a day.
        more_bytes = received_bytes - self._bytes
        self.begin(now, received_bytes)
        return more_bytes < seconds * _MIN_BYTES_PER_SECOND
