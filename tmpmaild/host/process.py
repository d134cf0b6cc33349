"""The process: supervisor notification, signals, reloading, event loop lag, memory and privileges.

Memory is returned to the system only with glibc; with other C libraries, these functions do nothing.
"""

import asyncio
import ctypes
import logging
import os
import pwd
import resource
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import anyio
from anyio.abc import TaskStatus
from msgspec import Struct
from msgspec.structs import replace

from tmpmaild.config.settings import Config
from tmpmaild.errors import RequestError, StartError
from tmpmaild.host.control import Command, Lines, NoArguments
from tmpmaild.metrics import Histogram

_EXTEND_EVERY_SECONDS = 10.0
_MORE_TIME = "EXTEND_TIMEOUT_USEC=60000000"
_PAUSE_SECONDS = 0.5  # the minimum pause between two reloads
_M_MMAP_THRESHOLD = -3  # from glibc's malloc.h
_LARGE_BYTES = 2 * 1024 * 1024
_LAG_SECONDS = 0.5
_DESCRIPTORS = 65_536  # used if the system sets no limit
_MIN_RESERVED, _MAX_RESERVED = 52, 200  # for the database, threads, ports and commands, and for refused connections
_STATE = Path("/var/lib")  # where systemd creates each StateDirectory=
_PR_SET_KEEPCAPS = 8
_CAPABILITY_VERSION = 0x20080522
_DAC_READ_SEARCH, _NET_BIND_SERVICE = 2, 10
_CAPABILITIES = 1 << _DAC_READ_SEARCH | 1 << _NET_BIND_SERVICE

log = logging.getLogger(__name__)


def notify(state: str, *, wait: bool = True) -> None:
    """Send a state such as ``READY=1`` to the supervisor, if any; log an error if that fails.

    Without ``wait``, sending also fails if the supervisor is too busy to receive the state.
    """
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as supervisor:
            supervisor.sendto(state.encode(), 0 if wait else socket.MSG_DONTWAIT, address)
    except OSError as error:
        log.warning("NOTIFY_SOCKET %s: cannot send %s: %s", path, state, error.strerror or error)


@contextmanager
def more_time_to_start() -> Iterator[None]:
    """While the body runs, repeatedly ask the supervisor to wait another minute for ``READY=1``."""
    done = threading.Event()
    extending = threading.Thread(target=_extend_timeout, args=(done,), name="tmpmaild-starting", daemon=True)
    extending.start()
    try:
        yield
    finally:
        done.set()
        extending.join()


def _extend_timeout(done: threading.Event) -> None:
    notify(_MORE_TIME)
    while not done.wait(_EXTEND_EVERY_SECONDS):
        notify(_MORE_TIME)


async def keep_alive(environ: Mapping[str, str]) -> None:
    """Report to the watchdog twice as often as it requires, until cancelled."""
    seconds = interval_seconds(environ)
    while seconds:
        notify("WATCHDOG=1", wait=False)
        await asyncio.sleep(seconds)


def interval_seconds(environ: Mapping[str, str]) -> float:
    """Return the seconds between two reports; 0 if the supervisor expects no reports from this process."""
    if environ.get("WATCHDOG_PID") not in (None, str(os.getpid())):
        return 0
    microseconds = environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 2_000_000 if microseconds.isdecimal() else 0


