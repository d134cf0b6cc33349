"""All sockets that the daemon listens on: those that systemd has passed, the others as the configuration names them."""

import os
import socket
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from tmpmaild.config.settings import Config
from tmpmaild.errors import StartError
from tmpmaild.host import listen, passed


class Sockets(NamedTuple):
    """What is listened on."""

    http: list[socket.socket]
    smtp: list[socket.socket]
    smtps: list[socket.socket]
    metrics: list[socket.socket]


def bind(config: Config) -> Sockets:
    """Bind all of them or none. Raises ``StartError``."""
    taken_over = passed.take(os.environ)
    if "smtps" in taken_over and not config.smtp.tls_certificate:
        raise StartError("passed socket 'smtps': smtp.tls_certificate and smtp.tls_key must be set for it")
    sockets = Sockets(*(taken_over.get(name, []) for name in Sockets._fields))
    metrics = [config.metrics.listen] if config.metrics.listen else []
    http, smtp = config.http.reuse_port, config.smtp.reuse_port
    places = ((config.http.listen, http), (config.smtp.listen, smtp), (config.smtp.tls_listen, smtp), (metrics, False))
    try:
        for bound, (texts, reuse_port) in zip(sockets, places, strict=True):
            if not bound:
                bound.extend(listen.bind_all(texts, reuse_port=reuse_port))
    except StartError:
        for listener in chain.from_iterable(sockets):
            listener.close()
        raise
    return sockets


def names(sockets: Iterable[socket.socket]) -> list[str]:
    """Return what clients must connect to."""
    return [listen.name(one) for one in sockets]
