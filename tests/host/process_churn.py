from pathlib import Path

from tmpmaild.host.process import unmap_large_blocks


def resident_mib():
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4 // 1024


unmap_large_blocks()
kept = []
for size in range(8):
    blocks = [bytearray(10_000_000 - size * 4096) for _ in range(5)]
    kept.append(bytearray(100_000))  # a block that prevents a heap from shrinking
    del blocks
print(resident_mib())
