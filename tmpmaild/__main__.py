"""The entry point of ``tmpmaild`` and ``python -m tmpmaild``: sets signal handlers before slow imports."""

import os
import signal
import sys


def run() -> None:
    """Run the command line.

    While the daemon is loading, SIGTERM and SIGINT make it exit with code 0, and SIGHUP is ignored. However, SIGHUP
    stops a test service, because it must not outlive its terminal.
    """
    _open_standard_descriptors()
    if sys.argv[1:2] in (["serve"], ["catch"]):
        _set_early_signals(ends_on_hangup="catch" in sys.argv[1:2] or "--for-tests" in sys.argv)
    from tmpmaild.cli.main import main  # noqa: PLC0415 - a signal may arrive during this slow import

    main(prog_name="tmpmaild")


def _open_standard_descriptors() -> None:
    """Open /dev/null for each closed standard descriptor; otherwise its number could be assigned to a socket."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # open() returns the lowest free descriptor


def _set_early_signals(*, ends_on_hangup: bool) -> None:
    # These handlers are used until the daemon handles signals itself. Exiting while a database is being opened is safe.
    if not ends_on_hangup and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup sets SIG_IGN
        signal.signal(signal.SIGHUP, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))


if __name__ == "__main__":
    run()
