from pathlib import Path

from tmpmaild.host.process import release_memory


def resident_mib():
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4 // 1024


pieces = [bytearray(65_536) for _ in range(1600)]
last = bytearray(65_536)
del pieces
release_memory()
print(resident_mib())
