"""What mail has to wait for a thousand webhooks whose targets never answer."""

import json
import os
import smtplib
import socket
import statistics
import time
import urllib.request

from servers import Tmpmaild, seconds_from_dot

INBOXES = int(os.environ.get("INBOXES", "1000"))
MAILS = int(os.environ.get("MAILS", "3000"))
MOST_RATIO = 1.1
JSON = {"Content-Type": "application/json"}


def speak_of_silent_targets(folder):
    """Hold the time from the dot to the 250 against a service with as many inboxes without, mail by mail in turns."""
    with socket.create_server(("0.0.0.0", 0), backlog=2048) as silent:
        port = silent.getsockname()[1]
        allowed = {"TMPMAILD_WEBHOOKS__ALLOW": f"127.0.0.0/8:{port}"}
        with Tmpmaild(folder / "calling", **allowed) as calling, Tmpmaild(folder / "without") as plain:
            clients = [smtplib.SMTP("127.0.0.1", one.smtp_port, "localhost") for one in (calling, plain)]
            for client in clients:
                client.ehlo()
                client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for number in range(INBOXES):
                seconds_from_dot(clients[0], _inbox(calling, number, port))
                seconds_from_dot(clients[1], plain.create())
            time.sleep(1)  # as many calls as there may be are being made
            pairs = [_pair(clients, (calling, plain), number) for number in range(MAILS)]
            more = calling.resident_mib() - plain.resident_mib()
    mine, theirs = ([1000 * value for value in column] for column in zip(*pairs, strict=True))
    for name, figure in (("median", statistics.median), ("p99", _p99)):
        ratio = figure(mine) / figure(theirs)
        print(
            f"{INBOXES} silent targets, dot to 250, {name:6} {ratio:6.2f} ×   "
            f"({figure(mine):.2f} against {figure(theirs):.2f} ms; wanted at most {MOST_RATIO} ×)",
            flush=True,
        )
    print(f"memory that they have taken: {more:.1f} MiB", flush=True)


def _pair(clients, servers, number):
    """Send a mail to each; now the one is first, now the other."""
    seconds = {}
    for place in (0, 1) if number % 2 else (1, 0):
        seconds[place] = seconds_from_dot(clients[place], servers[place].recipient)
    return seconds[0], seconds[1]


def _inbox(server, number, port):
    """Create an inbox whose webhook leads to a host of its own."""
    host = f"127.1.{number // 250}.{number % 250 + 1}"
    body = json.dumps({"webhook": {"url": f"http://{host}:{port}/"}}).encode()
    with urllib.request.urlopen(urllib.request.Request(server.url, data=body, headers=JSON)) as answer:
        return json.loads(answer.read())["address"]


def _p99(values):
    return statistics.quantiles(values, n=100)[98]
