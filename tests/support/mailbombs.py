"""Messages that are, or used to be, much more expensive than ordinary messages, and their effect on other users."""

import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

MIB = 1024 * 1024
FULL = 10_476_760  # with its header, this is the largest message accepted by default
TEXT = "Content-Type: text/plain; charset=utf-8\r\n\r\n"
HTML = "Content-Type: text/html; charset=utf-8\r\n\r\n"
PARTS = "Content-Type: multipart/mixed; boundary=b\r\n\r\n"
RELATED = PARTS.replace("mixed", "related")
PICTURE = "--b\r\nContent-Type: image/png\r\nContent-ID: <1>\r\n\r\n"


def mail(kind, size, piece, before="", after=""):
    """Return a message that repeats a piece up to a size, between two texts; ``%d`` becomes a sequence number."""
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
# ``htmlbombs.py`` contains HTML that is expensive to parse with the rules of browsers.
MAILS = {
    "an honest mail of 10 MiB": mail("html", FULL, "<tr><td style='color:#333'>a line of the table</td></tr>\r\n"),
    "dashes, 10 MiB": mail("text", FULL, "-\r\n", "Your verification code:\n"),
    "styles that differ, 100 KB": mail("html", 100_000, "<p style='display:none%d'>x"),
    "styles that differ, 10 MiB": mail("html", 9 * MIB, "<p style='display:none%d'>x"),
    "tags, 30 KB": mail("html", 30_000, "<b>"),
    "tags, 10 MiB": mail("html", FULL, "<b>"),
    "references, 10 MiB": mail("html", FULL, "&a"),
    "what is hidden never ends": mail("html", 2_000_000, "<p>x", "", "<p hidden>x"),
    "comments, 10 MiB": mail("html", FULL, "<!---->"),
    "attributes, 10 MiB": mail("html", FULL, " a%d=1", "<p", ">x"),
    "brackets in a sheet": mail("html", 130_000, "{(", "<style>", "}</style>"),
    "links, 128 KB": mail("html", 128_000, "<a href=https://a.example/%d>Verify</a>"),
    "a code in each line": mail("text", 128_000, "Your code: 12%d\n"),
    "numbers without end": mail("text", 128_000, "123456 "),
    "bare links": mail("text", 128_000, "https://a.example/verify?%d "),
    "parts without end": mail("parts", FULL, "--b\r\n\r\n"),
    "header fields": mail("", FULL, "a:b\r\n", "", "\r\nx"),
    "encoded words": mail("", 9 * MIB, "=?utf-8?q?=41?=\r\n ", "Subject: ", "\r\n\r\nx"),
    "addresses": mail("", 60_000, "(a,\r\n ", "From: ", "\r\n\r\nx"),
    "broken base64": mail("text", 9 * MIB, "ab=c", "Content-Transfer-Encoding: base64\r\n"),
    "broken quoted-printable": mail("text", 9 * MIB, "=x", "Content-Transfer-Encoding: quoted-printable\r\n"),
    "hyphens": mail("parts", FULL, "\r\n--"),
    "pieces of a parameter": mail("", 9 * MIB, " name*%d*=utf-8''a%%20;\r\n", "Content-Type: a/b;\r\n", "\r\nx"),
    "folded for ever": mail("", 9 * MIB, " \r\n b\r\n", "Subject: a\r\n", "\r\nx"),
    "groups of addresses": mail("", 9 * MIB, "g:a@b.example;,\r\n ", "To: ", "\r\n\r\nx"),
    "a mail in a mail": mail("", 9 * MIB, "Content-Type: message/rfc822\r\n\r\n"),
    "soft breaks": mail("text", 9 * MIB, "= \t \r\n", "Content-Transfer-Encoding: quoted-printable\r\n"),
    "base64 of one character": mail("text", 9 * MIB, "Q\r\n", "Content-Transfer-Encoding: base64\r\n"),
    "utf-7": mail("", 9 * MIB, "+ADw-p+AD4-", "Content-Type: text/html; charset=utf-7\r\n\r\n"),
    "hz": mail("", 9 * MIB, "~{!!~}", "Content-Type: text/plain; charset=hz\r\n\r\n"),
    "iso-2022-jp": mail("", 9 * MIB, "\x1b$B!!\x1b(B\r\n", "Content-Type: text/plain; charset=iso-2022-jp\r\n\r\n"),
    "signatures": mail(
        "", 9 * MIB, "DKIM-Signature: v=1; a=rsa-sha256; d=a%d.example; s=s; h=from; bh=MTIz; b=MTIz\r\n", "", "\r\nx"
    ),
    "received for ever": mail(
        "", 9 * MIB, "Received: from a%d.example by b; Mon, 23 Nov 2026 08:00:00 +0000\r\n", "", "\r\nx"
    ),
    "combining marks": mail("text", 1_048_576, "\u0301\u0327\u200d\u202e", "Your code: 1"),
    "cells of digits": mail("html", 9 * MIB, "<td>1</td>", "<p>Your code</p><table><tr>"),
    "addresses that differ": mail("html", 9 * MIB, "<a href='https://a.example/?a&amp;b=%d'>x</a>\r\n"),
    "line breaks": mail("html", 9 * MIB, "<br>x"),
    "choices": mail("html", 9 * MIB, "<option>x\r\n", "<select>"),
    "comments in styles that differ": mail("html", 9 * MIB, "<p style='/*%d*/dis\\70lay:none'>x\r\n"),
    "colours without alpha": mail("html", 9 * MIB, "<p style='color:rgb(%d 0 0 / 10%%)'>x\r\n"),
    "svg and mathml": mail("html", 9 * MIB, "<svg><math><mi><svg><foreignObject><p>\r\n"),
    "@layer and its kin": mail(
        "html", 130_000, "@layer a{@supports (a:b){@container (width>1px){@media all{", "<style>"
    ),
    "url( for ever": mail("html", 130_000, "p{background:url(", "<style>"),
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
    """Another user of the service, with the longest duration of each action during an attack."""

    def __init__(self, daemon):
        self._daemon = daemon
        self._address = daemon.create()
        self.worst = {}

    def during(self, work, *arguments):
        """Run the work in a thread while this user uses the service; return the duration of the work."""
        uses = {
            "readyz": (fetch, f"{self._daemon.url}/readyz"),
            "a list": (self._daemon.messages, self._address, "?limit=1"),
            "a mail": (self._daemon.deliver_raw, self._address, HONEST),
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
            time.sleep(PAUSE_SECONDS)  # without pauses, these users would themselves be an attack


def deliver_and_read(daemon, address, mail):
    """Send a message, list it with its findings, search, read it, and open its view: everything a user can do."""
    daemon.deliver_raw(address, mail)
    (message,) = daemon.messages(address)
    here = f"/api/v1/addresses/{address}/messages/{message['id']}"
    for path in (here, f"{here}/raw", f"/api/v1/addresses/{address}/feed", *SEARCHES.format(address).split()):
        fetch(daemon.url + path)
    view = daemon.request(f"{here}/view", "POST", b"{}", {"Content-Type": "application/json"}).json
    fetch(daemon.url + view["url"])
