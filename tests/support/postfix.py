"""A separate Postfix instance that queues messages and sends them to one server.

The machine's own Postfix is not affected.
"""

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import peers
from patience import PATIENCE_SECONDS

_MAIN = Path(__file__).with_name("postfix-main.txt").read_text()
# Settings for a Postfix instance that also receives mail.
_RECEIVES = Path(__file__).with_name("postfix-receives.txt").read_text()
_MASTER = Path(__file__).with_name("postfix-master.txt").read_text()


class Postfix:
    """The queueing server; ``log`` is its log of delivery attempts."""

    def __init__(self, folder):
        self._folder = folder

    def send(self, sender, recipient, mail):
        """Queue a message, as an application on the same machine does."""
        command = ["sendmail", "-C", self._folder, "-f", sender, recipient]
        subprocess.run(command, env=os.environ | {"PATH": peers.PATH}, input=mail, check=True)

    @property
    def log(self):
        return (self._folder / "log.txt").read_text()

    def tries(self, recipient):
        """Return the result of each delivery attempt to this address: ``deferred``, ``sent`` or ``bounced``."""
        lines = [line for line in self.log.splitlines() if f"to=<{recipient}>" in line]
        return [line.partition("status=")[2].partition(" ")[0] for line in lines]


def _wait(folder, process):
    end = time.monotonic() + PATIENCE_SECONDS
    while not (folder / "queue/public/pickup").exists():
        assert process.poll() is None, (folder / "said.txt").read_text()
        assert time.monotonic() < end, (folder / "said.txt").read_text()
        time.sleep(0.05)


@contextmanager
def started(port, settings="", listen=""):
    """Run a Postfix that sends all mail to a local port; it may have other settings, and may also receive mail."""
    with tempfile.TemporaryDirectory(prefix="tmpmaild-postfix-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # Postfix's programs run as another user
        (folder / "queue").mkdir()
        (folder / "data").mkdir()
        shutil.chown(folder / "data", "postfix")
        (folder / "main.cf").write_text(_MAIN.format(folder=folder, port=port) + settings)
        (folder / "master.cf").write_text(_MASTER + (_RECEIVES.format(listen=listen) if listen else ""))
        (folder / "log.txt").touch()
        env = os.environ | {"PATH": peers.PATH}
        with (folder / "said.txt").open("wb") as said:
            process = subprocess.Popen(["postfix", "-c", folder, "start-fg"], env=env, stdout=said, stderr=said)
        try:
            _wait(folder, process)
            yield Postfix(folder)
        finally:
            # The started process is a shell, which does not forward signals.
            subprocess.run(["postfix", "-c", folder, "stop"], env=env, capture_output=True, check=False)
            process.wait(PATIENCE_SECONDS)
