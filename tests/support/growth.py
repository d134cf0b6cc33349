"""How the work grows with the data: ratios of CPU time within one run, which neither a slow nor a busy machine changes."""

import sys
import time

TIMES = 8
SLACK_SECONDS = 0.01  # what takes less than this is quick, whatever it grows like


def cpu_seconds(work, *arguments):
    """Metric in this thread: what others do meanwhile does not count."""
    began = time.thread_time()
    work(*arguments)
    return time.thread_time() - began


def assert_linear(work, data):
    """Do the work with the data and with an eighth of them: the whole may take three times eight times as long.

    A quadratic step would make it 64 times. What only once is slow, as the garbage collector, is taken out by new tries.
    What is quick is not compared.
    """
    taken_seconds = cpu_seconds(work, data)
    if taken_seconds <= SLACK_SECONDS:
        return
    less = data[: len(data) // TIMES]
    allowed = 3 * TIMES * min(cpu_seconds(work, less) for _ in range(3)) + SLACK_SECONDS
    if taken_seconds > allowed:
        assert_within(allowed, work, data)


def assert_within(allowed_seconds, work, *arguments):
    """Do the work until it has once taken no longer; three times must be enough."""
    taken = []
    while not taken or (taken[-1] > allowed_seconds and len(taken) < 3):
        taken.append(cpu_seconds(work, *arguments))
    assert taken[-1] <= allowed_seconds, f"it took {min(taken):.3f} s of CPU, {allowed_seconds:.3f} s are allowed"


def octets_worked_on(work, *arguments):
    """Return how many octets the methods of bytes that are called have to work on, each call by its object's length."""
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
