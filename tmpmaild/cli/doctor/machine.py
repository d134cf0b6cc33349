"""The machine and the process: the clock, the space on the disk, the limits that systemd has set."""

import ctypes
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

import tmpmaild
from tmpmaild.cli.doctor.findings import Finding, ok, problem, warning
from tmpmaild.cli.doctor.running import Running
from tmpmaild.config.settings import Config
from tmpmaild.storage.sqlite.diskspace import disk_reserve_bytes
from tmpmaild.storage.sqlite.engine import StorageSettings
from tmpmaild.storage.sqlite.files import wal_of
from tmpmaild.storage.sqlite.preparing import sensible_cap_bytes

_MIB = 1 << 20
_CLOCK, _SPACE, _FILES, _MEMORY, _DUMPS = "clock", "disk space", "open files", "memory", "core dumps"
_SYNCHRONISED = Path("/run/systemd/timesync/synchronized")
_TIME_ERROR = 5  # of adjtimex(2): the clock is not synchronised
_TIMEX_BYTES = 512  # more than struct timex has anywhere
_BASE_MEMORY_BYTES = 192 * _MIB
_OTHER_FILES = 200  # the database, threads, the ports for metrics and commands
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs")
_VOLATILE = ("tmpfs", "ramfs")
_CGROUPS = Path("/sys/fs/cgroup")
_SYSTEMCTL_SECONDS = 5.0


def clock(now_seconds: float | None = None) -> Iterator[Finding]:
    """Check whether the clock can be right, and whether something keeps it so."""
    now = time.time() if now_seconds is None else now_seconds
    installed = Path(tmpmaild.__file__).stat().st_mtime
    shown = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if now < installed:
        yield problem(_CLOCK, f"{shown} is before this program was installed", "set the clock; lifetimes follow it")
        return
    synchronised = _is_synchronised()
    if synchronised is None:
        yield ok(_CLOCK, f"{shown}; whether it is synchronised cannot be told here")
    elif synchronised:
        yield ok(_CLOCK, f"{shown}, synchronised")
    else:
        yield warning(_CLOCK, f"{shown}, not synchronised", "apt install systemd-timesyncd, or chrony")


def _is_synchronised() -> bool | None:
    """Ask the kernel, which NTP programs tell; None if it cannot be asked."""
    if _SYNCHRONISED.exists():
        return True
    try:
        state = int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))
    except (AttributeError, OSError):
        return None
    return None if state < 0 else state != _TIME_ERROR


def space(settings: StorageSettings) -> Iterator[Finding]:
    """Hold the free space against the cap of the database and the reserve of the disk."""
    folder = settings.path.resolve().parent
    try:
        free = shutil.disk_usage(folder).free
        used = sum(file.stat().st_size for file in (settings.path, wal_of(settings.path)) if file.exists())
        cap = settings.max_bytes or sensible_cap_bytes(settings.path)
    except OSError as error:
        yield problem(_SPACE, f"{folder}: {error.strerror}", "correct storage.path, or run this command as root")
        return
    yield _judged(folder, free, max(cap - used, 0), disk_reserve_bytes(cap, settings.reserve_bytes))
    kind = file_system(Path("/proc/self/mountinfo").read_text("utf-8", "replace"), folder)
    if kind in _NETWORK:
        yield problem(_SPACE, f"{folder}: on a network file system ({kind})", "SQLite needs a local disk")
    elif kind in _VOLATILE:
        yield warning(_SPACE, f"{folder}: in memory ({kind}), so a reboot loses accepted mail", "a disk")


def _judged(folder: Path, free: int, to_come: int, reserve: int) -> Finding:
    text = f"{folder}: {free // _MIB} MiB free, {reserve // _MIB} MiB must stay free"
    if free < reserve:
        return problem(_SPACE, f"{text}: mail is refused", "make room on the disk, or lower storage.max_bytes")
    if free - reserve < to_come:
        text += f", and the database may grow by {to_come // _MIB} MiB"
        return warning(_SPACE, text, "set storage.max_bytes to what the disk has")
    return ok(_SPACE, text)


