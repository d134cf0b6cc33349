"""Where the configuration says to listen: whether these places can be had, or are held by the running service."""

import errno
import os
import re
import socket
import stat
import subprocess
from collections.abc import Collection, Iterator
from ipaddress import ip_address
from pathlib import Path

from msgspec import Struct

from tmpmaild.cli.doctor.findings import Finding, ok, problem, warning
from tmpmaild.cli.doctor.running import Running
from tmpmaild.config.kinds import Endpoint, parse_endpoint
from tmpmaild.config.settings import Config
from tmpmaild.errors import StartError
from tmpmaild.host import listen

LOOPBACK_NAMES = ("localhost",)
_WHO = "ss -ltnp tells which"
_SYSTEMCTL = ("systemctl", "show", "tmpmaild*.socket", "--state=active", "--property=Listen")
_SYSTEMCTL_SECONDS = 5.0


class Place(Struct, frozen=True):
    """A place to listen: its key, as it is written there, and taken apart."""

    key: str
    text: str
    endpoint: Endpoint


def configured(config: Config) -> list[Place]:
    """Return every place that the configuration names."""
    texts = [("smtp.listen", text) for text in config.smtp.listen]
    texts += [("smtp.tls_listen", text) for text in config.smtp.tls_listen]
    texts += [("http.listen", text) for text in config.http.listen]
    texts += [("metrics.listen", config.metrics.listen)] if config.metrics.listen else []
    return [Place(key, text, parse_endpoint(text)) for key, text in texts]


def is_loopback(endpoint: Endpoint) -> bool:
    """Return whether only this machine can connect there."""
    if endpoint.path or endpoint.host in LOOPBACK_NAMES:
        return True
    try:
        return ip_address(endpoint.host).is_loopback
    except ValueError:
        return False


def check(config: Config, service: Running | None, of_systemd: Collection[str] = ()) -> Iterator[Finding]:
    """Report for each place if the service has it, or if it is free. ``of_systemd`` is what ``of_units`` returns."""
    for place in configured(config):
        if service:
            yield _held(place, service, of_systemd)
        elif set(_names(place)) & set(of_systemd):
            yield ok(place.key, f"{place.text}: held by systemd for the service")
        else:
            yield _free(place, has_control=config.control.listen != "off")


def of_units() -> list[str]:
    """Return the places that systemd holds for the service, as the service names its sockets; none without systemd."""
    try:
        done = subprocess.run(  # noqa: S603 - nothing of it comes from outside
            _SYSTEMCTL, capture_output=True, text=True, check=False, timeout=_SYSTEMCTL_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return units_places(done.stdout)


def units_places(text: str) -> list[str]:
    """Return the places in what ``systemctl show --property=Listen`` has written."""
    found = re.findall(r"^Listen=(\S+) \(Stream\)$", text, re.MULTILINE)
    return [f"unix:{one}" if one.startswith("/") else one for one in found]


def in_use(config: Config, of_systemd: Collection[str] = ()) -> dict[str, list[str]]:
    """Return the places that a process holds, by their key; for a service that does not answer on a control socket.

    Not those of systemd: to connect there starts the service.
    """
    held: dict[str, list[str]] = {}
    for place in configured(config):
        if not set(_names(place)) & set(of_systemd) and _free(place).level != "ok" and _is_held(place):
            held.setdefault(place.key, []).append(place.text)
    return held


def served(service: Running) -> dict[str, list[str]]:
    """Return where the service listens, by the key of the configuration."""
    where = service.status.served
    smtp = {"smtp.listen": [*where.smtp], "smtp.tls_listen": [*where.smtps]}
    return {**smtp, "http.listen": [*where.http], "metrics.listen": [*where.metrics]}


def _held(place: Place, service: Running, of_systemd: Collection[str]) -> Finding:
    names = served(service)[place.key]
    if not place.endpoint.path and not place.endpoint.port:
        return ok(place.key, f"{place.text}: any port; the service has {', '.join(names)}")
    if set(_names(place)) & set(names):
        return ok(place.key, f"{place.text}: held by the service, process {service.pid}")
    there = ", ".join(names) or "nowhere"
    if names and set(names) <= set(of_systemd):
        return ok(place.key, f"{place.text}: not used, since systemd passes {there} to the service")
    return warning(
        place.key, f"{place.text}: the running service is not there, but on {there}", "systemctl restart tmpmaild"
    )


def _names(place: Place) -> list[str]:
    """Return a place as the service names its sockets."""
    endpoint = place.endpoint
    if endpoint.path:
        return [f"unix:{endpoint.path}"]
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return []
    hosts = [f"[{one[0]!s}]" if family == socket.AF_INET6 else str(one[0]) for family, *_, one in found]
    return [f"{host}:{endpoint.port}" for host in hosts]


def _free(place: Place, *, has_control: bool = True) -> Finding:
    """Bind the place for a moment. A Unix socket is only looked at: binding would replace its file."""
    if place.endpoint.path:
        return _free_path(place)
    try:
        for listener in listen.bind_all([place.text]):
            listener.close()
    except StartError as error:
        return _refused(place, error.__cause__, has_control=has_control)
    return ok(place.key, f"{place.text}: free")


def _refused(place: Place, error: BaseException | None, *, has_control: bool) -> Finding:
    match getattr(error, "errno", None):
        case errno.EADDRINUSE if not has_control:
            return warning(place.key, f"{place.text}: in use, by the service or another process", _WHO)
        case errno.EADDRINUSE:
            return problem(place.key, f"{place.text}: in use by another process", _WHO)
        case errno.EADDRNOTAVAIL | errno.EAFNOSUPPORT:
            if place.endpoint.host == "::":
                return warning(place.key, f"{place.text}: this machine has no IPv6", "fine if it need not have it")
            return problem(place.key, f"{place.text}: this machine has no such address", "ip address lists them")
        case errno.EACCES | errno.EPERM:
            return warning(
                place.key,
                f"{place.text}: only root may bind a port below 1024, so this cannot be tried here",
                "run this command as root; the unit in systemd/ gives the service the right",
            )
    return problem(place.key, f"{place.text}: {getattr(error, 'strerror', None) or error}", f"correct {place.key}")


def _free_path(place: Place) -> Finding:
    path = Path(place.endpoint.path)
    if not path.parent.is_dir():
        return problem(place.key, f"{place.text}: no folder {path.parent}", "RuntimeDirectory= of the unit creates one")
    if not os.access(path.parent, os.W_OK | os.X_OK, effective_ids=True):
        return problem(
            place.key, f"{place.text}: the service's user may not write in {path.parent}", "correct its owner"
        )
    if _is_held(place):
        return problem(place.key, f"{place.text}: in use by another process", "ss -lxp tells which")
    return ok(place.key, f"{place.text}: free")


def _is_held(place: Place) -> bool:
    """Return whether a process listens there."""
    path = place.endpoint.path
    try:
        if path and not stat.S_ISSOCK(Path(path).stat().st_mode):
            return False
        with socket.socket(socket.AF_UNIX) if path else socket.socket(_family(place)) as probe:
            probe.settimeout(1)
            return probe.connect_ex(path or connectable(place.endpoint)) == 0
    except OSError:
        return False


def _family(place: Place) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in place.endpoint.host else socket.AF_INET


def connectable(endpoint: Endpoint) -> tuple[str, int]:
    """Return the address by which a client on this machine reaches a place."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(endpoint.host, endpoint.host)  # noqa: S104 - read, not bound
    return host, endpoint.port
