"""The tree of all errors that this package raises on purpose; the texts of replies and responses are elsewhere.

    TmpmaildError
    ├── StartError                 the daemon or a command cannot start; one line for the operator
    │   ├── ConfigError            one or more mistakes in the configuration
    │   └── DatabaseError          the database cannot be used, or is gone
    │       └── DatabaseRefused    it is damaged, foreign, newer or read-only: the next start would fail in the same way
    ├── CommandError               the running service cannot execute a command; one line for the operator
    └── RequestError               one request or one message cannot be served
        ├── InvalidRequest         the client requested something impossible
        ├── Unauthorized           a token is required but was not given
        ├── AddressNotFound        no such address (or not for this client)
        ├── AddressExpired         the address has expired or was deleted
        ├── MessageNotFound        the inbox has no message with that id
        ├── AddressTaken           the name is in use, or was too recently
        ├── MailboxFull            the inbox, or the share of its creator, is full
        ├── StorageFull            the database has reached its cap, or the disk is full; may pass after the next sweep
        ├── StorageUnavailable     the database did not respond; trying again may help
        │   └── StorageLost        the database is gone; the daemon stops, to be restarted
        └── Stopping               the daemon is stopping

``smtp/replies.py`` and ``http/problems.py`` each map the whole ``RequestError`` branch, to replies and to responses.
"""

from collections.abc import Sequence


class TmpmaildError(Exception):
    """Base class of all errors in this module."""


class StartError(TmpmaildError):
    """The daemon or a command cannot start; ``str()`` is one clear line for the operator."""


class ConfigError(StartError):
    """The mistakes found in a configuration, one line each, which names the file and the key."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


class DatabaseError(StartError):
    """The database cannot be used, and has not been changed; or it is gone."""


class DatabaseRefused(DatabaseError):
    """The database cannot be used as it is; trying again will not help."""


class CommandError(TmpmaildError):
    """An operator's command cannot be executed; ``str()`` is one clear line."""


class RequestError(TmpmaildError):
    """One request or message cannot be served."""


class InvalidRequest(RequestError):
    """The request is well-formed but cannot be fulfilled.

    ``errors`` contains pairs: a JSON pointer (RFC 6901) or a parameter's name, and a description of the expected value.
    """

    def __init__(self, *errors: tuple[str, str]) -> None:
        super().__init__("; ".join(f"{pointer}: {detail}" for pointer, detail in errors))
        self.errors = errors


class Unauthorized(RequestError):
    """A token is required but was not given."""


class AddressNotFound(RequestError):
    """The address does not exist, or this client may not know about it."""


class AddressExpired(RequestError):
    """The address lived until ``expired_at_ms`` (Unix time in milliseconds)."""

    def __init__(self, expired_at_ms: int) -> None:
        super().__init__(expired_at_ms)
        self.expired_at_ms = expired_at_ms


class MessageNotFound(RequestError):
    """The inbox has no message with that id."""


class AddressTaken(RequestError):
    """The name is in use, or was within the last 24 hours."""


class MailboxFull(RequestError):
    """The inbox, or its creator's share, is full."""


class StorageFull(RequestError):
    """The database has reached its cap, or the disk its reserve."""


class StorageUnavailable(RequestError):
    """The database did not respond as expected; the cause is in the log."""


class StorageLost(StorageUnavailable):
    """The database was removed or replaced while in use; this is logged once, not for each request."""


class Stopping(RequestError):
    """The daemon is stopping and accepts no new work."""
