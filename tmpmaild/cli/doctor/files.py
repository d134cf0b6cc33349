"""Owners and modes of the files: mail and keys are for the service's user alone."""

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from tmpmaild.cli.doctor.findings import Finding, ok, problem, warning
from tmpmaild.config.settings import Config

_DATABASE, _KEY, _CERTIFICATE = "database files", "key file", "certificate file"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_CREDENTIALS = Path("/run/credentials")


def check(config: Config) -> Iterator[Finding]:
    """Look at the database file and its folder unless there is a database server, the certificate and the key."""
    path = Path(config.storage.path).absolute()
    try:
        folder = path.resolve().parent
        owner_uid = folder.stat().st_uid
    except OSError as error:
        advice = (
            "run this command as root" if isinstance(error, PermissionError) else "systemctl start tmpmaild creates it"
        )
        yield problem(_DATABASE, f"{path.parent}: {error.strerror}", advice)
        return
    if not config.storage.url:
        found = [*_folder(folder), *_database(path, owner_uid)]
        yield from found or [ok(_DATABASE, f"{path}: for user {_name(owner_uid)} alone")]
    if config.smtp.tls_key:
        yield _pem(_CERTIFICATE, Path(config.smtp.tls_certificate), owner_uid, stat.S_IWOTH)
        yield _pem(_KEY, Path(config.smtp.tls_key), owner_uid, stat.S_IRWXO | stat.S_IWGRP)


def _folder(folder: Path) -> Iterator[Finding]:
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & _OTHERS_WRITE:
        text = f"{folder}: mode {mode:04o}, so others can exchange the database in it"
        yield problem(_DATABASE, text, f"chmod 0700 {folder}")


def _database(path: Path, owner_uid: int) -> Iterator[Finding]:
    real = path.resolve()
    for file in (real, *(real.with_name(real.name + end) for end in ("-wal", "-shm", ".lock"))):
        try:
            found = file.stat()
        except FileNotFoundError:
            continue
        except OSError as error:
            yield problem(_DATABASE, f"{file}: {error.strerror}", "run this command as root")
            return
        yield from _own_file(file, found, owner_uid)


def _own_file(file: Path, found: os.stat_result, owner_uid: int) -> Iterator[Finding]:
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISREG(found.st_mode):
        yield problem(_DATABASE, f"{file}: is not a file", "correct storage.path")
    elif found.st_uid != owner_uid:
        text = f"{file}: belongs to {_name(found.st_uid)}, and its folder to {_name(owner_uid)}"
        yield problem(_DATABASE, text, f"chown {owner_uid} {file}")
    elif mode & _OTHERS:
        yield problem(_DATABASE, f"{file}: mode {mode:04o}, so others can open it", f"chmod 0600 {file}")


def _pem(check: str, file: Path, owner_uid: int, forbidden: int) -> Finding:
    """Look at a file that the service must be able to read, and that others have no such right to."""
    try:
        found = file.stat()
    except OSError as error:
        if _CREDENTIALS in file.parents:
            return ok(check, f"{file}: cannot be seen; systemd shows it to the running service only")
        return problem(check, f"{file}: {error.strerror}", "correct smtp.tls_certificate and smtp.tls_key")
    mode = stat.S_IMODE(found.st_mode)
    if mode & forbidden:
        return problem(check, f"{file}: mode {mode:04o} gives others too much", f"chmod o-rwx,g-w {file}")
    if not _is_readable(found, owner_uid):
        return warning(
            check,
            f"{file}: of user {_name(found.st_uid)}, mode {mode:04o}: user {_name(owner_uid)} cannot read it",
            "let systemd hand it over by LoadCredential= (docs/operations.md)",
        )
    return ok(check, f"{file}: of user {_name(found.st_uid)}, mode {mode:04o}")


def _is_readable(found: os.stat_result, uid: int) -> bool:
    """Return whether a user may read a file, by its mode; root reads everything."""
    if uid == 0:
        return True
    if found.st_uid == uid:
        return bool(found.st_mode & stat.S_IRUSR)
    if found.st_gid in _groups(uid):
        return bool(found.st_mode & stat.S_IRGRP)
    return bool(found.st_mode & stat.S_IROTH)


def _groups(uid: int) -> list[int]:
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return []
    return os.getgrouplist(user.pw_name, user.pw_gid)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
