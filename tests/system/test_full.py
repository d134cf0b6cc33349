"""A small file system that is really full: senders must retry, reading still works, and the service recovers."""

import os
import shutil
import smtplib
import subprocess
import time
from contextlib import contextmanager, suppress

import pytest

from daemons import NO_LIMITS, PATIENCE_SECONDS
from senders import damage

FREE_MIB = 256  # the service keeps this much disk space free
MIB = 1024 * 1024
MAIL = b"Subject: x\r\n\r\n" + b"0123456789abcdef" * 4 * 16 * 1024 + b"\r\n"
ACCEPTED, FULL = 250, 452
LIFETIME_SECONDS = 12


@contextmanager
def mounted(folder, mib):
    """Mount a file system of this size that nothing else writes to."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=0700", "tmpfs", folder], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder):
    """Use up all remaining space."""
    with suppress(OSError), (folder / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(4096))


def send(daemon, address):
    """Return the reply code of a delivery attempt."""
    with smtplib.SMTP("127.0.0.1", daemon.smtp_port, local_hostname="localhost", timeout=PATIENCE_SECONDS) as client:
        try:
            client.sendmail("a@example.com", [address], MAIL)
        except smtplib.SMTPSenderRefused as refusal:
            return refusal.smtp_code
        except smtplib.SMTPDataError as refusal:
            return refusal.smtp_code
        return ACCEPTED


def seconds_until(daemon, address, wanted):
    """Send until the reply has this code; return the seconds and the number of messages accepted meanwhile."""
    began, accepted = time.monotonic(), 0
    while (code := send(daemon, address)) != wanted:
        assert code in (ACCEPTED, FULL)
        accepted += code == ACCEPTED
        assert time.monotonic() - began < PATIENCE_SECONDS, daemon.errors()
        time.sleep(0 if wanted == FULL else 0.1)
    return time.monotonic() - began, accepted


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who may mount")
def test_a_full_disk_is_reported_and_recovery_needs_no_restart(start, tmp_path, figure):
    folder = tmp_path / "small"
    folder.mkdir()
    with mounted(folder, FREE_MIB + 48):
        daemon = start(
            folder,
            **NO_LIMITS,
            TMPMAILD_ADDRESSES__LIFETIME_SECONDS=str(LIFETIME_SECONDS),
            TMPMAILD_ADDRESSES__MAX_LIFETIME_SECONDS="3600",
            TMPMAILD_EXPIRY__INTERVAL_SECONDS="1",
        )
        body = b'{"expires_in_seconds": 3600}'
        created = daemon.request("/api/v1/addresses", "POST", body, {"Content-Type": "application/json"}.items())
        keeps = created.json["address"]
        assert send(daemon, keeps) == ACCEPTED

        # First fill the disk up to the reserve: stored messages can be read, and expiry frees space again.
        _, stored = seconds_until(daemon, daemon.create(), FULL)
        assert len(daemon.messages(keeps)) == 1
        swept_seconds, _ = seconds_until(daemon, keeps, ACCEPTED)

        # Then another program suddenly fills the disk to the last byte.
        fill(folder)
        assert shutil.disk_usage(folder).free == 0
        seconds_until(daemon, keeps, FULL)
        kept = len(daemon.messages(keeps))
        time.sleep(LIFETIME_SECONDS / 4)
        assert send(daemon, keeps) == FULL
        assert len(daemon.messages(keeps)) == kept
        (folder / "ballast").unlink()
        freed_seconds, _ = seconds_until(daemon, keeps, ACCEPTED)
        assert len(daemon.messages(keeps)) == kept + 1
        assert daemon.stop() == 0
        assert damage(daemon.database) == "ok"
        figure(
            "a really full file system",
            f"452 after {stored} MiB, reads go on; accepts {swept_seconds:.0f} s later by the sweep, "
            f"{freed_seconds:.1f} s after space was freed",
            "452, reads go on, accepts again without a restart",
        )
        shutil.rmtree(folder, ignore_errors=True)
