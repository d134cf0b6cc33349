"""Where the process begins, as ``tmpmaild`` and as ``python -m tmpmaild``: signals first, then what takes time."""

import os
import signal
import sys


def run() -> None:
    """Run the command line; a daemon that is being loaded survives SIGHUP, and SIGTERM or SIGINT ends it with 0."""
    _open_standard_descriptors()
    if sys.argv[1:2] == ["serve"]:
        _set_early_signals()
    from tmpmaild.cli.main import main  # noqa: PLC0415 - takes longer than a supervisor may wait with a signal

    main(prog_name="tmpmaild")


def _open_standard_descriptors() -> None:
    """Open /dev/null for each of the first three descriptors that is closed, or a socket would take its number."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free


def _set_early_signals() -> None:
    # Until the daemon waits for signals itself. A database that is being opened can be closed at any time.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))


if __name__ == "__main__":
    run()
