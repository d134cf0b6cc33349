"""Checks of this machine: the running service and its responses, files, certificate, clock, disk and limits."""

import ctypes
import os
import platform
import pwd
import re
import smtplib
import ssl
import stat
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

import tmpmaild
from tmpmaild import __version__, senders
from tmpmaild.cli import control
from tmpmaild.cli.doctor import Result, ok, problem, warning
from tmpmaild.cli.doctor.unit import Unit
from tmpmaild.clients import belongs
from tmpmaild.config.settings import Config, Smtp
from tmpmaild.config.validators import Endpoint, parse_endpoint
from tmpmaild.errors import CommandError, DatabaseError, StartError
from tmpmaild.host.sockets import CREDENTIALS, load_certificate, presented, reachable
from tmpmaild.host.status import Status
from tmpmaild.model import counted
from tmpmaild.storage.engines import SqliteSettings
from tmpmaild.storage.sqlite import engine
from tmpmaild.storage.sqlite.paths import free_disk_bytes, wal_of
from tmpmaild.storage.sqlite.space import disk_reserve_bytes, sensible_cap_bytes

_SERVICE, _SMTP, _FORWARDED = "service", "SMTP answers", "X-Forwarded-For"
_SECONDS = 5.0
_START = (
    "systemctl start tmpmaild; if it fails, journalctl -u tmpmaild shows the reason; if it is already running and you "
    "have changed storage.path or control.listen: systemctl restart tmpmaild"
)
_CREATE = (
    "systemctl start tmpmaild creates the folder of the packaged configuration; create any other folder for the "
    "service's user, mode 0700"
)
_RELOAD, _RESTART, _SEE_LOG = "systemctl reload tmpmaild", "systemctl restart tmpmaild", "journalctl -u tmpmaild"
_STORED, _DATABASE, _KEY, _CERTIFICATE = "database", "database files", "key file", "certificate file"
_PROGRAM, _CONFIGURATION = "program files", "configuration"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ACL = "system.posix_acl_access"  # xattr(7)
_PAIR = "certificate"
_SOON_SECONDS = 14 * 86_400
_MIB = 1 << 20
PYTHONS = range(11, 16)
"""The minor versions of Python 3 that this version of tmpmaild was tested with."""
_RESOLVER, _INFLIGHT, _INBOX = "senders.resolver", "smtp.max_inflight_bytes", "addresses.max_bytes"
_CLOCK, _SPACE, _FILES, _DUMPS = "clock", "disk space", "open files", "core dumps"
_TIME_ERROR = 5  # returned by adjtimex(2) if the clock is not synchronised
_TIMEX_BYTES = 512  # larger than struct timex on every platform
_OTHER_FILES = 200  # descriptors for the database, threads, and the metrics and control sockets


class Running(Struct, frozen=True):
    """A running service: its process and its status."""

    pid: int
    status: Status


class Account(Struct, frozen=True):
    """The user that the service runs as, and its groups."""

    uid: int
    groups: tuple[int, ...]


def find_service(config: Config) -> tuple[Running | None, Result]:
    """Return the running service, if any, and the result of checking it."""
    try:
        with control.request(config, "status") as response:
            (found,) = response.lines()
            service = Running(response.pid, msgspec.convert(found, Status))
    except control.NotRunning:
        where = (
            "control.listen is off" if config.control.listen == "off" else "no service responds on its control socket"
        )
        return None, warning(_SERVICE, f"apparently not running: {where}", _START)
    except (CommandError, ValueError) as error:
        other = "the process at the control socket is a different version of tmpmaild"
        text = str(error) if isinstance(error, CommandError) else other
        return None, problem(_SERVICE, text, "run this command as root, with the service's configuration")
    return service, _judged(service, config)


def as_served(config: Config, service: Running | None) -> Config:
    """Return a configuration with the service's actual listening addresses; systemd may pass different sockets."""
    if service is None:
        return config
    served, replace = service.status.served, msgspec.structs.replace
    smtp, http = tuple(served.smtp), tuple(served.http)
    return replace(config, smtp=replace(config.smtp, listen=smtp), http=replace(config.http, listen=http))


