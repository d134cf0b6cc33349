"""Checks how work grows with its input. Ratios of CPU times do not depend on the machine's speed or load."""

import sys
import time

TIMES = 8
SLACK_SECONDS = 0.01  # anything faster than this is considered quick and not compared


def cpu_seconds(work, *arguments):
    """Return the CPU time that the work takes in this thread, so that the load from other threads does not count."""
    began = time.thread_time()
    work(*arguments)
    return time.thread_time() - began


def assert_linear(work, data):
    """Run the work on all of the data and on an eighth of it; all of it may take up to 24 times as long.

    Linear work takes 8 times as long, quadratic work 64 times. Retries rule out one-off delays, such as garbage
    collection. Durations of quick work are not compared.
    """
    taken_seconds = cpu_seconds(work, data)
    if taken_seconds <= SLACK_SECONDS:
        return
    less = data[: len(data) // TIMES]
    allowed = 3 * TIMES * min(cpu_seconds(work, less) for _ in range(3)) + SLACK_SECONDS
    if taken_seconds > allowed:
        assert_within(allowed, work, data)


def assert_within(allowed_seconds, work, *arguments):
    """Run the work up to three times; fail if it always takes longer than allowed."""
    taken = []
    while not taken or (taken[-1] > allowed_seconds and len(taken) < 3):
        taken.append(cpu_seconds(work, *arguments))
    assert taken[-1] <= allowed_seconds, f"it took {min(taken):.3f} s of CPU, {allowed_seconds:.3f} s are allowed"


def octets_worked_on(work, *arguments):
    """Return the number of bytes that methods of bytes objects process; each call counts the whole object."""
    octets = 0

    def note(_frame, event, called):
        nonlocal octets
        owner = getattr(called, "__self__", None)
        if event == "c_call" and isinstance(owner, bytes | bytearray):
            octets += len(owner)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work(*arguments)
    finally:
        sys.setprofile(before)
    return octets
