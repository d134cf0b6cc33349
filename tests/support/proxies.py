"""The reverse proxy configurations in docs/proxy, with different ports."""

import os
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from patience import PATIENCE_SECONDS

PROXY = Path(__file__).parents[2] / "docs/proxy"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def changed(text, changes):
    """Return a text with replacements; fail if a text to replace is missing because the documentation has changed."""
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


@contextmanager
def running(command, folder, port, ended_by=signal.SIGKILL, *, host="127.0.0.1", log=None):
    """Run a proxy during a ``with`` block, which starts once the proxy is listening; ``log`` receives its output."""
    process = subprocess.Popen(command, env=environment(folder), stdout=log, stderr=log)
    try:
        _wait_for(process, host, port)
        yield
    finally:
        process.send_signal(ended_by)
        process.wait(PATIENCE_SECONDS)


def environment(folder):
    return {"HOME": str(folder), "PATH": os.environ["PATH"]}


def _wait_for(process, host, port):
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            if not probe.connect_ex((host, port)):
                return
        time.sleep(0.02)
    pytest.fail("the proxy does not listen")
