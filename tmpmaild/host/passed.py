"""Takes over listening sockets that systemd passes (sd_listen_fds(3)) and keeps, so that a restart refuses nobody."""

import logging
import os
import socket
import stat
from collections.abc import Iterable, MutableMapping
from typing import Final

from tmpmaild.errors import ConfigError

_TCP: Final = (socket.AF_INET, socket.AF_INET6)
FAMILIES: Final = {"http": (*_TCP, socket.AF_UNIX), "smtp": _TCP, "smtps": _TCP, "metrics": (*_TCP, socket.AF_UNIX)}
"""The names of passed sockets: the sections whose ``listen`` they replace; smtps replaces ``smtp.tls_listen``."""

_FIRST_DESCRIPTOR: Final = 3

log = logging.getLogger(__name__)


def take(environ: MutableMapping[str, str]) -> dict[str, list[socket.socket]]:
    """Return the passed sockets by name. Nobody else finds them: the variables are removed, children inherit nothing.

    Raises ``ConfigError`` that names each descriptor that is not what its name says.
    """
    process, count, names = (environ.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES"))
    if process != str(os.getpid()) or not count.isdecimal():
        return {}
    descriptors = range(_FIRST_DESCRIPTOR, _FIRST_DESCRIPTOR + int(count))
    named = list(zip(descriptors, names.split(":") + [""] * len(descriptors), strict=False))
    mistakes = [f"passed socket {name!r}: {wrong}" for number, name in named if (wrong := _mistake(number, name))]
    if mistakes:
        raise ConfigError(mistakes)
    found = _sockets(named)
    if found:
        log.info("listening for %s on sockets that systemd has passed", ", ".join(found))
    return found


def _mistake(descriptor: int, name: str) -> str:
    """Return what is wrong with a descriptor, "" for nothing."""
    if name not in FAMILIES:
        return f"expected FileDescriptorName= of its unit to be one of {', '.join(FAMILIES)}"
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return "is not a socket"
        with socket.socket(fileno=os.dup(descriptor)) as passed:
            if passed.family not in FAMILIES[name]:
                return f"expected {'TCP' if FAMILIES[name] == _TCP else 'TCP or a Unix socket'}"
            if passed.type != socket.SOCK_STREAM or not passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                return "expected a stream socket that listens (ListenStream=, Accept=no)"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _sockets(named: Iterable[tuple[int, str]]) -> dict[str, list[socket.socket]]:
    found: dict[str, list[socket.socket]] = {}
    for descriptor, name in named:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - has no name
        found.setdefault(name, []).append(socket.socket(fileno=descriptor))
    return found
