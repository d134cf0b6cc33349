"""The cost of each operation on an address: CPU time, bytes written to disk and bytes on the network."""

import http.client
import json
import resource
import socket
import subprocess
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from servers import Tmpmaild, smtp_source

MAILS, MAIL_BYTES, SENDERS = 1500, 30 * 1024, 32
ADDRESSES = 1000
HEARTBEAT_SECONDS, HEARTBEATS = 8, 4


class Used(NamedTuple):
    """The daemon's CPU seconds and bytes written to disk, and the bytes on the loopback interface."""

    cpu: float
    written: int
    wire: int


def speak_of_costs(folder):
    _allow_files(ADDRESSES + 100)
    with Tmpmaild(folder / "costs", TMPMAILD_HTTP__MAX_CONNECTIONS="0", TMPMAILD_EXPIRY__INTERVAL_SECONDS="1") as ours:
        _speak_of_mail(ours)
        _speak_of_requests(ours)


def _speak_of_mail(ours):
    with urllib.request.urlopen(urllib.request.Request(ours.url, method="POST")) as answer:
        made = json.loads(answer.read())
    before = _used(ours)
    command = smtp_source(ours, MAILS, SENDERS, size_bytes=MAIL_BYTES, recipient=made["address"])
    subprocess.run(command, check=True)
    _print(f"a message of {MAIL_BYTES} bytes on its own connection", before, _used(ours), MAILS)
    before = _used(ours)
    token = {"Authorization": f"Bearer {made['token']}"}
    urllib.request.urlopen(
        urllib.request.Request(f"{ours.url}/{made['address']}", method="DELETE", headers=token)
    ).close()
    _print("deleting it", before, _when_quiet(ours), MAILS)


def _speak_of_requests(ours):
    client = http.client.HTTPConnection("127.0.0.1", ours.http_port)

    def ask(method, path):
        client.request(method, path)
        return json.loads(client.getresponse().read())

    before = _used(ours)
    addresses = [ask("POST", "/api/v1/addresses")["address"] for _ in range(ADDRESSES)]
    _print("creating an address", before, _used(ours), ADDRESSES)
    before = _used(ours)
    for address in addresses:
        ask("GET", f"/api/v1/addresses/{address}/messages")
    _print("listing its messages", before, _used(ours), ADDRESSES)
    with ExitStack() as opened:
        before, resident = _used(ours), ours.resident_mib()
        streams = [opened.enter_context(_opened_stream(ours, address)) for address in addresses]
        for stream in streams:
            _until_retry(stream, 5)
        _print("opening a stream", before, _used(ours), ADDRESSES)
        print(f"memory of a stream: {(ours.resident_mib() - resident) * 2**20 / ADDRESSES:,.0f} bytes", flush=True)
        before = _used(ours)
        time.sleep(HEARTBEAT_SECONDS * HEARTBEATS)
        _print("a heartbeat", before, _used(ours), ADDRESSES * HEARTBEATS)


def _used(ours):
    io = dict(
        line.split(": ") for line in Path(f"/proc/{ours.process.pid}/io").read_text(encoding="utf-8").splitlines()
    )
    loopback = next(
        line
        for line in Path("/proc/net/dev").read_text(encoding="utf-8").splitlines()
        if line.lstrip().startswith("lo:")
    )
    return Used(ours.cpu_seconds(), int(io["write_bytes"]), int(loopback.split()[1]))


def _when_quiet(ours):
    """Return the usage once nothing has been written for a few seconds."""
    found = [_used(ours)]
    while len(found) < 5 or found[-1].written != found[-4].written:
        time.sleep(1)
        found.append(_used(ours))
    return found[-1]


def _print(name, before, after, count):
    cpu, written, wire = ((new - old) / count for new, old in zip(after, before, strict=True))
    print(f"{name}: {cpu * 1e6:,.0f} µs of CPU, {written:,.0f} bytes written, {wire:,.0f} on the wire", flush=True)


def _opened_stream(ours, address):
    stream = socket.create_connection(("127.0.0.1", ours.http_port))
    stream.sendall(f"GET /api/v1/addresses/{address}/events HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return stream


def _until_retry(stream, seconds):
    stream.settimeout(seconds)
    octets = b""
    while b"retry" not in octets:
        octets += stream.recv(65536)
    return octets


def _allow_files(count):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2 * count, most), most))
