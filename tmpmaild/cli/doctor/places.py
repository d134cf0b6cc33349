"""Where the configuration says to listen: whether these places can be had, or are held by the running service."""

import re
import socket
import subprocess
from collections.abc import Collection, Iterator
from ipaddress import ip_address

from msgspec import Struct

from tmpmaild.cli.doctor.results import Result, ok, problem, warning
from tmpmaild.cli.doctor.service import Running
from tmpmaild.config.kinds import Endpoint, parse_endpoint
from tmpmaild.config.settings import Config
from tmpmaild.errors import StartError
from tmpmaild.host import listen

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
    if endpoint.path or endpoint.host == "localhost":
        return True
    try:
        return ip_address(endpoint.host).is_loopback
    except ValueError:
        return False


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


def check(config: Config, service: Running | None, of_systemd: Collection[str] = ()) -> Iterator[Result]:
    """Report whether the service has each place, or could have it. ``of_systemd`` is what ``of_units`` returns."""
    places = configured(config)
    if service is not None:
        yield from (_held(place, service, of_systemd) for place in places)
        return
    for key in dict.fromkeys(place.key for place in places):
        own = [place for place in places if place.key == key]
        if any(set(_names(place)) & set(of_systemd) for place in own):
            yield ok(key, "held by systemd for the service")
        else:
            yield _free(key, [place.text for place in own if not place.endpoint.path], config)


def _held(place: Place, service: Running, of_systemd: Collection[str]) -> Result:
    served = service.status.served
    where = {"smtp.listen": served.smtp, "smtp.tls_listen": served.smtps, "http.listen": served.http}
    names = where.get(place.key, served.metrics)
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


def _free(key: str, texts: list[str], config: Config) -> Result:
    """Bind places of TCP for a moment, as the start does; binding a Unix socket would replace its file."""
    try:
        for listener in listen.bind_all(texts):
            listener.close()
    except StartError as error:
        is_told = config.control.listen == "off"  # then a service may run that nobody can ask
        return (warning if is_told else problem)(
            key, str(error), "ss -ltnp tells who listens; ports below 1024 need root"
        )
    return ok(key, f"{', '.join(texts) or 'a Unix socket'}: free")
