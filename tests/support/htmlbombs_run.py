"""Prints the processor time for each bomb. The argument is the divisor of the bombs' length."""

import resource
import sys
import time
from pathlib import Path

from htmlbombs import BOMBS
from tmpmaild.mail.contentids import referred_to
from tmpmaild.mail.htmltext import to_text
from tmpmaild.mail.htmlview import render

render("", {}, remote_images=True)
used_bytes = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used_bytes + 200 * 2**20,) * 2)
divisor = int(sys.argv[1])
for bomb in BOMBS.values():
    html = bomb()
    html = html[: len(html) // divisor]
    started = time.process_time()
    to_text(html)
    referred_to(html)
    render(html, {"a": "data:image/png;base64," + "A" * 2**20}, remote_images=True)
    print(time.process_time() - started)
