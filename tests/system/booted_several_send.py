import collections
import concurrent.futures
import contextlib
import json
import socket
import sys
import threading
import urllib.request

api = "http://127.0.0.1:8025/api/v1/addresses"
enough, answers = threading.Event(), collections.Counter()
threading.Thread(target=lambda: (sys.stdin.read(), enough.set())).start()


def asked(url, body=None):
    with urllib.request.urlopen(url, body, timeout=60) as answer:
        return json.load(answer)


def deliver(address, subject):
    mail = f"Subject: {subject}\r\n\r\n.\r\n"
    lines = ("", "HELO x\r\n", "MAIL FROM:<a@example.com>\r\n", f"RCPT TO:<{address}>\r\n", "DATA\r\n", mail)
    with socket.create_connection(("127.0.0.1", 25), timeout=60) as client, client.makefile("rb") as replies:
        for line in lines:
            with contextlib.suppress(OSError):
                client.sendall(line.encode())
            reply = replies.readline()[:3].decode()
            if reply[:1] not in ("2", "3"):
                break
    return reply or "closed"


def shown(address):
    assert asked(f"{api}/{address}")["address"] == address
    return "200"


def told(protocol, do, *arguments):
    try:
        answer = do(*arguments)
    except OSError as error:
        answer = repr(error)
    answers[f"{protocol} {answer}"] += 1
    return answer


def send(_):
    address, acknowledged, number = asked(api, b"")["address"], set(), 0
    while not enough.is_set():
        number += 1
        if told("SMTP", deliver, address, number) == "250":
            acknowledged.add(str(number))
        told("HTTP", shown, address)
    found, after = set(), ""
    while page := asked(f"{api}/{address}/messages?order=asc&limit=100{after}")["messages"]:
        found |= {mail["subject"] for mail in page}
        after = "&after=" + page[-1]["id"]
    return sorted(acknowledged - found)


print("sending", flush=True)
with concurrent.futures.ThreadPoolExecutor(4) as threads:
    lost = [subject for one in threads.map(send, range(4)) for subject in one]
print(json.dumps({"answers": answers, "lost": lost}))