def _judged(service: Running, config: Config) -> Result:
    status = service.status
    if not status.ready:
        return problem(_SERVICE, f"runs as process {service.pid}, but is not ready: {status.reason}", _SEE_LOG)
    if status.version != __version__:
        text = f"version {status.version} runs, {__version__} is installed"
        return warning(_SERVICE, text, _RESTART)
    if status.needs_restart:
        text = f"runs with the earlier values of {', '.join(status.needs_restart)}: changes to them need a restart"
        return warning(_SERVICE, text, _RESTART)
    if set(status.served.domains) != set(config.domains):
        return warning(_SERVICE, f"runs with different domains: {', '.join(status.served.domains)}", _RELOAD)
    return ok(_SERVICE, f"runs as process {service.pid} and is ready")


def check_smtp(config: Config, service: Running, leaf: bytes | None) -> Iterator[Result]:
    """Connect to SMTP as a sender on this machine would. ``leaf`` is the certificate in the file as DER, if any."""
    served = service.status.served
    for name, tls_first in [(one, False) for one in served.smtp[:1]] + [(one, True) for one in served.smtps[:1]]:
        place = parse_endpoint(reachable(name))
        if belongs(place.host, config.smtp.trusted_proxies):
            continue  # connections from this machine must start with a PROXY header
        try:
            yield _check_certificate(name, _connected(place, tls_first=tls_first), leaf)
        except (OSError, smtplib.SMTPException) as error:
            yield problem(_SMTP, f"{name}: {error or 'no response'}", _SEE_LOG)


def _connected(place: Endpoint, *, tls_first: bool) -> smtplib.SMTP:
    if tls_first:
        return smtplib.SMTP_SSL(place.host, place.port, "localhost", timeout=_SECONDS, context=_any_certificate())
    return smtplib.SMTP(place.host, place.port, "localhost", timeout=_SECONDS)


def _any_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the certificate is only inspected
    return context


def _check_certificate(name: str, connection: smtplib.SMTP, leaf: bytes | None) -> Result:
    """Compare the certificate in use with the certificate in the file."""
    with connection as client:
        client.ehlo()
        if client.has_extn("starttls"):
            client.starttls(context=_any_certificate())
        if not isinstance(client.sock, ssl.SSLSocket):
            if leaf is None:
                return ok(_SMTP, f"{name}: greeting and EHLO, without TLS")
            return warning(_SMTP, f"{name}: does not offer STARTTLS, although a certificate is configured", _RELOAD)
        if leaf is not None and client.sock.getpeercert(binary_form=True) != leaf:
            return warning(_SMTP, f"{name}: uses a certificate other than the configured file", _RELOAD)
    return ok(_SMTP, f"{name}: greeting, EHLO and TLS")


def check_files(
    config: Config, service: Running | None = None, source: Path | None = None, *, is_dynamic: bool = False
) -> Iterator[Result]:
    """Check the database file and its folder (unless there is a database server), the certificate and the key.

    ``source`` is the configuration file, if any, which a dynamic user must be able to read.
    """
    path = Path(config.storage.path).absolute()
    try:
        folder = path.resolve().parent
        owner_uid = folder.stat().st_uid
        found = [] if config.storage.url else [*_database(path.resolve(), owner_uid)]
    except OSError as error:
        is_hidden = isinstance(error, PermissionError)
        advice = "run this command as root" if is_hidden else _CREATE
        yield problem(_DATABASE, f"{path.parent}: {error.strerror}", advice)
        return
    if not config.storage.url:
        yield from found or [ok(_DATABASE, f"{path}: accessible only to the service's user")]
    account = _account(owner_uid, service)
    yield from program(account)
    if source and (is_dynamic or not account):  # otherwise, root may read it
        yield from _configuration(source)
    if config.smtp.tls_key:
        yield _pem(_CERTIFICATE, Path(config.smtp.tls_certificate), account, stat.S_IWOTH)
        yield _pem(_KEY, Path(config.smtp.tls_key), account, stat.S_IRWXO | stat.S_IWGRP)


