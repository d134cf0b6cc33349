"""Checks whether other users could have written a file, based on its owner, its permissions and its folder."""

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROOT: Final = 0
_ACL: Final = "system.posix_acl_access"  # xattr(7)


def others_who_write(file: Path) -> str:
    """Return the reason why a user who is neither the current user nor root could have written ``file``, or "".

    The file's folder is checked too: a user who may write to it can replace the file. For a symbolic link, its own
    folder and its target's folder are both checked. Raises OSError if the file or a folder cannot be inspected.
    """
    return next((f"{place}: {reason}" for place in _places(file) if (reason := _written_by_others(place))), "")


def _places(file: Path) -> Iterator[Path]:
    target = file.resolve(strict=True)
    yield from dict.fromkeys((file, target, file.parent.resolve(), target.parent))


def _written_by_others(place: Path) -> str:
    found = place.lstat()
    if found.st_uid not in (_ROOT, os.geteuid()):
        return f"belongs to user {_user_name(found.st_uid)}"
    if stat.S_ISLNK(found.st_mode):  # the mode of a link is meaningless
        return ""
    if found.st_mode & stat.S_IWOTH:
        return "everyone may write here" if stat.S_ISDIR(found.st_mode) else "everyone may write it"
    if found.st_mode & stat.S_IWGRP and (not _is_own_group(found.st_gid) or _has_acl(place)):
        return f"group {_group_name(found.st_gid)} or others named by an access control list may write"
    return ""


def _is_own_group(gid: int) -> bool:
    """Return whether a group is root's or the user's own group, which has the user's name and no other members."""
    if gid == _ROOT:
        return True
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and user.pw_gid == gid and set(group.gr_mem) <= {user.pw_name}


def _has_acl(place: Path) -> bool:
    try:
        return bool(os.getxattr(place, _ACL))
    except (OSError, AttributeError):  # there is no ACL, the file system does not support ACLs, or this is not Linux
        return False


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
