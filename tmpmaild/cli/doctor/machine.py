"""The machine and the process: the clock, the space on the disk, the limits that the service runs with."""

import ctypes
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tmpmaild import senders
from tmpmaild.cli.doctor.results import Result, ok, problem, warning
from tmpmaild.cli.doctor.service import Running
from tmpmaild.config.settings import Config
from tmpmaild.storage.settings import SqliteSettings
from tmpmaild.storage.sqlite.database import wal_of
from tmpmaild.storage.sqlite.diskspace import disk_reserve_bytes, sensible_cap_bytes

_MIB = 1 << 20
_RESOLVER = "senders.resolver"
_CLOCK, _SPACE, _FILES, _DUMPS = "clock", "disk space", "open files", "core dumps"
_TIME_ERROR = 5  # of adjtimex(2): the clock is not synchronised
_TIMEX_BYTES = 512  # more than struct timex has anywhere
_OTHER_FILES = 200  # the database, threads, the ports for metrics and commands


def clock() -> Result:
    """Ask the kernel, which NTP programs tell, whether the clock is right: lifetimes follow it."""
    try:
        state = int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))
    except (AttributeError, OSError):
        state = -1
    if state == _TIME_ERROR:
        return warning(_CLOCK, "not synchronised", "apt install systemd-timesyncd, or chrony")
    return ok(_CLOCK, "whether it is synchronised cannot be told here" if state < 0 else "synchronised")


def resolver(config: Config) -> Iterator[Result]:
    """Ask the resolver that checks go by, if there is one, and say how long that took."""
    place = config.senders.resolver
    if not place:
        return
    try:
        from tmpmaild.senders.resolver import Resolver, Unresolved  # noqa: PLC0415 - needs the extra
    except ImportError as error:
        install = f"{sys.executable} -m pip install {senders.PACKAGES}"
        yield problem(_RESOLVER, f"{error.name} is missing: the service does not start", install)
        return
    begun = time.monotonic()
    try:
        Resolver(place).ask(config.domains[0].removeprefix("*."), "MX", begun + config.senders.timeout_seconds)
    except Unresolved as error:
        yield problem(_RESOLVER, f"{place}: {error}", "correct senders.resolver, or start the resolver")
        return
    yield ok(_RESOLVER, f"{place} answered in {(time.monotonic() - begun) * 1000:.0f} ms")


def space(settings: SqliteSettings) -> Result:
    """Hold the free space against the cap of the database and the reserve of the disk."""
    folder = settings.path.resolve().parent
    try:
        free = shutil.disk_usage(folder).free
        used = sum(file.stat().st_size for file in (settings.path, wal_of(settings.path)) if file.exists())
        cap = settings.max_bytes or sensible_cap_bytes(settings.path)
    except OSError as error:
        return problem(_SPACE, f"{folder}: {error.strerror}", "correct storage.path, or run this command as root")
    to_come, reserve = max(cap - used, 0), disk_reserve_bytes(cap, settings.reserve_bytes)
    text = f"{folder}: {free // _MIB} MiB free, {reserve // _MIB} MiB must stay free"
    if free < reserve:
        return problem(_SPACE, f"{text}: mail is refused", "make room on the disk, or lower storage.max_bytes")
    if free - reserve < to_come:
        text += f", and the database may grow by {to_come // _MIB} MiB"
        return warning(_SPACE, text, "set storage.max_bytes to what the disk has")
    return ok(_SPACE, text)


def limits(config: Config, service: Running) -> Iterator[Result]:
    """Compare the limits of the running process with what the configuration allows it to use."""
    try:
        text = Path(f"/proc/{service.pid}/limits").read_text()
    except OSError as error:
        yield warning(_FILES, f"the limits of the process cannot be read: {error.strerror}", "run this command as root")
        return
    yield open_files(config, soft_limit(text, "Max open files"))
    if soft_limit(text, "Max core file size") != 0:
        yield warning(_DUMPS, "a core dump would keep mail on the disk", "LimitCORE=0 in the unit")


def soft_limit(limits: str, name: str) -> int | None:
    """Return a soft limit from the text of /proc/PID/limits; None: unlimited."""
    match = re.search(rf"^{re.escape(name)} +(\d+|unlimited) ", limits, re.MULTILINE)
    return int(match[1]) if match and match[1] != "unlimited" else None


def open_files(config: Config, limit: int | None) -> Result:
    """Check whether all connections that the configuration allows can have a descriptor."""
    smtp, http = config.smtp.max_connections, config.http.max_connections
    if limit is None:
        return ok(_FILES, "unlimited")
    if not (smtp and http):
        advice = "set smtp.max_connections and http.max_connections"
        return warning(_FILES, f"{limit} for connections without a limit", advice)
    needed = smtp + http + _OTHER_FILES
    if limit < needed:
        return warning(_FILES, f"{limit}, and all connections need {needed}", f"LimitNOFILE={needed} in the unit")
    return ok(_FILES, f"{limit}, and all connections need {needed}")