def _configuration(source: Path) -> Iterator[Result]:
    found = source.stat()
    if not _may(found, _in_any_group(found), stat.S_IROTH):
        yield problem(_CONFIGURATION, f"{source}: the service's user cannot read it", f"chmod 0644 {source}")


def program(account: Account | None) -> Iterator[Result]:
    """Report program files that the service's user cannot read, for example after an installation with umask 077."""
    account = account or Account(-1, ())
    for file in (Path(tmpmaild.__file__), Path(msgspec.__file__), Path(sys.prefix, "pyvenv.cfg")):
        closed = [place for place in file.parents if not _may(place.stat(), account, stat.S_IXOTH)]
        closed += [file] if file.exists() and not _may(file.stat(), account, stat.S_IROTH) else []
        if closed:
            advice = f"chmod -R go+rX {sys.prefix}, and install with umask 022"
            yield problem(_PROGRAM, f"{closed[-1]}: the service's user cannot access it", advice)
            return


def is_only_for_the_running_service(file: Path) -> bool:
    """Return whether systemd provides a file with LoadCredential=, and the file is currently inaccessible."""
    return CREDENTIALS in file.parents and not os.access(file, os.F_OK)


def _account(owner_uid: int, service: Running | None) -> Account | None:
    """Return the user that the service runs as, or else the owner of its folder; None for a dynamic user."""
    if service is not None:
        lines = Path(f"/proc/{service.pid}/status").read_text(encoding="utf-8").splitlines()
        found = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
        return Account(int(found["Uid"][1]), (int(found["Gid"][1]), *map(int, found["Groups"])))
    try:
        user = pwd.getpwuid(owner_uid)
    except KeyError:
        return None
    # While the service is stopped, systemd 257 shows the folder of its dynamic user as owned by nobody.
    is_nobody = user.pw_name == "nobody"
    return None if is_nobody else Account(owner_uid, tuple(os.getgrouplist(user.pw_name, user.pw_gid)))


def _database(path: Path, owner_uid: int) -> Iterator[Result]:
    folder = path.parent
    mode = stat.S_IMODE(folder.stat().st_mode)
    user = path.stat().st_uid if path.exists() else owner_uid
    if owner_uid == 0 != user:  # for example on a Kubernetes volume, where the service writes with group permissions
        text = f"{folder}: owned by root, but the database in it is owned by {_name(user)}"
        yield problem(_DATABASE, text, f"chown {user} {folder} && chmod 0700 {folder}")
        owner_uid = user
    elif mode & _OTHERS_WRITE:
        text = f"{folder}: mode {mode:04o}, so others can replace the database in it"
        yield problem(_DATABASE, text, f"chmod 0700 {folder}")
    for file in (path.with_name(path.name + end) for end in ("", "-wal", "-shm", ".lock")):
        try:
            found = file.stat()
        except FileNotFoundError:
            continue
        mode = stat.S_IMODE(found.st_mode)
        if found.st_uid != owner_uid:
            text = f"{file}: owned by {_name(found.st_uid)}, but its folder is owned by {_name(owner_uid)}"
            yield problem(_DATABASE, text, f"chown {owner_uid} {file}")
        elif mode & _OTHERS:
            yield problem(_DATABASE, f"{file}: mode {mode:04o}, so others can open it", f"chmod 0600 {file}")


def _pem(check: str, file: Path, account: Account | None, forbidden: int) -> Result:
    """Check that the service can read a file, and that the file's mode does not grant others too many rights."""
    if is_only_for_the_running_service(file):
        return ok(check, f"{file}: not accessible here; systemd provides it only to the running service")
    try:
        found = file.stat()
    except OSError as error:
        setting = "smtp.tls_key" if check == _KEY else "smtp.tls_certificate"
        return problem(check, f"{file}: {error.strerror}", f"correct {setting}")
    mode = stat.S_IMODE(found.st_mode)
    if mode & forbidden:
        return problem(check, f"{file}: mode {mode:04o} gives others too many rights", f"chmod o-rwx,g-w {file}")
    text = f"{file}: owned by {_name(found.st_uid)}, mode {mode:04o}"
    if _has_acl(file):  # credentials have an ACL
        return ok(check, f"{text}, and an access control list (getfacl shows it)")
    # Credentials that systemd provides at startup are readable by the service's user.
    reads = account or (None if CREDENTIALS in file.parents else _in_any_group(found))
    if reads is not None and not _may(found, reads, stat.S_IROTH):
        who = f"user {_name(account.uid)}" if account else "the service's user"
        return warning(
            check, f"{text}: {who} cannot read it", "let systemd provide it with LoadCredential= (docs/operations.md)"
        )
    return ok(check, text)


