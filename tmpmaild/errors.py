"""Every error that this package raises on purpose, as one tree; the texts of answers are elsewhere.

    TmpmaildError
    ├── StartError                 the daemon or a command cannot start; one line for the operator
    │   ├── ConfigError            one or more mistakes in the configuration
    │   └── DatabaseError          the database cannot be used, or is gone
    │       └── DatabaseRefused    it is damaged, foreign, newer or read-only: the next start would meet the same
    ├── CommandError               a command cannot be done by the running service; one line for the operator
    └── RequestError               one request or one mail cannot be served
        ├── InvalidRequest         the client asked for something impossible
        ├── Unauthorized           a token is needed and none was given
        ├── AddressNotFound        no such address (or not for this client)
        ├── AddressExpired         the address has expired or was deleted
        ├── MessageNotFound        the inbox holds no message with that id
        ├── AddressTaken           the name is in use or in quarantine
        ├── MailboxFull            the inbox, or the share of its creator, is full
        ├── StorageFull            the cap or the disk is reached; may pass after the next sweep
        ├── StorageUnavailable     the database did not answer; trying again may help
        │   └── StorageLost        the database is gone; the daemon stops, to be restarted
        └── Stopping               the daemon is stopping

``smtp/replies.py`` and ``http/problems.py`` each map the whole ``RequestError`` branch to an answer.
"""

from collections.abc import Sequence


class TmpmaildError(Exception):
    """Base of everything below."""


class StartError(TmpmaildError):
    """Starting is impossible; ``str()`` is one clear line for the operator."""


class ConfigError(StartError):
    """All mistakes found in a configuration, each as one line that names file and key."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


class DatabaseError(StartError):
    """The database file cannot be used, and has not been changed; or it is gone."""


class DatabaseRefused(DatabaseError):
    """The database cannot be used as it is, so that trying again is of no use."""


class CommandError(TmpmaildError):
    """A command of the operator cannot be done; ``str()`` is one clear line."""


class RequestError(TmpmaildError):
    """One request or mail cannot be served."""


class InvalidRequest(RequestError):
    """The request is well-formed but asks for something impossible.

    ``errors`` holds pairs of a JSON pointer (RFC 6901; or a parameter's name) and what was expected.
    """

    def __init__(self, *errors: tuple[str, str]) -> None:
        super().__init__("; ".join(f"{pointer}: {detail}" for pointer, detail in errors))
        self.errors = errors


class Unauthorized(RequestError):
    """A token is needed and none was given."""


class AddressNotFound(RequestError):
    """No such address, or none that this client may know of."""


class AddressExpired(RequestError):
    """The address lived until ``expired_at_ms`` (Unix time in milliseconds)."""

    def __init__(self, expired_at_ms: int) -> None:
        super().__init__(expired_at_ms)
        self.expired_at_ms = expired_at_ms


class MessageNotFound(RequestError):
    """The inbox holds no message with that id."""


class AddressTaken(RequestError):
    """The name is in use, or was within the last 24 hours."""


class MailboxFull(RequestError):
    """The inbox, or what its creator may fill, is full."""


class StorageFull(RequestError):
    """The database has reached its cap, or the disk its reserve."""


class StorageUnavailable(RequestError):
    """The database did not answer as it should; the cause is in the log."""


class StorageLost(StorageUnavailable):
    """The database was removed or exchanged while it was in use; that was logged once, for all requests."""


class Stopping(RequestError):
    """The daemon is stopping and takes no new work."""
