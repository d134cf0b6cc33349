"""Writes a copy of the database, which the running service hands over, to a file of the operator's."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tmpmaild.cli import control
from tmpmaild.config.settings import Config
from tmpmaild.errors import CommandError

_MAKING_SECONDS = 3600.0  # nothing is said while the service makes the copy


def backup(config: Config, file: Path) -> int:
    """Write a copy to a new file that only its owner can read; return its size.

    Raises ``CommandError``, and leaves no file then.
    """
    with _new_file(file) as descriptor:
        with control.asked(config, "backup", patience_seconds=_MAKING_SECONDS) as answer:
            size_bytes = 0
            for line in answer.lines():
                size_bytes = int(line["octets"])
                for part in answer.octets(size_bytes):
                    _write(descriptor, part)
        os.fsync(descriptor)
    return size_bytes


@contextmanager
def _new_file(file: Path) -> Iterator[int]:
    """Make a file that does not exist yet; remove it if the body fails."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CommandError(f"{file}: cannot be made: {error.strerror or error}") from error
    try:
        yield descriptor
    except OSError as error:
        file.unlink(missing_ok=True)
        raise CommandError(f"{file}: cannot be written: {error.strerror or error}") from error
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _write(descriptor: int, part: bytes) -> None:
    while part:
        part = part[os.write(descriptor, part) :]