def _may(found: os.stat_result, account: Account, right: int) -> bool:
    """Return whether a file's mode grants a user a right, given as the bit for others; root has all rights."""
    if account.uid == 0:
        return True
    if found.st_uid == account.uid:
        return bool(found.st_mode & right << 6)
    if found.st_gid in account.groups:
        return bool(found.st_mode & right << 3)
    return bool(found.st_mode & right)


def _in_any_group(found: os.stat_result) -> Account:
    """Return an account for a dynamic user, assumed to be in the file's group: its groups are unknown until it runs."""
    return Account(-1, (found.st_gid,))


def _has_acl(file: Path) -> bool:
    try:
        return bool(os.getxattr(file, _ACL))
    except (OSError, AttributeError):  # there is no ACL, the file system does not support ACLs, or this is not Linux
        return False


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def check_certificate(config: Config, hostname: str, now_seconds: float | None = None) -> Iterator[Result]:
    """Check the configured certificate. ``now_seconds`` is Unix time, by default the current time."""
    if not config.smtp.tls_certificate:
        advice = "set smtp.tls_certificate and smtp.tls_key (docs/operations.md)"
        yield warning(_PAIR, "not configured, so senders transmit mail in clear text", advice)
        return
    file = config.smtp.tls_certificate
    if is_only_for_the_running_service(Path(file)):
        return  # the check of the file reports this error
    try:
        found = _shown(config.smtp)
    except (StartError, ssl.SSLError) as error:
        text = str(error) if isinstance(error, StartError) else f"{file}: not usable ({error})"
        yield problem(_PAIR, text, "correct the file or the setting")
        return
    yield _names(file, found, hostname)
    yield _dates(file, found, time.time() if now_seconds is None else now_seconds)


def as_loaded(config: Config, unit: Unit | None) -> Config:
    """Replace the paths of credentials in a configuration with the source files that systemd reads at startup."""
    pair = (config.smtp.tls_certificate, config.smtp.tls_key)
    known = unit.credentials if unit else {}
    sources = [known.get(Path(file).name, "") for file in pair]
    if not (all(sources) and all(CREDENTIALS in Path(file).parents for file in pair)):
        return config
    smtp = msgspec.structs.replace(config.smtp, tls_certificate=sources[0], tls_key=sources[1])
    return msgspec.structs.replace(config, smtp=smtp)


def renewed(config: Config, loaded: Config) -> Iterator[Result]:
    """Warn if the service's certificate differs from the source file, which systemd reads only at startup."""
    used, file = leaf(config), leaf(loaded)
    if used is not None and file is not None and used != file:
        text = f"{loaded.smtp.tls_certificate}: differs from the certificate that the service was started with"
        yield warning(_PAIR, text, "systemctl restart tmpmaild: systemd provides it only when the service starts")


def leaf(config: Config) -> bytes | None:
    """Return the service's configured certificate as DER, or None if it cannot be read."""
    if not config.smtp.tls_certificate:
        return None
    try:
        text = Path(config.smtp.tls_certificate).read_text("ascii", "replace")
        begin = text.index(ssl.PEM_HEADER)
        return ssl.PEM_cert_to_DER_cert(text[begin : text.index(ssl.PEM_FOOTER, begin) + len(ssl.PEM_FOOTER)])
    except (OSError, ValueError):
        return None


def covers(names: list[str], hostname: str) -> bool:
    """Return whether one of a certificate's names matches a host (RFC 9525 §6.3)."""
    parent = "*." + hostname.partition(".")[2]
    return any(name.lower() in (hostname.lower(), parent.lower()) for name in names)