def file_system(mounts: str, folder: Path) -> str:
    """Return the type of the file system that holds a folder; ``mounts`` is /proc/self/mountinfo (proc(5))."""
    best, kind = "", ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        place = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), before.split()[4])
        if folder.is_relative_to(place) and len(place) >= len(best):
            best, kind = place, after.split()[0]
    return kind


class Limits(Struct, frozen=True):
    """What a process is allowed; None: no limit."""

    open_files: int | None
    core_bytes: int | None
    memory_bytes: int | None


def limits(config: Config, service: Running | None) -> Iterator[Finding]:
    """Compare the limits of the running process, or else of the unit, with what the configuration allows it to use."""
    try:
        found = limits_of_unit(_shown_unit()) if service is None else _limits_of_process(service.pid)
    except OSError as error:
        yield warning(_FILES, f"the limits of the process cannot be read: {error.strerror}", "run this command as root")
        return
    if found is None:
        yield ok(_FILES, "limits can be told only while the service runs")
        return
    yield open_files(config, found.open_files)
    if found.core_bytes != 0:
        yield warning(_DUMPS, "a core dump would keep mail on the disk", "LimitCORE=0 in the unit")
    yield memory(config, found.memory_bytes)


def _limits_of_process(pid: int) -> Limits:
    text = Path(f"/proc/{pid}/limits").read_text()
    return Limits(soft_limit(text, "Max open files"), soft_limit(text, "Max core file size"), _memory_max(pid))


def _shown_unit() -> str:
    """Return what systemd says of the unit, "" without systemd."""
    names = "--property=LoadState,LimitNOFILESoft,LimitCORESoft,MemoryMax"
    command = ["systemctl", "show", "tmpmaild.service", names]
    try:
        done = subprocess.run(  # noqa: S603 - nothing of it comes from outside
            command, capture_output=True, text=True, check=False, timeout=_SYSTEMCTL_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def limits_of_unit(text: str) -> Limits | None:
    """Return the limits that a unit sets, None if the unit does not exist; ``text`` is from ``systemctl show``."""
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    if found.get("LoadState") != "loaded":
        return None
    numbers = {name: int(value) for name, value in found.items() if value.isdigit()}
    return Limits(numbers.get("LimitNOFILESoft"), numbers.get("LimitCORESoft"), numbers.get("MemoryMax"))


def soft_limit(limits: str, name: str) -> int | None:
    """Return a soft limit from the text of /proc/PID/limits; None: unlimited."""
    match = re.search(rf"^{re.escape(name)} +(\d+|unlimited) ", limits, re.MULTILINE)
    return int(match[1]) if match and match[1] != "unlimited" else None


def open_files(config: Config, limit: int | None) -> Finding:
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


def memory(config: Config, limit: int | None) -> Finding:
    """Check whether mail that is being received fits into the memory of the process."""
    if limit is None:
        return ok(_MEMORY, "no limit by systemd")
    needed = _BASE_MEMORY_BYTES + 2 * config.smtp.max_inflight_bytes
    text = f"{limit // _MIB} MiB, and {needed // _MIB} MiB are needed while much mail comes in"
    if limit < needed:
        return warning(_MEMORY, text, "raise MemoryMax= of the unit, or lower smtp.max_inflight_bytes")
    return ok(_MEMORY, text)


def _memory_max(pid: int) -> int | None:
    """Return the least limit of the control groups of a process (cgroup v2); None: none, or it cannot be told."""
    try:
        text = Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return None
    match = re.search(r"^0::/(.*)$", text, re.MULTILINE)
    group = _CGROUPS / (match[1] if match else "")
    found = [_limit_of(one) for one in (group, *group.parents) if one.is_relative_to(_CGROUPS)]
    return min((limit for limit in found if limit is not None), default=None)


def _limit_of(group: Path) -> int | None:
    try:
        text = (group / "memory.max").read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
