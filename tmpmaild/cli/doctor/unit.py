"""Checks of the service's systemd unit: its state, its restarts, its exit code and its last error."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from tmpmaild.cli.doctor import Result, problem, warning
from tmpmaild.model import counted

_CHECK = "service"
_BOOTED = Path("/run/systemd/system")  # sd_booted(3)
_SECONDS = 10.0
_OFTEN = 3
_JUST_NOW_SECONDS = 60
_LAST_CHARACTERS = 400
_CREDENTIAL = re.compile(r"^LoadCredential=([^:\s]+):(/.*?)\s*$", re.MULTILINE)
_SOCKETS = ("smtp", "http")


class Unit(Struct, frozen=True):
    """A unit as reported by ``systemctl show``.

    ``last_error`` is the last line of its log at that level, ``credentials`` maps names to source files, and
    ``environment`` contains its tmpmaild variables. If ``is_dynamic``, its user exists only while it runs.
    """

    name: str
    active: str
    sub: str
    result: str
    exit_status: str
    restarts: int
    is_woken: bool
    last_error: str
    credentials: dict[str, str]
    environment: dict[str, str] = {}
    is_dynamic: bool = False
    journal: str = "journalctl"
    """The command that shows the unit's log, which may be in a journal namespace."""


def read(name: str) -> Unit | None:
    """Return a unit, or None if systemd is not running or has no such unit.

    Call this as root, because root can always query units.
    """
    if not (_BOOTED.is_dir() and shutil.which("systemctl")):
        return None
    names = (
        "LoadState",
        "ActiveState",
        "SubState",
        "Result",
        "ExecMainStatus",
        "NRestarts",
        "Environment",
        "DynamicUser",
        "LogNamespace",
    )
    found = _properties(f"{name}.service", names)
    if found.get("LoadState") != "loaded" or (found["ActiveState"] == "inactive" and _has_instances(name)):
        return None
    journal = (
        ("journalctl", f"--namespace={namespace}") if (namespace := found.get("LogNamespace")) else ("journalctl",)
    )
    base, at, instance = name.partition("@")
    sockets = [_properties(f"{base}-{kind}{at}{instance}.socket", ("ActiveState",)) for kind in _SOCKETS]
    return Unit(
        name=name,
        active=found.get("ActiveState", ""),
        sub=found.get("SubState", ""),
        result=found.get("Result", ""),
        exit_status=found.get("ExecMainStatus", ""),
        restarts=int(found.get("NRestarts") or 0),
        is_woken=any(one.get("ActiveState") == "active" for one in sockets),
        last_error=_last_error(name, journal),
        credentials=dict(_CREDENTIAL.findall(_output("systemctl", "cat", f"{name}.service"))),
        environment=_variables(found.get("Environment", "")),
        is_dynamic=found.get("DynamicUser") == "yes",
        journal=" ".join(journal),
    )


def _variables(shown: str) -> dict[str, str]:
    """Return the tmpmaild variables from ``Environment=`` as shown by systemctl, with shell quoting."""
    try:
        words = shlex.split(shown)
    except ValueError:
        return {}
    pairs = (word.partition("=") for word in words)
    return {name: value for name, _, value in pairs if name.startswith("TMPMAILD_")}


def _has_instances(name: str) -> bool:
    return bool(_output("systemctl", "list-units", "--plain", "--no-legend", f"{name}@*.service"))


def _properties(unit: str, names: tuple[str, ...]) -> dict[str, str]:
    lines = _output("systemctl", "show", f"--property={','.join(names)}", unit).splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def _last_error(name: str, journal: tuple[str, ...]) -> str:
    own = f"_SYSTEMD_UNIT={name}.service"  # unlike --unit, this excludes systemd's own lines about the unit
    command = (*journal, "--quiet", "--no-pager", "--output=cat", "--boot", "--priority=err", "--lines=1")
    return _output(*command, own).strip()[:_LAST_CHARACTERS]


def _output(*command: str) -> str:
    """Return the output of a systemd program, or "" if it fails."""
    environ = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603 - the arguments are trusted
            command,
            env=environ,
            capture_output=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
            encoding="utf-8",
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""


def judged(unit: Unit, uptime_seconds: int | None) -> Iterator[Result]:
    """Report a unit's problems. ``uptime_seconds`` is the uptime of the responding service, or None."""
    log = f"{unit.journal} -u {unit.name}"
    if uptime_seconds is not None:
        if unit.restarts:
            yield _restarted(unit, uptime_seconds, log)
    elif unit.active == "failed" or unit.sub == "auto-restart" or (unit.active == "activating" and unit.restarts):
        ended = [f"{unit.result}, exit status {unit.exit_status}"] if unit.result != "success" else []
        ended += [f"restarted {counted(unit.restarts, 'time')}"] if unit.restarts else []
        text = f"{unit.name}.service fails ({', '.join(ended)}){_said(unit)}"
        yield problem(_CHECK, text, f"{log}; then systemctl restart {unit.name}")
    elif unit.active == "activating":
        yield warning(_CHECK, f"{unit.name}.service is starting", log)
    elif unit.active == "inactive" and unit.is_woken:
        yield warning(_CHECK, f"{unit.name}.service is stopped; the next connection starts it")
    elif unit.active == "inactive":
        yield problem(_CHECK, f"{unit.name}.service is stopped", f"systemctl start {unit.name}")


def _restarted(unit: Unit, uptime_seconds: int, log: str) -> Result:
    times = counted(unit.restarts, "time")
    text = f"{unit.name}.service was restarted {times} after a failure, most recently {uptime_seconds} s ago"
    text += _said(unit)
    if unit.restarts >= _OFTEN and uptime_seconds < _JUST_NOW_SECONDS:
        return problem(_CHECK, text, log)
    return warning(_CHECK, text, f"{log}; systemctl restart {unit.name} resets the counter")


def _said(unit: Unit) -> str:
    return f"; the last error in its log: {unit.last_error}" if unit.last_error else ""