def raise_descriptor_limit() -> int:
    """Raise the limit on descriptors to the maximum that the system allows, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return _DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def limit_connections(config: Config, limit: int) -> Config:
    """Limit the connections in a configuration to leave descriptors for the database, commands and refused clients.

    A client over the limit then receives an error, instead of having its connection closed without a reason.
    """
    reserved = max(_MIN_RESERVED, min(limit // 4, _MAX_RESERVED))
    room = max(limit - reserved, 2)
    smtp, http = config.smtp.max_connections or room, config.http.max_connections or room
    if smtp + http <= room:
        return config
    smtp = min(smtp, max(room - http, room // 2))
    http = min(http, room - smtp)
    log.warning(
        "%d files may be open, so only %d SMTP and %d HTTP connections are accepted; raise LimitNOFILE= or ulimit -n",
        limit,
        smtp,
        http,
    )
    return replace(
        config,
        smtp=replace(config.smtp, max_connections=smtp),
        http=replace(config.http, max_connections=http),
    )


def unmap_large_blocks() -> None:
    """Set a fixed size above which malloc maps each block separately and returns it to the system once it is free.

    By default, this threshold rises to the size of the largest freed block. After a few messages of 10 MiB, their
    copies would be allocated from heaps that never shrink.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def release_memory() -> None:
    """Return free pages within heaps to the system: the 64 KiB chunks of large messages are allocated there."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


async def watch(
    running: anyio.CancelScope, reload_wanted: asyncio.Event, *, stops_on_hangup: bool, task_status: TaskStatus[None]
) -> None:
    """Until cancelled, cancel ``running`` on SIGTERM and SIGINT, and set ``reload_wanted`` on SIGHUP.

    With ``stops_on_hangup``, SIGHUP also cancels ``running``, unless ``nohup`` has made the process ignore it.
    """
    wanted = [signal.SIGTERM, signal.SIGINT]
    if not (stops_on_hangup and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN):
        wanted.append(signal.SIGHUP)
    with anyio.open_signal_receiver(*wanted) as signals:
        task_status.started()
        async for number in signals:
            if number == signal.SIGHUP and not stops_on_hangup:
                reload_wanted.set()
            else:
                running.cancel()


class LoopLag:
    """Measures event loop lag: sleeps, then checks how much longer than requested the sleep took."""

    def __init__(self) -> None:
        self._lateness = Histogram("event_loop_lag_seconds", "How late the event loop woke up a task.")

    def metrics(self) -> tuple[Histogram]:
        """Return the histogram of the lag."""
        return (self._lateness,)

    async def run(self) -> None:
        """Measure the lag until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LAG_SECONDS
            await asyncio.sleep(_LAG_SECONDS)
            self._lateness.observe(max(loop.time() - due, 0.0))


class Reloaded(Struct, frozen=True):
    """The response to the ``reload`` command."""

    needs_restart: list[str]
    certificate: str = ""


class Outcome(NamedTuple):
    """The domains and addresses served after a reload, changed keys that need a restart, and a certificate notice."""

    served: str
    needs_restart: list[str]
    certificate: str = ""


class Reloading:
    """Calls ``reload``, which raises ``StartError`` or ``RequestError`` if it leaves the configuration unchanged."""

    def __init__(self, reload: Callable[[], Awaitable[Outcome]]) -> None:
        self._reload = reload
        self._lock = asyncio.Lock()
        self._count = 0

    def commands(self) -> dict[str, Command]:
        """Return the commands that the control socket accepts, keyed by name."""
        return {"reload": Command(NoArguments, self._run)}

    async def reload_when(self, wanted: asyncio.Event) -> None:
        """Reload the configuration on request; one reload covers all signals that arrived before it started."""
        while True:
            await wanted.wait()
            wanted.clear()
            try:
                await self._logged()
            except (StartError, RequestError):
                pass  # already logged
            except Exception:
                log.exception("reloading failed")
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _run(self, _: NoArguments) -> Lines:
        outcome = await self._logged()
        yield Reloaded(outcome.needs_restart, outcome.certificate)

    async def _logged(self) -> Outcome:
        self._count += 1  # prevents the log from treating a reload as a repetition
        about = self._count
        try:
            async with self._lock:
                outcome = await self._reload()
        except (StartError, RequestError) as error:
            lines = str(error).splitlines()
            for line in lines:
                log.error(  # noqa: TRY400 - an operator's mistake needs no traceback
                    "the configuration is unchanged: %s",
                    line,
                    extra={"about": (about, line), "event": "reload_refused"},
                )
            more = f" (and {len(lines) - 1} more; see the log)" if len(lines) > 1 else ""
            notify(f"STATUS=the configuration is unchanged: {''.join(lines[:1])}{more}", wait=False)
            raise
        log.info("reloaded: %s", outcome.served, extra={"about": about, "event": "reloaded"})
        notice = ""
        if outcome.needs_restart:
            notice = f"changed, but takes effect only after a restart: {', '.join(outcome.needs_restart)}"
            log.warning("%s", notice, extra={"about": about})
        notify(f"STATUS={notice}", wait=False)  # shown by systemctl status
        if outcome.certificate:
            log.info("%s", outcome.certificate, extra={"about": about})
        return outcome


