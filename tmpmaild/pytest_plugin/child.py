"""The program of the embedded daemon: ``tmpmaild serve`` that stops when its standard input ends.

However a test session ends, by SIGKILL too, the system then closes the other end of that pipe.
"""

import os
import signal
import threading

from tmpmaild.cli.main import main


def _stop_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    main(["serve"], prog_name="tmpmaild")
