"""What a check has found: one line for the operator, and what to do about it."""

from typing import Literal

from msgspec import Struct

Level = Literal["ok", "warning", "problem"]


class Finding(Struct, frozen=True):
    """The result of one check. ``advice`` says what to do; a finding that is ``ok`` needs none."""

    check: str
    level: Level
    text: str
    advice: str = ""


def ok(check: str, text: str) -> Finding:
    """Return a finding that is as it should be."""
    return Finding(check, "ok", text)


def warning(check: str, text: str, advice: str = "") -> Finding:
    """Return a finding with which the service works, but not as most operators want."""
    return Finding(check, "warning", text, advice)


def problem(check: str, text: str, advice: str = "") -> Finding:
    """Return a finding with which the service, or a part of it, does not work or is not safe."""
    return Finding(check, "problem", text, advice)