def make_state_folder(folder: Path, state: Path = _STATE) -> None:
    """Create the folder of a unit's ``StateDirectory=``, unless it exists, as systemd does for a dynamic user.

    When the service starts, systemd makes its user the owner of the folder and all files in it. Folders outside
    ``state`` are not created: they are the responsibility of their owner. Raises ``StartError``.
    """
    if folder.exists() or folder.parent != state or os.geteuid() != 0:
        return
    private = state / "private"
    try:
        private.mkdir(0o700, exist_ok=True)
        (private / folder.name).mkdir(0o700, exist_ok=True)
        if not folder.is_symlink():
            folder.symlink_to(Path(private.name, folder.name))
    except OSError as error:
        raise StartError(f"{folder}: cannot be created: {error.strerror or error}") from error


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def drop_to_owner(*files: Path) -> None:
    """If running as root, permanently switch to the owner of these files' first existing folder, unless that is root.

    This ensures that all database files have the same owner. On Debian 13, the owner is nobody, because systemd 257
    maps user ids in a dynamic user's folder. There, files owned by nobody belong to the service. Commands that query
    the service switch to the owner of the control socket's folder instead.

    Two of root's capabilities(7) are kept. The first allows reading all files and searching all folders. It is needed
    because only root and a dynamic user may enter that user's folder, and because certificates often belong to root.
    The second allows binding ports below 1024.

    Call this before starting any thread: the system keeps privileges per thread. Raises ``StartError``.
    """
    if os.geteuid() != 0:
        return
    for file in files:
        with suppress(OSError):  # opening the file will report the error
            folder = file.resolve().parent
            _drop_to(folder.stat(), file, folder)
            return


def _drop_to(owner: os.stat_result, file: Path, folder: Path) -> None:
    if owner.st_uid == 0:
        return
    try:
        _become(owner.st_uid, owner.st_gid)
    except OSError as error:
        raise StartError(
            f"{file}: its folder {folder} belongs to user {owner.st_uid}, and root cannot switch to that user here"
            f" ({error.strerror}); run the command as that user"
        ) from error


def _become(uid: int, gid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    has_capabilities = all(hasattr(libc, name) for name in ("prctl", "capget", "capset"))
    if has_capabilities:
        _call(libc.prctl, _PR_SET_KEEPCAPS, 1, 0, 0, 0)
    try:
        user = pwd.getpwuid(uid)
        os.initgroups(user.pw_name, user.pw_gid)
        gid = user.pw_gid
    except KeyError:
        os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if has_capabilities:
        _keep_capabilities(libc)


def _keep_capabilities(libc: ctypes.CDLL) -> None:
    header, sets = _Header(_CAPABILITY_VERSION, 0), (_Sets * 2)()
    _call(libc.capget, ctypes.byref(header), sets)
    permitted = sets[0].permitted & _CAPABILITIES
    _call(libc.capset, ctypes.byref(header), (_Sets * 2)(_Sets(permitted, permitted, 0), _Sets(0, 0, 0)))


def _call(function: "ctypes._NamedFuncPointer", *arguments: object) -> None:
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
