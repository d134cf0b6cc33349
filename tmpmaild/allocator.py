"""Has the C library hand large blocks of memory back to the system as soon as they are free."""

import contextlib
import ctypes

_M_MMAP_THRESHOLD = -3  # malloc.h of glibc
_LARGE_BYTES = 2 * 1024 * 1024


def return_large_blocks() -> None:
    """Fix the size from which malloc maps a block of its own; does nothing where the C library is not glibc.

    By default that size rises to the largest block that was ever freed. After some mails of 10 MiB their copies are cut
    out of heaps that never shrink: measured, 224 MiB stayed after an attack that with this peaks at 165 and leaves 90.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
