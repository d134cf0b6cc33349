"""Sends commands to the control socket of the running service; see ``tmpmaild/host/control.py`` for the protocol."""

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tmpmaild.config.settings import Config
from tmpmaild.errors import CommandError
from tmpmaild.host import control

_PATIENCE_SECONDS = 60.0
_MAX_LINE_BYTES = 1024 * 1024
_LISTENS_ELSEWHERE = (
    "; if you have changed {key} since the service started, the service still uses its earlier control socket:"
    " restart it (systemctl restart tmpmaild)"
)
_NEEDS_PLACE = f"with storage.url, also set control.listen, for example to unix:{control.OF_UNIT}"
_CUT_OFF = "the service stopped before its response was complete"
_LONG_SECONDS = 3600.0
_LONG = ("backup", "postmaster-delete", "purge", "webhooks-forget")
"""Commands whose response may stall for a long time, for example while the service makes the copy."""

T = TypeVar("T", bound=Struct)


class NotRunning(CommandError):
    """No service responds."""


class Changed(Struct, frozen=True):
    """The response to a command that changes several objects: the number of changed objects."""

    count: int


class Response:
    """The response to a command, read from the socket as it arrives; ``pid`` is the id of the responding process."""

    def __init__(self, stream: BinaryIO, pid: int, patience_seconds: float) -> None:
        self._stream = stream
        self.pid = pid
        self._patience_seconds = patience_seconds

    def lines(self) -> Iterator[dict[str, object]]:
        """Yield all lines except the last. Raises ``CommandError`` for an error line, or if the service has stopped."""
        while True:
            line = self._line()
            if "error" in line:
                raise CommandError(str(line["error"]))
            if line.get("done") is True:
                return
            yield line

    def read_bytes(self, count: int) -> Iterator[bytes]:
        """Yield the raw bytes that follow a line of the response."""
        while count:
            with _talking(self._patience_seconds):
                part = self._stream.read1(min(count, 1 << 16))  # type: ignore[attr-defined]
            if not part:
                raise CommandError(_CUT_OFF)
            count -= len(part)
            yield part

    def _line(self) -> dict[str, object]:
        with _talking(self._patience_seconds):
            line = self._stream.readline(_MAX_LINE_BYTES)
        if not line.endswith(b"\n"):
            raise CommandError(_CUT_OFF)
        try:
            return msgspec.json.decode(line, type=dict[str, object])
        except msgspec.DecodeError as error:
            raise CommandError("the response is not from tmpmaild, or from a different version") from error


@contextmanager
def request(config: Config, command: str, arguments: Mapping[str, object] | None = None) -> Iterator[Response]:
    """Send a command and yield the response. Each line must arrive in time; long commands have a longer time limit.

    Raises ``NotRunning``, ``CommandError``.
    """
    patience_seconds = _LONG_SECONDS if command in _LONG else _PATIENCE_SECONDS
    path = control.found(config, os.environ)
    if path is None:
        raise NotRunning('control.listen is "off", so no command can reach the service')
    line = msgspec.json.encode({"command": command, "arguments": arguments or {}}) + b"\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(patience_seconds)
        try:
            _connect(connection, path)
        except NotRunning as error:
            raise NotRunning(f"{error}{_hint(config, command)}") from error
        pid = _expect_service(connection, path)
        with connection.makefile("rb") as stream:
            with _talking(patience_seconds):
                _send(connection, line)
            yield Response(stream, pid, patience_seconds)


def _hint(config: Config, command: str) -> str:
    """Return an addition to the error that no service is listening, or ""."""
    if config.storage.url and not config.control.listen:
        return f"; {_NEEDS_PLACE}"
    if command == "reload":  # typically after an edit
        return _LISTENS_ELSEWHERE.format(key="control.listen" if config.control.listen else "storage.path")
    return ""


def call(config: Config, command: str, arguments: Mapping[str, object] | None = None) -> list[dict[str, object]]:
    """Return all lines of the response to a command. Raises the errors of ``request``."""
    with request(config, command, arguments) as response:
        return list(response.lines())


def last(config: Config, command: str, arguments: Mapping[str, object], kind: type[T]) -> T:
    """Return the last line of the response to a command. Raises the errors of ``request``."""
    return msgspec.convert(call(config, command, arguments)[-1], kind)


def of_running_service(right: Config) -> Config | None:
    """Return a configuration with which the running service can be reached, or None if no service responds.

    ``right`` contains the valid values of a configuration with errors; the running service may use other values.
    """
    for path in filter(None, (control.found(right, os.environ), control.OF_UNIT)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, suppress(CommandError):
            _connect(probe, path)
            return replace(right, control=replace(right.control, listen=f"unix:{path.absolute()}"))
    return None


def _connect(connection: socket.socket, path: Path) -> None:
    try:
        # A link may be longer than the maximum length of a socket path.
        connection.connect(os.fspath(path.readlink() if path.is_symlink() else path))
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NotRunning(f"no service is listening at {path}; is it running?") from error
    except PermissionError as error:
        raise CommandError(f"{path}: permission denied; run this command as root or as the service's user") from error
    except (OSError, ValueError) as error:
        raise CommandError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


@contextmanager
def _talking(patience_seconds: float) -> Iterator[None]:
    """Raise ``CommandError`` if the connection fails.

    Do not wrap any other code: an error in the caller's own work, such as writing a response to a pipe, must not be
    converted.
    """
    try:
        yield
    except TimeoutError as error:
        raise CommandError(f"no response within {patience_seconds:.0f} s") from error
    except ConnectionError as error:
        raise CommandError(_CUT_OFF) from error


def _send(connection: socket.socket, request: bytes) -> None:
    with suppress(
        BrokenPipeError
    ):  # the service may refuse a connection without reading the command; its response contains the reason
        connection.sendall(request)


def _expect_service(connection: socket.socket, path: Path) -> int:
    """Return the id of the process at the other end of the connection.

    Raises ``CommandError`` if that process does not run as the service's user.

    The service's user is the owner of the socket's folder, in which no other user can create a socket. The owner of the
    database's folder cannot be used: systemd 257 shows the folder of a dynamic user as owned by nobody.
    """
    peer = control.peer(connection)
    folder = path.resolve().parent
    try:
        expected = os.geteuid() or folder.stat().st_uid
    except OSError as error:
        raise CommandError(f"{folder}: cannot be accessed: {error.strerror or error}") from error
    if peer.uid != expected:
        raise CommandError(
            f"{path}: the process there runs as user {peer.uid}, but the service should run as user {expected}"
        )
    return peer.pid


def backup(config: Config, file: Path) -> int:
    """Write a copy to a new file that only its owner can read; return its size.

    If this raises ``CommandError``, no file is left behind.
    """
    with _new_file(file) as copy, request(config, "backup") as response:
        for line in response.lines():
            for part in response.read_bytes(msgspec.convert(line["octets"], int)):
                copy.write(part)
        copy.flush()
        os.fsync(copy.fileno())
        return copy.tell()


@contextmanager
def _new_file(file: Path) -> Iterator[BinaryIO]:
    """Create a file that must not exist yet; remove it if the body fails."""
    try:
        made = open(file, "xb", opener=lambda path, flags: os.open(path, flags, 0o600))  # noqa: SIM115
    except OSError as error:
        raise CommandError(f"{file}: cannot be created: {error.strerror or error}") from error
    try:
        with made:
            yield made
    except BaseException as error:
        file.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise CommandError(f"{file}: cannot be written: {error.strerror or error}") from error
        raise
