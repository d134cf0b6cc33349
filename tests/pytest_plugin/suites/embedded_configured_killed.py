import os
import signal
import threading
from pathlib import Path


def test_during_which_it_dies(inbox):
    daemon = int(Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text("ascii"))
    os.kill(daemon, signal.SIGKILL)
    os.waitid(os.P_PID, daemon, os.WEXITED | os.WNOWAIT)
    inbox.messages()


def test_after_it(inbox):
    pass


def test_without_an_inbox(tmpmail_smtp):
    pass


def test_tls(tmpmail_ca_file):
    pass


def test_implicit_tls(tmpmail_smtps):
    pass
