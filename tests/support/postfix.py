"""A Postfix of its own, which queues what is given to it and sends it to one server. The machine's own is not touched."""

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
# What a Postfix needs that receives too.
_RECEIVES = Path(__file__).with_name("postfix-receives.txt").read_text()
_MASTER = Path(__file__).with_name("postfix-master.txt").read_text()


class Postfix:
    """The server that queues; ``log`` is what it says of each try."""

    def __init__(self, folder):
        self._folder = folder

    def send(self, sender, recipient, mail):
        """Take a mail into the queue, as an application on the same machine does."""
        command = ["sendmail", "-C", self._folder, "-f", sender, recipient]
        subprocess.run(command, env=os.environ | {"PATH": peers.PATH}, input=mail, check=True)

    @property
    def log(self):
        return (self._folder / "log.txt").read_text()

    def tries(self, recipient):
        """Return how each try of a mail to this address ended: ``deferred``, ``sent``, ``bounced``."""
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
    """Run a Postfix that sends everything to a port of this machine; or one with these settings, which receives there."""
    with tempfile.TemporaryDirectory(prefix="tmpmaild-postfix-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # its programs are another user's
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
            # The process that was started is a shell, which does not pass a signal on.
            subprocess.run(["postfix", "-c", folder, "stop"], env=env, capture_output=True, check=False)
            process.wait(PATIENCE_SECONDS)
