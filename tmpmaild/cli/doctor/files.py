"""Owners and modes of the files: mail and keys are for the service's user alone."""

import os
import pwd
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

import tmpmaild
from tmpmaild.cli.doctor.results import Result, ok, problem, warning
from tmpmaild.cli.doctor.service import Running
from tmpmaild.config.settings import Config

_DATABASE, _KEY, _CERTIFICATE = "database files", "key file", "certificate file"
_PROGRAM, _CONFIGURATION = "program files", "configuration"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_CREDENTIALS = Path("/run/credentials")
_ACL = "system.posix_acl_access"  # xattr(7)


class Reader(Struct, frozen=True):
    """Whoever must be able to read the key: the service's user and its groups."""

    uid: int
    groups: tuple[int, ...]


def check(config: Config, service: Running | None = None, source: Path | None = None) -> Iterator[Result]:
    """Look at the database file and its folder unless there is a database server, the certificate and the key.

    ``source`` is the file of the configuration, if there is one.
    """
    path = Path(config.storage.path).absolute()
    try:
        folder = path.resolve().parent
        owner_uid = folder.stat().st_uid
        found = [] if config.storage.url else [*_database(path.resolve(), owner_uid)]
    except OSError as error:
        is_hidden = isinstance(error, PermissionError)
        advice = "run this command as root" if is_hidden else "systemctl start tmpmaild creates it"
        yield problem(_DATABASE, f"{path.parent}: {error.strerror}", advice)
        return
    if not config.storage.url:
        yield from found or [ok(_DATABASE, f"{path}: for the service's user alone")]
    reader = _reader(owner_uid, service)
    yield from program(reader)
    if source and not reader:  # other users than a dynamic one may be started by root, which reads it before
        yield from _configuration(source)
    if config.smtp.tls_key:
        yield _pem(_CERTIFICATE, Path(config.smtp.tls_certificate), reader, stat.S_IWOTH)
        yield _pem(_KEY, Path(config.smtp.tls_key), reader, stat.S_IRWXO | stat.S_IWGRP)


def _configuration(source: Path) -> Iterator[Result]:
    found = source.stat()
    if not _may(found, _in_any_group(found), stat.S_IROTH):
        yield problem(_CONFIGURATION, f"{source}: the service's user cannot read it", f"chmod 0644 {source}")


def program(reader: Reader | None) -> Iterator[Result]:
    """Warn where the user of the service has no right to read what it runs, as after an installation with umask 077."""
    reader = reader or Reader(-1, ())
    for file in (Path(tmpmaild.__file__), Path(msgspec.__file__), Path(sys.prefix, "pyvenv.cfg")):
        closed = [place for place in file.parents if not _may(place.stat(), reader, stat.S_IXOTH)]
        closed += [file] if file.exists() and not _may(file.stat(), reader, stat.S_IROTH) else []
        if closed:
            advice = f"chmod -R go+rX {sys.prefix}, and install with umask 022"
            yield problem(_PROGRAM, f"{closed[-1]}: not for the user of the service", advice)
            return


def is_only_for_the_running_service(file: Path) -> bool:
    """Return whether systemd hands a file over by LoadCredential= and it cannot be seen now."""
    return _CREDENTIALS in file.parents and not os.access(file, os.F_OK)


def _reader(owner_uid: int, service: Running | None) -> Reader | None:
    """Return the user of the service: of its process, else the owner of its folder; None if that is a dynamic user."""
    if service is not None:
        lines = Path(f"/proc/{service.pid}/status").read_text().splitlines()
        found = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
        return Reader(int(found["Uid"][1]), (int(found["Gid"][1]), *map(int, found["Groups"])))
    try:
        user = pwd.getpwuid(owner_uid)
    except KeyError:
        return None
    # Without the service, systemd 257 shows the folder of its dynamic user as that of nobody.
    is_nobody = user.pw_name == "nobody"
    return None if is_nobody else Reader(owner_uid, tuple(os.getgrouplist(user.pw_name, user.pw_gid)))


def _database(path: Path, owner_uid: int) -> Iterator[Result]:
    mode = stat.S_IMODE(path.parent.stat().st_mode)
    if mode & _OTHERS_WRITE:
        text = f"{path.parent}: mode {mode:04o}, so others can exchange the database in it"
        yield problem(_DATABASE, text, f"chmod 0700 {path.parent}")
    for file in (path.with_name(path.name + end) for end in ("", "-wal", "-shm", ".lock")):
        try:
            found = file.stat()
        except FileNotFoundError:
            continue
        mode = stat.S_IMODE(found.st_mode)
        if found.st_uid != owner_uid:
            text = f"{file}: belongs to {_name(found.st_uid)}, and its folder to {_name(owner_uid)}"
            yield problem(_DATABASE, text, f"chown {owner_uid} {file}")
        elif mode & _OTHERS:
            yield problem(_DATABASE, f"{file}: mode {mode:04o}, so others can open it", f"chmod 0600 {file}")


def _pem(check: str, file: Path, reader: Reader | None, forbidden: int) -> Result:
    """Look at a file that the service must be able to read, and that others have no such right to."""
    if is_only_for_the_running_service(file):
        return ok(check, f"{file}: cannot be seen; systemd shows it to the running service only")
    try:
        found = file.stat()
    except OSError as error:
        setting = "smtp.tls_key" if check == _KEY else "smtp.tls_certificate"
        return problem(check, f"{file}: {error.strerror}", f"correct {setting}")
    mode = stat.S_IMODE(found.st_mode)
    if mode & forbidden:
        return problem(check, f"{file}: mode {mode:04o} gives others too much", f"chmod o-rwx,g-w {file}")
    text = f"{file}: of user {_name(found.st_uid)}, mode {mode:04o}"
    if _has_acl(file):  # as a credential has
        return ok(check, f"{text}, and an access control list (getfacl shows it)")
    # What systemd hands over while the service starts is its user's.
    reads = reader or (None if _CREDENTIALS in file.parents else _in_any_group(found))
    if reads is not None and not _may(found, reads, stat.S_IROTH):
        who = f"user {_name(reader.uid)}" if reader else "the service's user"
        return warning(
            check,
            f"{text}: {who} cannot read it",
            "let systemd hand it over by LoadCredential= (docs/operations.md)",
        )
    return ok(check, text)


def _may(found: os.stat_result, reader: Reader, right: int) -> bool:
    """Return whether a user may do with a file what this right of others is, by its mode; root may everything."""
    if reader.uid == 0:
        return True
    if found.st_uid == reader.uid:
        return bool(found.st_mode & right << 6)
    if found.st_gid in reader.groups:
        return bool(found.st_mode & right << 3)
    return bool(found.st_mode & right)


def _in_any_group(found: os.stat_result) -> Reader:
    """Return a dynamic user, of whom nothing is known while it does not run."""
    return Reader(-1, (found.st_gid,))


def _has_acl(file: Path) -> bool:
    try:
        return bool(os.getxattr(file, _ACL))
    except (OSError, AttributeError):  # none, a file system without them, or another system than Linux
        return False


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