def _shown(smtp: Smtp) -> dict[str, Any]:
    """Return the certificate that clients see. Raises StartError and ssl.SSLError."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_certificate(server, smtp)
    return presented(server, smtp.tls_certificate)


def _names(file: str, found: dict[str, Any], hostname: str) -> Result:
    names = [value for kind, value in found.get("subjectAltName", ()) if kind == "DNS"]
    if covers(names, hostname):
        return ok(_PAIR, f"{file}: issued for {hostname}; the private key matches")
    has = ", ".join(names) or "no name"
    return warning(
        _PAIR,
        f"{file}: issued for {has}, not for {hostname}",
        "obtain a certificate for the name in smtp.hostname and in the MX record",
    )


def _dates(file: str, found: dict[str, Any], now_seconds: float) -> Result:
    begins, ends = (ssl.cert_time_to_seconds(found[name]) for name in ("notBefore", "notAfter"))
    if now_seconds < begins:
        return problem(_PAIR, f"{file}: is not valid before {_day(begins)}", "check the clock")
    if now_seconds >= ends:
        return problem(_PAIR, f"{file}: expired on {_day(ends)}", "renew it")
    if ends - now_seconds < _SOON_SECONDS:
        return warning(_PAIR, f"{file}: expires soon, on {_day(ends)}", "check whether its renewal works")
    return ok(_PAIR, f"{file}: valid until {_day(ends)}")


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def tried(minor: int = sys.version_info.minor, libc: str = platform.libc_ver()[0]) -> Iterator[Result]:
    """Warn about a Python or libc version that this version was not tested with."""
    if minor not in PYTHONS:
        text = f"3.{minor}: this version was tested with 3.{PYTHONS[0]} to 3.{PYTHONS[-1]}"
        yield warning("Python", text, "check for a newer tmpmaild")
    if libc != "glibc":
        yield warning("libc", "not glibc, the only libc that this version was tested with", "use Debian or Ubuntu")


def clock() -> Result:
    """Check that the kernel reports a synchronised clock (NTP programs set this), because lifetimes depend on it."""
    try:
        state = int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))
    except (AttributeError, OSError):
        state = -1
    if state == _TIME_ERROR:
        return warning(_CLOCK, "not synchronised", "apt install systemd-timesyncd (or chrony)")
    return ok(_CLOCK, "cannot determine here whether it is synchronised" if state < 0 else "synchronised")


def resolver(config: Config) -> Iterator[Result]:
    """Query the configured resolver, if any, and report the response time."""
    place = config.senders.resolver
    if not place:
        return
    try:
        from tmpmaild.senders.resolver import Resolver, Unresolved  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        install = f"{sys.executable} -m pip install {senders.PACKAGES}"
        yield problem(_RESOLVER, f"{error.name} is missing: the service does not start", install)
        return
    begun = time.monotonic()
    try:
        Resolver(place).query(config.domains[0].removeprefix("*."), "MX", begun + config.senders.timeout_seconds)
    except Unresolved as error:
        yield problem(_RESOLVER, f"{place}: {error}", "correct senders.resolver, or start the resolver")
        return
    yield ok(_RESOLVER, f"{place} responded in {(time.monotonic() - begun) * 1000:.0f} ms")


def usable(settings: SqliteSettings) -> Iterator[Result]:
    """Report whether the database would prevent a restart, and the reason; ``check_files`` reports a missing folder."""
    if not os.access(settings.path.resolve().parent, os.F_OK):
        return
    try:
        engine.assert_usable(settings.path)
    except DatabaseError as error:
        yield problem(_STORED, str(error), '"When something is wrong" in docs/operations.md')


def space(settings: SqliteSettings) -> Result:
    """Compare the free space with the maximum size of the database and the disk reserve."""
    folder = settings.path.resolve().parent
    try:
        free = free_disk_bytes(folder)
        used = sum(file.stat().st_size for file in (settings.path, wal_of(settings.path)) if file.exists())
        cap = settings.max_bytes or sensible_cap_bytes(settings.path)
    except OSError as error:
        return problem(_SPACE, f"{folder}: {error.strerror}", "correct storage.path, or run this command as root")
    if free is None:
        text = f"{folder}: the file system does not report its free space; the database may use {cap // _MIB} MiB"
        advice = "set storage.max_bytes to a value that the disk has space for"
        return ok(_SPACE, text) if settings.max_bytes else warning(_SPACE, text, advice)
    to_come, reserve = max(cap - used, 0), disk_reserve_bytes(cap, settings.reserve_bytes)
    text = f"{folder}: {free // _MIB} MiB free, {reserve // _MIB} MiB must stay free"
    if free < reserve:
        lower = ", or lower storage.max_bytes" if free >= disk_reserve_bytes(0, settings.reserve_bytes) else ""
        return problem(_SPACE, f"{text}: mail is refused", f"free disk space{lower}")
    if free - reserve < to_come:
        text += f", and the database may grow by {to_come // _MIB} MiB"
        return warning(_SPACE, text, "set storage.max_bytes to a value that the disk has space for")
    return ok(_SPACE, text)


def forwarded(service: Running) -> Iterator[Result]:
    """Check whether the running service knows all of its proxies and could parse the client addresses from them."""
    count = service.status.numbers.untrusted_forwarded_for
    if count:
        requests = counted(count, "request")
        text = f"{requests} since startup came from a proxy that was not trusted, so its visitors shared a rate limit"
        advice = "add the proxy to http.trusted_proxies; the log states its address"
        yield warning(_FORWARDED, text, advice)
    count = service.status.numbers.unreadable_forwarded_for
    if count:
        requests = counted(count, "request")
        text = f"X-Forwarded-For of {requests} does not end with an IP address, so visitors share a rate limit"
        yield warning(
            _FORWARDED, text, "configure the proxy to append its client's address; the log identifies the proxy"
        )


def limits(config: Config, service: Running) -> Iterator[Result]:
    """Check the running process's limits on open files and core dumps."""
    try:
        text = Path(f"/proc/{service.pid}/limits").read_text(encoding="utf-8")
    except OSError as error:
        yield warning(_FILES, f"the limits of the process cannot be read: {error.strerror}", "run this command as root")
        return
    yield open_files(config, soft_limit(text, "Max open files"))
    if soft_limit(text, "Max core file size") != 0:
        yield warning(_DUMPS, "a core dump would write mail to the disk", "set LimitCORE=0 in the unit")


