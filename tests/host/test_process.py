"""Memory that large mails took goes back to the system."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

CHURN = Path(__file__).with_name("process-churn.py.txt").read_text()


PIECES = Path(__file__).with_name("process-pieces.py.txt").read_text()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
@pytest.mark.parametrize("script", [CHURN, PIECES], ids=["large", "pieces"])
def test_freed_blocks_go_back_to_the_system(script):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 40
