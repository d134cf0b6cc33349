"""Mails that cost much more than honest ones would, or did, and what everybody else feels of them meanwhile."""

import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

MIB = 1024 * 1024
HTML = b"Content-Type: text/html; charset=utf-8\r\n\r\n"
PARTS = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"


def filled(size, piece):
    """Repeat a piece, ``%d`` in which is a number that differs, up to a size."""
    if "%d" not in piece:
        return (piece * (size // len(piece))).encode()
    return "".join(piece % number for number in range(size // len(piece))).encode()[:size]


def html(size, piece, before="", after=""):
    return HTML + before.encode() + filled(size, piece) + after.encode()


def text(size, piece, before="", fields=""):
    return f"{fields}Content-Type: text/plain; charset=utf-8\r\n\r\n{before}".encode() + filled(size, piece)


def _sheet_of_classes():
    properties = "clip display height left max-width opacity overflow padding position visibility width".split()
    block = "".join(f"{one}:1;{one}:1!important;" for one in properties)
    return f"<style>{''.join(f'.c{n}{{opacity:1;{block}}}' for n in range(50))}</style>"


CLASSES = " ".join(f"c{n}" for n in range(50))
LONG_RULE = f"<style>.a{{{'b:c;' * 6000}opacity:1}}</style>"
# Besides these HTML that costs a browser's parser much is in ``htmlbombs``.
MAILS = {
    "an honest mail of 10 MiB": html(10 * MIB - 9000, "<tr><td style='color:#333'>a line of the table</td></tr>\r\n"),
    "dashes behind a code": text(75_000, "-", "Your verification code:\n", "Subject: code\r\n"),
    "dashes, 10 MiB": text(10 * MIB - 9000, "-\r\n", "Your verification code:\n"),
    "rules in nested @media": html(20_000, "{}", "<style>.a{opacity:0}" + "@media all{" * 900, "</style>"),
    "a long rule, many elements": html(52_000, "<br class=a>", LONG_RULE),
    "a long rule, elements that differ": html(9 * MIB, "<br class=a id=%d>", LONG_RULE),
    "many rules, many classes": html(9 * MIB, f"<p class='{CLASSES}' id=%d>x", _sheet_of_classes()),
    "styles that differ, 100 KB": html(100_000, "<p style='display:none%d'>x"),
    "styles that differ, 10 MiB": html(9 * MIB, "<p style='display:none%d'>x"),
    "tags, 30 KB": html(30_000, "<b>"),
    "tags, 10 MiB": html(10 * MIB - 9000, "<b>"),
    "references, 10 MiB": html(10 * MIB - 9000, "&a"),
    "what is hidden never ends": html(2_000_000, "<p>x", "", "<p hidden>x"),
    "comments, 10 MiB": html(10 * MIB - 9000, "<!---->"),
    "attributes, 10 MiB": html(10 * MIB - 9000, " a%d=1", "<p", ">x"),
    "brackets in a sheet": html(130_000, "{(", "<style>", "}</style>"),
    "selectors, 30 KB": html(30_000, ".z ~ * ~ *{color:red}", "<style>", "</style>" + "<br>" * 3000),
    "links, 128 KB": html(128_000, "<a href=https://a.example/%d>Verify</a>"),
    "a code in each line": text(128_000, "Your code: 12%d\n"),
    "numbers without end": text(128_000, "123456 "),
    "bare links": text(128_000, "https://a.example/verify?%d "),
    "parts without end": PARTS + filled(10 * MIB - 9000, "--b\r\n\r\n"),
    "nested parts": b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(100_000)
    ),
    "header fields": filled(10 * MIB - 9000, "a:b\r\n") + b"\r\nx",
    "encoded words": b"Subject: " + filled(9 * MIB, "=?utf-8?q?=41?=\r\n ") + b"\r\n\r\nx",
    "addresses": b"From: " + filled(60_000, "(a,\r\n ") + b"\r\n\r\nx",
    "broken base64": text(9 * MIB, "ab=c", "", "Content-Transfer-Encoding: base64\r\n"),
    "broken quoted-printable": text(9 * MIB, "=x", "", "Content-Transfer-Encoding: quoted-printable\r\n"),
    "hyphens": PARTS + filled(10 * MIB - 9000, "\r\n--"),
    "pieces of a parameter": b"Content-Type: a/b;\r\n" + filled(9 * MIB, " name*%d*=utf-8''a%%20;\r\n") + b"\r\nx",
    "folded for ever": b"Subject: a\r\n" + filled(9 * MIB, " \r\n b\r\n") + b"\r\nx",
    "groups of addresses": b"To: " + filled(9 * MIB, "g:a@b.example;,\r\n ") + b"\r\n\r\nx",
    "comments in comments": filled(9 * MIB, f"Cc: {'(' * 60_000}\r\n") + b"\r\nx",
    "a mail in a mail": filled(9 * MIB, "Content-Type: message/rfc822\r\n\r\n"),
    "soft breaks": text(9 * MIB, "= \t \r\n", "", "Content-Transfer-Encoding: quoted-printable\r\n"),
    "base64 of one character": text(9 * MIB, "Q\r\n", "", "Content-Transfer-Encoding: base64\r\n"),
    "utf-7": b"Content-Type: text/html; charset=utf-7\r\n\r\n" + filled(9 * MIB, "+ADw-p+AD4-"),
    "hz": b"Content-Type: text/plain; charset=hz\r\n\r\n" + filled(9 * MIB, "~{!!~}"),
    "iso-2022-jp": b"Content-Type: text/plain; charset=iso-2022-jp\r\n\r\n" + filled(9 * MIB, "\x1b$B!!\x1b(B\r\n"),
    "signatures": filled(9 * MIB, "DKIM-Signature: v=1; a=rsa-sha256; d=a%d.example; s=s; h=from; bh=MTIz; b=MTIz\r\n")
    + b"\r\nx",
    "received for ever": filled(9 * MIB, "Received: from a%d.example by b; Mon, 23 Nov 2026 08:00:00 +0000\r\n")
    + b"\r\nx",
    "combining marks": text(MIB, "\u0301\u0327\u200d\u202e", "Your code: 1"),
    "cells of digits": html(9 * MIB, "<td>1</td>", "<p>Your code</p><table><tr>"),
    "addresses that differ": html(9 * MIB, "<a href='https://a.example/?a&amp;b=%d'>x</a>\r\n"),
    "line breaks": html(9 * MIB, "<br>x"),
    "choices": html(9 * MIB, "<option>x\r\n", "<select>"),
    "comments in styles that differ": html(9 * MIB, "<p style='/*%d*/dis\\70lay:none'>x\r\n"),
    "fonts of many words": html(9 * MIB, f"<p style='font:{' a' * 60} %d'>x\r\n"),
    "colours without alpha": html(9 * MIB, "<p style='color:rgb(%d 0 0 / 10%%)'>x\r\n"),
    "svg and mathml": html(9 * MIB, "<svg><math><mi><svg><foreignObject><p>\r\n"),
    "@layer and its kin": html(130_000, "@layer a{@supports (a:b){@container (width>1px){@media all{", "<style>"),
    "url( for ever": html(130_000, "p{background:url(", "<style>"),
    "an image named often": PARTS.replace(b"mixed", b"related")
    + b"--b\r\n"
    + html(450_000, "<img src=cid:1 width=1>\r\n")
    + b"--b\r\nContent-Type: image/png\r\nContent-ID: <1>\r\n\r\n\x89PNG\r\n\x1a\n"
    + filled(4 * MIB, "0"),
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
