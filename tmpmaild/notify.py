"""Tells systemd how the service stands (sd_notify(3)); does nothing where nobody listens."""

import os
import socket


def notify(state: str) -> None:
    """Send a state such as ``READY=1`` to the supervisor, if there is one."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as supervisor:
        supervisor.sendto(state.encode(), address)
