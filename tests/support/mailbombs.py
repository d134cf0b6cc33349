"""Mails that cost much more than honest ones would, or did, and what everybody else feels of them meanwhile."""

import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from tables import rows_of

MIB = 1024 * 1024
TEXT = "Content-Type: text/plain; charset=utf-8\r\n\r\n"
HTML = "Content-Type: text/html; charset=utf-8\r\n\r\n"
PARTS = "Content-Type: multipart/mixed; boundary=b\r\n\r\n"
RELATED = PARTS.replace("mixed", "related")
PICTURE = "--b\r\nContent-Type: image/png\r\nContent-ID: <1>\r\n\r\n"


def mail(kind, size, piece, before="", after=""):
    """Return a mail that a piece fills up to a size, behind fields or a text; ``%d`` is a number that differs."""
    count = size // len(piece)
    filling = (
        "".join(piece % number for number in range(count)).encode()[:size] if "%d" in piece else piece.encode() * count
    )
    head = {"text": TEXT, "html": HTML, "parts": PARTS, "": ""}[kind]
    return (before + head if before.endswith("\r\n") else head + before).encode() + filling + after.encode()


def _sheet_of_classes():
    properties = "clip display height left max-width opacity overflow padding position visibility width".split()
    block = "".join(f"{one}:1;{one}:1!important;" for one in properties)
    return f"<style>{''.join(f'.c{n}{{opacity:1;{block}}}' for n in range(50))}</style>"


CLASSES = " ".join(f"c{n}" for n in range(50))
LONG_RULE = f"<style>.a{{{'b:c;' * 6000}opacity:1}}</style>"
MAILS = {name: mail(*filled) for name, *filled in rows_of(__file__)["mails"]} | {
    "dashes behind a code": b"Subject: code\r\n" + mail("text", 75_000, "-", "Your verification code:\n"),
    "rules in nested @media": mail("html", 20_000, "{}", "<style>.a{opacity:0}" + "@media all{" * 900, "</style>"),
    "a long rule, many elements": mail("html", 52_000, "<br class=a>", LONG_RULE),
    "a long rule, elements that differ": mail("html", 9 * MIB, "<br class=a id=%d>", LONG_RULE),
    "many rules, many classes": mail("html", 9 * MIB, f"<p class='{CLASSES}' id=%d>x", _sheet_of_classes()),
    "selectors, 30 KB": mail("html", 30_000, ".z ~ * ~ *{color:red}", "<style>", "</style>" + "<br>" * 3000),
    "nested parts": b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(100_000)
    ),
    "comments in comments": mail("", 9 * MIB, f"Cc: {'(' * 60_000}\r\n", "", "\r\nx"),
    "fonts of many words": mail("html", 9 * MIB, f"<p style='font:{' a' * 60} %d'>x\r\n"),
    "an image named often": f"{RELATED}--b\r\n".encode()
    + mail("html", 450_000, "<img src=cid:1 width=1>\r\n", "", PICTURE)
    + b"\x89PNG\r\n\x1a\n"
    + b"0" * (4 * MIB),
    "octets of no charset": b"Content-Type: text/plain; charset=gb18030\r\n\r\n" + b"\xff" * (9 * MIB),
}
PAUSE_SECONDS = 0.05
SEARCHES = "/api/v1/addresses/{0}/messages?has=code /api/v1/addresses/{0}/messages?has=link&q=nothing"
HONEST = b"Subject: honest\r\n\r\nYour code: 123456\r\n"


def seconds(work, *arguments):
    began = time.monotonic()
    work(*arguments)
    return time.monotonic() - began


def fetch(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read()


class Victim:
    """Somebody else's use of the service: the worst that each thing took while something was done to it."""

    def __init__(self, daemon):
        self._daemon = daemon
        self._address = daemon.create()
        self.worst = {}

    def during(self, work, *arguments):
        """Do the work in a thread and use the service meanwhile; return how long the work took."""
        uses = {
            "readyz": (fetch, f"{self._daemon.url}/readyz"),
            "a list": (self._daemon.messages, self._address, "?limit=1"),
            "a mail": (self._daemon.deliver_octets, self._address, HONEST),
        }
        self.worst = dict.fromkeys(uses, 0.0)
        with ThreadPoolExecutor(1 + len(uses)) as threads:
            attack = threads.submit(seconds, work, *arguments)
            for name, (use, *given) in uses.items():
                threads.submit(self._repeat, attack, name, use, given)
        return attack.result()

    def _repeat(self, attack, name, use, given):
        while not attack.done():
            self.worst[name] = max(self.worst[name], seconds(use, *given))
            time.sleep(PAUSE_SECONDS)  # three who never pause would be an attack of their own


def deliver_and_read(daemon, address, mail):
    """Send a mail, list it with its findings, search, read it, and look at its view: all that can be done with it."""
    daemon.deliver_octets(address, mail)
    (message,) = daemon.messages(address)
    here = f"/api/v1/addresses/{address}/messages/{message['id']}"
    for path in (here, f"{here}/raw", f"/api/v1/addresses/{address}/feed", *SEARCHES.format(address).split()):
        fetch(daemon.url + path)
    view = daemon.request(f"{here}/view", "POST", b"{}", {"Content-Type": "application/json"}).json
    fetch(daemon.url + view["url"])
