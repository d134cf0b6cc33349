"""Has the C library hand memory that large mails took back to the system; does nothing where that is not glibc."""

import contextlib
import ctypes

_M_MMAP_THRESHOLD = -3  # malloc.h of glibc
_LARGE_BYTES = 2 * 1024 * 1024


def return_large_blocks() -> None:
    """Fix the size from which malloc maps a block of its own, so that it goes back as soon as it is free.

    By default that size rises to the largest block that was ever freed. After some mails of 10 MiB their copies are cut
    out of heaps that never shrink.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def give_back() -> None:
    """Give free pages in the middle of heaps back: a large mail comes in pieces of 64 KiB, which live there."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
