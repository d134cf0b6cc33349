"""All errors that this package raises deliberately. The texts of replies and responses are defined elsewhere.

    TmpmaildError
    ├── StartError                 the daemon or a command cannot start; one line for the operator
    │   ├── ConfigError            one or more errors in the configuration
    │   ├── CannotListen           an address is in use, is not this machine's, or may not be used
    │   └── DatabaseError          the database cannot be used, or is gone
    │       └── DatabaseRefused    it is damaged, foreign, newer or read-only; a restart would not help
    ├── CommandError               the running service cannot execute a command; one line for the operator
    └── RequestError               one request or one message cannot be served
        ├── InvalidRequest         the client requested something impossible
        ├── Unauthorized           a token is required but is missing
        ├── AddressNotFound        no such address (or not for this client)
        ├── AddressExpired         the address has expired or was deleted
        ├── MessageNotFound        the inbox has no message with that id
        ├── AddressTaken           the name is in use, or was in use recently
        ├── MailboxFull            the inbox, or the share of its creator, is full
        ├── StorageFull            the database is at its limit, or the disk is full; the next sweep may help
        ├── StorageUnavailable     the database did not respond; trying again may help
        │   └── StorageLost        the database is gone; the daemon stops, to be restarted
        └── Stopping               the daemon is stopping

``smtp/replies.py`` and ``http/problems.py`` map all subclasses of ``RequestError`` to replies and to responses.
"""

from collections.abc import Sequence


class TmpmaildError(Exception):
    """Base class of all errors in this module."""


class StartError(TmpmaildError):
    """The daemon or a command cannot start; ``str()`` is one clear line for the operator."""


class ConfigError(StartError):
    """The errors in a configuration: one line for each, with the file and the key."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = tuple(mistakes)


class CannotListen(StartError):
    """The daemon cannot listen on one of its addresses."""


class DatabaseError(StartError):
    """The database cannot be used and was not changed, or it has been removed."""


class DatabaseRefused(DatabaseError):
    """The database cannot be used in its current state; retrying will not help."""


class CommandError(TmpmaildError):
    """An operator's command cannot be executed; ``str()`` is one clear line."""


class RequestError(TmpmaildError):
    """A single request or message cannot be processed."""


class InvalidRequest(RequestError):
    """The request is well-formed but cannot be fulfilled.

    ``errors`` contains pairs of a JSON pointer (RFC 6901) or parameter name, and a description of the expected value.
    """

    def __init__(self, *errors: tuple[str, str]) -> None:
        super().__init__("; ".join(f"{pointer}: {detail}" for pointer, detail in errors))
        self.errors = errors


class Unauthorized(RequestError):
    """A token is required but is missing."""


class AddressNotFound(RequestError):
    """The address does not exist, or this client is not allowed to know about it."""


class AddressExpired(RequestError):
    """The address expired at ``expired_at_ms`` (Unix time in milliseconds)."""

    def __init__(self, expired_at_ms: int) -> None:
        super().__init__(expired_at_ms)
        self.expired_at_ms = expired_at_ms


class MessageNotFound(RequestError):
    """The inbox has no message with that id."""


class AddressTaken(RequestError):
    """The name is in use, or was in use within the last 24 hours."""


class MailboxFull(RequestError):
    """The inbox is full, or its creator has used up the storage share of a client."""


class StorageFull(RequestError):
    """The database has reached its maximum size, or free disk space has reached its minimum."""


class StorageUnavailable(RequestError):
    """The database did not respond as expected; the cause is in the log."""


class StorageLost(StorageUnavailable):
    """The database was removed or replaced while in use; this is logged once, not for each request."""


class Stopping(RequestError):
    """The daemon is stopping and accepts no new work."""
