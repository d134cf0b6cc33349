"""Binds the sockets that the configuration names, before anything else starts; who accepts is not known here."""

import errno
import logging
import os
import socket
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tmpmaild.config.kinds import Endpoint, parse_endpoint
from tmpmaild.errors import StartError

# A name may have addresses that this machine has not: ::1 of localhost where IPv6 is off, or another machine's.
_NOT_OURS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)

log = logging.getLogger(__name__)


def bind_all(texts: Sequence[str]) -> list[socket.socket]:
    """Bind every endpoint or none, a name at each of its addresses.

    Raises ``StartError`` that names the one that cannot be had. On a host without IPv6 ``[::]`` may be missing where
    0.0.0.0 is not.
    """
    endpoints = {text: parse_endpoint(text) for text in texts}
    sockets: list[socket.socket] = []
    for text, endpoint in endpoints.items():
        try:
            sockets += _bind(endpoint)
        except OSError as error:
            if error.errno in _NOT_OURS and _has_ipv4_twin(endpoint, endpoints.values()):
                log.warning("%s is left out, there is no IPv6 here: %s", text, error.strerror)
                continue
            for bound in sockets:
                bound.close()
            raise StartError(f"cannot listen on {text}: {error.strerror or error}") from error
    return sockets


def name(listener: socket.socket) -> str:
    """Return what a client must connect to, with the port that was really given."""
    if listener.family == socket.AF_UNIX:
        return f"unix:{listener.getsockname()}"
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if listener.family == socket.AF_INET6 else f"{host}:{port}"


def _has_ipv4_twin(endpoint: Endpoint, others: Iterable[Endpoint]) -> bool:
    return endpoint.host == "::" and Endpoint(host="0.0.0.0", port=endpoint.port) in others  # noqa: S104


def _bind(endpoint: Endpoint) -> list[socket.socket]:
    if endpoint.path:
        return [_bind_unix(endpoint.path)]
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    bound: list[socket.socket] = []
    missing: list[OSError] = []
    try:
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            try:
                bound.append(_bind_address(family, address))
            except OSError as error:
                if error.errno not in _NOT_OURS:
                    raise
                missing.append(error)
        if not bound:
            raise missing[0]
    except OSError:
        for listener in bound:
            listener.close()
        raise
    return bound


def _bind_address(family: int, address: tuple[Any, ...]) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # so that 0.0.0.0 may be listed too
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def _bind_unix(path: str) -> socket.socket:
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(Path(path).stat().st_mode):  # left over: while it is in use, the database's lock is held
            Path(path).unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        os.chmod(path, 0o660)  # noqa: PTH101 - a proxy in the socket's group may connect
    except OSError:
        listener.close()
        raise
    return listener
