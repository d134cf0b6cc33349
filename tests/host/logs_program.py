import logging
import sys

from tmpmaild.host import logs

with logs.logging_to_stderr("info", "text"):
    for number in range(30_000):
        logging.getLogger("tmpmaild.access").info("line %05d %s", number, "x" * 100)
    waiting = logging.getLogger().handlers[0]._queue.qsize()
    print(waiting, flush=True)
    if sys.stdin.readline() == "read\n":
        logs._STOP_SECONDS = 30  # allow enough time for a slow reader
