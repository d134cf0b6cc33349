"""Memory that large mails took goes back to the system."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = [Path(__file__).with_name(f"process-{name}.py.txt") for name in ("churn", "pieces")]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_freed_blocks_go_back_to_the_system(script):
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 40
