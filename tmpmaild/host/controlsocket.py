"""Where the control socket is, and binding it; what is said on it is in ``control.py``.

Its file can be opened by its owner and root only, from the first moment on: on Linux a socket file gets the mode that
the socket has before it is bound. The umask belongs to the whole process, whose other threads create files too.
"""

import errno
import logging
import os
import socket
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tmpmaild.config.kinds import MAX_SOCKET_PATH_BYTES, parse_endpoint
from tmpmaild.config.settings import Config
from tmpmaild.errors import StartError

_MODE = 0o600
_BACKLOG = 16
_SUFFIX = ".control"
_NAME = "control.sock"
_CREDENTIALS = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid

log = logging.getLogger(__name__)


class Peer(NamedTuple):
    """The process at the other end of a connection, and its user."""

    pid: int
    uid: int


def peer(connection: socket.socket) -> Peer:
    """Return who has connected, or who listens, as the kernel has noted it."""
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return Peer(pid, uid)


def place(config: Config) -> Path | None:
    """Return where a client finds the socket, which may be a link to it; None: there is none."""
    if config.control.listen == "off":
        return None
    if config.control.listen:
        return Path(parse_endpoint(config.control.listen).path)
    return _beside(Path(config.storage.path))


def found(config: Config, environ: Mapping[str, str]) -> Path | None:
    """Return where a client finds the socket: in a command of the unit, such as ExecReload=, in the unit's own folder.

    There the configuration may have changed since the service began.
    """
    own = Path(environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]) / _NAME
    return own if not config.control.listen and own.is_absolute() and own.is_socket() else place(config)


def _beside(database: Path) -> Path:
    return database.with_name(database.name + _SUFFIX)


@contextmanager
def bound(config: Config, environ: Mapping[str, str]) -> Iterator[socket.socket | None]:
    """Bind the socket where the configuration says, by default in the unit's RuntimeDirectory or next to the database.

    To be used while the database is locked. Leaving closes it and removes its files. Yields None where there is none:
    by default that is a warning only. Raises ``StartError`` for a place that the configuration names.
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
    """Bind it, and note the files that are made."""
    found_at = place(config)
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
    """Link the socket next to the database, where commands find it: they are not told the directory of the unit."""
    with suppress(FileNotFoundError):
        found_at.unlink()
    found_at.symlink_to(target)
    files.append(found_at)


def _bind(path: Path, files: list[Path]) -> socket.socket:
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        raise StartError(f"{path}: longer than the {MAX_SOCKET_PATH_BYTES} octets of a socket; set control.listen")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        os.fchmod(listener.fileno(), _MODE)
        listener.bind(os.fspath(path))
        _assert_private(path)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise StartError(f"control.listen: {path}: {error.strerror or error}") from error
    except StartError:
        listener.close()
        raise
    files.append(path)
    return listener


def _assert_private(path: Path) -> None:
    if stat.S_IMODE(path.lstat().st_mode) & ~_MODE:
        path.unlink()
        raise StartError(f"control.listen: {path}: this system creates sockets that others can open")


def _remove_stale(path: Path) -> None:
    """Remove a socket that a killed process has left. Raises ``StartError`` if it is in use, or not a socket."""
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode) and path.name.endswith(_SUFFIX):  # ours, to a RuntimeDirectory
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
