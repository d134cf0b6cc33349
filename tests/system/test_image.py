"""The container image, built from Containerfile without a registry, and run as a container engine would run it."""

import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import chroot_image

PATIENCE_SECONDS = 60
# Creates an address over HTTP, sends it a message over SMTP, and prints the list of its messages.
ROUND = Path(__file__).with_name("image_round.py").read_text()
READ_AGAIN = 'import sys, urllib.request as u; print(u.urlopen(f"http://127.0.0.1:8025/api/v1/addresses/{sys.argv[1]}/messages").read())'


@pytest.fixture(scope="module")
def image(amount):
    if amount(whole=False, quick=True):
        pytest.skip("takes minutes; run without QUICK")
    if reason := chroot_image.missing():
        pytest.skip(reason)
    # On disk, unlike pytest's folders, which may be in memory: the image contains two Debian systems.
    folder = Path(tempfile.mkdtemp(prefix="tmpmaild-image-", dir="/var/tmp"))
    yield chroot_image.build(chroot_image.ROOT / "Containerfile", folder)
    shutil.rmtree(folder)


class Container:
    """A running container that can run commands."""

    def __init__(self, image, volume):
        self.image = image
        self.process = subprocess.Popen(chroot_image.run_command(image, volume), stdout=subprocess.DEVNULL)
        self.pid = self._until(self._first_child)
        self._until(lambda: self.run(*image.health_command).returncode == 0)

    def _first_child(self):
        children = (
            Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="utf-8").split()
        )
        return int(children[0]) if children else None

    def _until(self, wanted):
        end = time.monotonic() + PATIENCE_SECONDS
        while not (found := wanted()):
            assert time.monotonic() < end
            assert self.process.poll() is None
            time.sleep(0.1)
        return found

    def run(self, *command):
        words = chroot_image.exec_command(self.image, self.pid, *command)
        return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)

    def python(self, script, *arguments):
        done = self.run("/opt/tmpmaild/bin/python", "-c", script, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stop(self):
        """Send the container's STOPSIGNAL; return the exit code and the seconds until the daemon exits."""
        began = time.monotonic()
        subprocess.run(["kill", f"-{self.image.settings['STOPSIGNAL']}", str(self.pid)], check=True)
        return self.process.wait(PATIENCE_SECONDS), time.monotonic() - began


@contextmanager
def running(image, volume):
    container = Container(image, volume)
    try:
        yield container
    finally:
        container.process.send_signal(signal.SIGKILL)
        container.process.wait()


def test_the_image_serves_with_a_read_only_root(image, tmp_path):
    with running(image, tmp_path) as container:
        assert "to the container" in container.python(ROUND)
        status = dict(
            line.split(":", 1)
            for line in Path(f"/proc/{container.pid}/status").read_text(encoding="utf-8").splitlines()
        )
        assert set(status["Uid"].split()) == {"2525"}
        assert {int(status[kind], 16) for kind in ("CapEff", "CapPrm", "CapBnd")} == {0}
        inside = ["nsenter", f"--target={container.pid}", "--mount", "touch", f"{image.folder}/file"]
        written = subprocess.run(inside, capture_output=True, text=True, check=False)
        assert "Read-only file system" in written.stderr
        assert container.run("tmpmaild", "status").returncode == 0


def test_the_container_stops_on_its_signal_and_the_volume_keeps_the_mail(image, tmp_path, figure):
    with running(image, tmp_path) as container:
        address = container.python(ROUND).split()[0]
        code, seconds = container.stop()
        assert code == 0
        assert seconds < 5
    with running(image, tmp_path) as container:
        assert "to the container" in container.python(READ_AGAIN, address)
    figure("the image stops by its signal, and its volume keeps the mail", f"{seconds:.1f} s", "under 5 s")


def test_the_final_stage_contains_no_build_tools(image):
    assert not list((image.folder / "src").glob("*"))
    assert not list((image.folder / "opt/tmpmaild").rglob("hatchling"))