def memory_for_mail(config: Config) -> Iterator[Result]:
    """Warn if a message of the announced maximum size can never be received or stored."""
    smtp, inbox_bytes = config.smtp, config.addresses.max_bytes
    if smtp.max_inflight_bytes < smtp.max_message_bytes:
        text = f"{smtp.max_inflight_bytes}: larger messages are always refused with 452 4.3.2, and retried in vain"
        advice = f"set it above smtp.max_message_bytes ({smtp.max_message_bytes})"
        yield warning(_INFLIGHT, text, advice)
    if inbox_bytes < smtp.max_message_bytes:
        text = f"{inbox_bytes}: larger messages are always refused with 452 4.2.2, and retried in vain"
        advice = f"set it to at least {smtp.max_message_bytes * 5 // 2} (2.5 times smtp.max_message_bytes)"
        yield warning(_INBOX, text, advice)


def soft_limit(limits: str, name: str) -> int | None:
    """Parse a soft limit in the text of /proc/PID/limits; return None for "unlimited"."""
    match = re.search(rf"^{re.escape(name)} +(\d+|unlimited) ", limits, re.MULTILINE)
    return int(match[1]) if match and match[1] != "unlimited" else None


def open_files(config: Config, limit: int | None) -> Result:
    """Check whether there are enough descriptors for all connections that the configuration allows."""
    smtp, http = config.smtp.max_connections, config.http.max_connections
    if limit is None:
        return ok(_FILES, "unlimited")
    if not (smtp and http):
        advice = "set smtp.max_connections and http.max_connections"
        return warning(_FILES, f"{limit}, but the number of connections is not limited", advice)
    needed = smtp + http + _OTHER_FILES
    if limit < needed:
        return warning(
            _FILES,
            f"{limit}; the maximum number of connections requires {needed}",
            f"set LimitNOFILE={needed} in the unit",
        )
    return ok(_FILES, f"{limit}; the maximum number of connections requires {needed}")
