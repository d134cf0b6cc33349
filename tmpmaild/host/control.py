"""The control socket, which receives an operator's commands from other processes, one command per connection.

A request is one line of JSON, ``{"command": "status", "arguments": {}}``. The response is one JSON object per line. A
line with ``octets`` is followed by that many raw bytes. The last line is ``{"done": true}`` or ``{"error": "…"}``. The
commands are passed to the server's constructor.
"""

import asyncio
import errno
import logging
import os
import socket
import stat
import struct
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import ExitStack, aclosing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw, Struct

from tmpmaild import __version__
from tmpmaild.config.settings import Config
from tmpmaild.config.validators import MAX_SOCKET_PATH_BYTES, parse_endpoint
from tmpmaild.errors import CommandError, RequestError, StartError

_MODE = 0o600
_BACKLOG = 16
_SUFFIX = ".control"
_NAME = "control.sock"
MAX_REQUEST_BYTES = 64 * 1024
_MAX_CONNECTIONS = 16
_REQUEST_SECONDS = 10.0
_DRAIN_SECONDS = 600.0  # a person may be reading a list in a pager
_CREDENTIALS = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid

OF_UNIT: Final = Path("/run/tmpmaild", _NAME)
"""The socket of tmpmaild.service."""

Lines = AsyncGenerator[Struct | bytes, None]
"""The lines of a response, and raw bytes that follow a line.

The generator is closed early if the client disconnects.
"""

log = logging.getLogger(__name__)


class NoArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a command that accepts no arguments."""


class Octets(Struct, frozen=True):
    """Announces the number of raw bytes that follow in the response."""

    octets: int


class Command(NamedTuple):
    """A command: ``arguments`` is the type that validates its arguments, and ``run`` is the function to call.

    If ``run`` raises ``CommandError``, ``StartError`` or ``RequestError``, the client receives its text.
    """

    arguments: type[Struct]
    run: Callable[[Any], Lines]


class Peer(NamedTuple):
    """The process at the other end of a connection, and its user."""

    pid: int
    uid: int


def peer(connection: socket.socket) -> Peer:
    """Return the process at the other end, as recorded by the kernel when it connected or started listening."""
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return Peer(pid, uid)


def path_of(config: Config) -> Path | None:
    """Return the path at which a client finds the socket or a link to it, or None if no socket is configured."""
    if config.control.listen == "off":
        return None
    if config.control.listen:
        return Path(parse_endpoint(config.control.listen).path)
    return _beside(Path(config.storage.path))


def found(config: Config, environ: Mapping[str, str]) -> Path | None:
    """Return the path at which a client finds the socket.

    A command of the unit, such as ExecReload=, uses the socket in the unit's own folder, if there is one, because
    ``storage.path`` and ``control.listen`` may have changed since the service started.
    """
    own = Path(environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]) / _NAME
    return own if own.is_absolute() and own.is_socket() else path_of(config)


def _beside(database: Path) -> Path:
    return database.with_name(database.name + _SUFFIX)


@contextmanager
def bound(config: Config, environ: Mapping[str, str]) -> Iterator[socket.socket | None]:
    """Bind the configured socket, which is by default in the unit's RuntimeDirectory or next to the database.

    Call this while the database is locked. On exit, the socket is closed and its files are removed. If the default
    socket cannot be bound, logs a warning and yields None. If a configured socket cannot be bound, raises
    ``StartError``.
    """
    files: list[Path] = []
    listener = _bind_or_warn(config, environ.get("RUNTIME_DIRECTORY", "").partition(":")[0], files)
    try:
        yield listener
    finally:
        if listener is not None:
            listener.close()
        for file in files:
            with suppress(OSError):
                file.unlink()


def _bind_or_warn(config: Config, runtime_directory: str, files: list[Path]) -> socket.socket | None:
    """Bind the socket, and record the created files."""
    found_at = path_of(config)
    if found_at is None:
        return None
    try:
        if config.control.listen or not runtime_directory:
            return _bind(found_at, files)
        target = Path(runtime_directory) / _NAME
        listener = _bind(target, files)
        _link(found_at, target, files)
    except (StartError, OSError) as error:
        if config.control.listen:
            raise
        log.warning("no control socket, so commands such as tmpmaild status cannot reach this service: %s", error)
        return None
    return listener


def _link(found_at: Path, target: Path, files: list[Path]) -> None:
    """Create a link to the socket next to the database.

    Commands look for it there, since they do not know the unit's directory.
    """
    with suppress(FileNotFoundError):
        found_at.unlink()
    found_at.symlink_to(target)
    files.append(found_at)


def _bind(path: Path, files: list[Path]) -> socket.socket:
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        raise StartError(f"{path}: longer than {MAX_SOCKET_PATH_BYTES} bytes; set control.listen")
    with ExitStack() as unbound:
        listener = unbound.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        try:
            _remove_stale(path)
            os.fchmod(listener.fileno(), _MODE)
            listener.bind(os.fspath(path))
            files.append(path)
            listener.listen(_BACKLOG)
            mode = stat.S_IMODE(path.lstat().st_mode)
        except OSError as error:
            raise StartError(f"control.listen: {path}: {error.strerror or error}") from error
        if mode & ~_MODE:
            path.unlink()
            raise StartError(f"control.listen: {path}: this system creates sockets that others can open")
        unbound.pop_all()
    return listener


def _remove_stale(path: Path) -> None:
    """Remove the socket that a killed process left behind. Raises ``StartError`` if it is not a socket or is in use."""
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode) and path.name.endswith(_SUFFIX):  # our link to a socket in a RuntimeDirectory
            path.unlink()
            return
        if not stat.S_ISSOCK(mode):
            raise StartError(f"control.listen: {path}: exists, and is not a socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0)
        if probe.connect_ex(os.fspath(path)) != errno.ECONNREFUSED:
            raise StartError(f"control.listen: {path}: in use by another process")
    path.unlink()


class _Request(Struct, forbid_unknown_fields=True):
    command: str
    arguments: Raw = Raw(b"{}")


class _Done(Struct):
    done: bool = True


class _Failed(Struct):
    error: str


class ControlServer:
    """Serves the control socket, but only to processes run by root or by our own user."""

    def __init__(self, commands: Mapping[str, Command], *, drain_seconds: float = _DRAIN_SECONDS) -> None:
        self._commands = commands
        self._drain_seconds = drain_seconds
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, listener: socket.socket | None) -> None:
        """Accept connections on a bound socket; do nothing if it is None."""
        if listener is not None:
            self._server = await asyncio.start_unix_server(self._accept, sock=listener, limit=MAX_REQUEST_BYTES)

    async def stop(self) -> None:
        """Stop accepting connections, and cancel the commands that are running."""
        if self._server is not None:
            self._server.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # a transport closes in the next iteration of the loop

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # The task does not close the writer itself, because a task that is cancelled before it starts never runs.
        task.add_done_callback(lambda _: _close(writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(0)  # makes drain() wait until everything has been sent
        try:
            await self._respond(reader, writer)
        except (ConnectionError, TimeoutError):
            log.debug("a client of the control socket has disconnected")

    async def _respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self._admit(writer)
            command, arguments = await self._read(reader)
            async with aclosing(command.run(arguments)) as lines:
                async for part in lines:
                    await self._write(writer, part)
            last: Struct = _Done()
        except (CommandError, StartError, RequestError) as error:
            last = _Failed(str(error))
        except (ConnectionError, TimeoutError):
            raise
        except Exception:
            log.exception("a command on the control socket failed")
            last = _Failed("internal error of the service; see its log")
        await self._write(writer, last)

    def _admit(self, writer: asyncio.StreamWriter) -> None:
        uid = peer(writer.get_extra_info("socket")).uid
        if uid not in (0, os.geteuid()):
            log.warning("control socket: user %d refused", uid)
            raise CommandError(f"commands are accepted from root and from user {os.geteuid()}, not from user {uid}")
        if len(self._tasks) > _MAX_CONNECTIONS:
            raise CommandError(f"{_MAX_CONNECTIONS} commands are already running; try again later")

    async def _read(self, reader: asyncio.StreamReader) -> tuple[Command, Struct]:
        """Read a request; return the command and its arguments."""
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("no request") from error
        except asyncio.LimitOverrunError as error:
            raise CommandError(f"a request is one line of at most {MAX_REQUEST_BYTES} bytes") from error
        try:
            request = msgspec.json.decode(line, type=_Request)
            command = self._commands.get(request.command)
            if command is None:
                raise CommandError(f"this service is tmpmaild {__version__}, which does not know this command")
            return command, msgspec.json.decode(request.arguments, type=command.arguments)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CommandError(f"invalid request; is it from a version other than {__version__}? {error}") from error

    async def _write(self, writer: asyncio.StreamWriter, part: Struct | bytes) -> None:
        if writer.is_closing():  # uvloop would raise RuntimeError
            raise ConnectionError("the client has disconnected")
        writer.write(part if isinstance(part, bytes) else msgspec.json.encode(part) + b"\n")
        async with asyncio.timeout(self._drain_seconds):
            await writer.drain()


def _close(writer: asyncio.StreamWriter) -> None:
    if writer.transport.get_write_buffer_size():
        writer.transport.abort()  # the client has not read for too long, or the service is stopping
    else:
        writer.close()
