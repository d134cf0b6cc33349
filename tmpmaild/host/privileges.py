"""Gives up root: a command that root runs becomes the owner of the database's folder, so that all its files are his.

On Debian 13 that is nobody: systemd 257 maps the ids of a dynamic user's folder, and files of nobody in it are the
service's. A command that asks the service instead becomes the owner of the control socket's folder.

Two rights of root stay, as capabilities(7): to read and search everything, since systemd keeps the folder of a dynamic
user where nobody else may enter, and certificates are often root's; and to bind ports below 1024.
"""

import ctypes
import os
import pwd
from contextlib import suppress
from pathlib import Path

from tmpmaild.errors import StartError

_PR_SET_KEEPCAPS = 8
_CAPABILITY_VERSION = 0x20080522
_DAC_READ_SEARCH, _NET_BIND_SERVICE = 2, 10
_KEPT = 1 << _DAC_READ_SEARCH | 1 << _NET_BIND_SERVICE


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def drop_to_owner(*files: Path) -> None:
    """Become the owner of the folder of the first file whose folder exists, for good, if we are root and he is not.

    To be called before a thread is started: the system keeps rights by thread. Raises ``StartError``.
    """
    if os.geteuid() != 0:
        return
    for file in files:
        with suppress(OSError):  # who opens the file will say so
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
            f"{file}: its folder {folder} belongs to user {owner.st_uid}, whom root cannot become here"
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
    kept = sets[0].permitted & _KEPT
    _call(libc.capset, ctypes.byref(header), (_Sets * 2)(_Sets(kept, kept, 0), _Sets(0, 0, 0)))


def _call(function: "ctypes._NamedFuncPointer", *arguments: object) -> None:
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
