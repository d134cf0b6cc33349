"""Counts the modules and functions of ours that a plain mail and a list run through; ``-v`` names them.

The daemon runs with a profile function in every thread. What a first mail and a first list do once is left out.
"""

import http.client
import json
import os
import signal
import smtplib
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

MAIL = b"From: Alice <alice@example.com>\r\nTo: b@example.com\r\nSubject: Hello\r\nDate: Tue, 24 Nov 2026 10:00:00 +0000\r\n\r\nHi.\r\n"
PACKAGE = f"{os.sep}tmpmaild{os.sep}"


def serve(report: str) -> None:
    """Run the daemon, recording calls from SIGUSR1 on; SIGUSR2 writes what was called."""
    called: set[tuple[str, str]] | None = None

    def record(frame, event, _argument):
        if event == "call" and called is not None and PACKAGE in frame.f_code.co_filename:
            called.add((frame.f_code.co_filename.rpartition(PACKAGE)[2], frame.f_code.co_qualname))

    def begin(*_):
        nonlocal called
        called = set()

    def end(*_):
        nonlocal called
        found, called = sorted(called or ()), None
        Path(report + ".new").write_text(json.dumps(found))
        Path(report + ".new").rename(report)

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)
    threading.setprofile(record)
    sys.setprofile(record)
    sys.argv = ["tmpmaild", "serve"]
    from tmpmaild.__main__ import run

    run()


class Traced:
    """A daemon whose calls are recorded."""

    def __init__(self, folder: Path) -> None:
        self.report = folder / "calls.json"
        settings = {"STORAGE__PATH": f"{folder}/t.db", "HTTP__LISTEN": "127.0.0.1:0", "SMTP__LISTEN": "127.0.0.1:0"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(self.report)],
            env={**os.environ, **{f"TMPMAILD_{key}": value for key, value in settings.items()}},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.ports = {}
        for line in self.process.stdout:
            words = line.split()
            if words[1:2] == ["on"]:
                self.ports[words[0]] = int(words[2].rpartition(":")[2])
            if len(self.ports) == 2:
                break

    def calls(self, act):
        """Return what is called while ``act`` runs."""
        self.report.unlink(missing_ok=True)
        time.sleep(0.1)  # until the connections before this are forgotten
        self.process.send_signal(signal.SIGUSR1)
        act()
        self.process.send_signal(signal.SIGUSR2)
        while not self.report.exists():
            self.request("GET", "/readyz")
        return [tuple(one) for one in json.loads(self.report.read_text())]

    def request(self, method, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["HTTP"])
        connection.request(method, path)
        body = connection.getresponse().read()
        connection.close()
        return body

    def send(self, address):
        with smtplib.SMTP("127.0.0.1", self.ports["SMTP"]) as smtp:
            smtp.sendmail("alice@example.com", [address], MAIL)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        traced = Traced(Path(folder))
        try:
            address = json.loads(traced.request("POST", "/api/v1/addresses"))["address"]
            path = f"/api/v1/addresses/{address}/messages"

            def send():
                traced.send(address)

            def read(query=""):
                traced.request("GET", path + query)

            read()
            for what, prepare, act in (
                ("a plain mail", [send], send),
                ("a list of new mail", [read, send], read),
                ("a list of mail whose codes and links are known", [send, lambda: read("?limit=20")], read),
                ("a list that is in memory", [read], read),
            ):
                for one in prepare:
                    one()
                found = traced.calls(act)
                modules = sorted({module for module, _ in found})
                print(f"{what}: {len(found)} functions in {len(modules)} modules")
                if "-v" in sys.argv:
                    print(
                        *(f"  {module}: {', '.join(n for m, n in found if m == module)}" for module in modules),
                        sep="\n",
                    )
        finally:
            traced.process.terminate()
            traced.process.wait()


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1:2] == ["--serve"] else main()
