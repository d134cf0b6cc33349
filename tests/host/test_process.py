"""Memory that large mails took goes back to the system."""

import platform
import subprocess
import sys

import pytest

CHURN = """
from pathlib import Path
from tmpmaild.host.process import return_large_blocks

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4 // 1024

return_large_blocks()
kept = []
for size in range(8):
    blocks = [bytearray(10_000_000 - size * 4096) for _ in range(5)]
    kept.append(bytearray(100_000))  # what would keep a heap from shrinking
    del blocks
print(resident_mib())
"""


PIECES = """
from pathlib import Path
from tmpmaild.host.process import give_back

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4 // 1024

pieces = [bytearray(65_536) for _ in range(1600)]
last = bytearray(65_536)
del pieces
give_back()
print(resident_mib())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
@pytest.mark.parametrize("script", [CHURN, PIECES], ids=["large", "pieces"])
def test_freed_blocks_go_back_to_the_system(script):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 40
