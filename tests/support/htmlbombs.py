"""HTML that is small and would cost much, and what it does cost."""

import os
import subprocess
import sys

BOMBS = {
    "formatting made anew in each block": '"".join(f"<b title={n}>" for n in range(500)) + "<p>x" * 5000',
    "formatting made anew in each item": '"".join(f"<font size={n}>" for n in range(500)) + "<li>x" * 19000',
    "nested blocks": '"<div>" * 19999',
    "paragraphs deep down": '"<div>" * 255 + "<p>x" * 19000',
    "nested tables": '"<table><tr><td>" * 6600',
    "text between cells": '"<table>" + "<b>x<td>" * 9900',
    "links in links": '"<a href=https://x/>x<div>" * 9900',
    "nested items": '"<ul><li>" * 9900',
    "foreign content": '"<svg><foreignObject><math><mtext>" * 4900',
    "headings crossed": '"<h1><i>" * 9900',
    "formatting out of blocks": '("<b title=x><i><u><s>" + "<div>" * 7 + "</b>" + "</div>" * 7) * 1000',
    "formatting that its end tag does not end": '("<b>" + "<div>" * 9 + "</b>" + "</div>" * 9) * 400 + "<p>x" * 10_000',
    "formatting with long attributes": '("<font title=" + "y" * 4000 + ">") * 8 + "<p>x" * 19_000',
    "formatting deep down": '"<div>" * 240 + "<b><p>x</b></p>" * 4900',
    "end tags": '"</p>" * 19999',
    "end tags that look far": '"<i>" + "<div>" * 255 + "</i></b>" * 9800',
    "an attribute": '"<p title=\\"" + "a" * 4_000_000 + "\\">x"',
    "attributes": '"<p " + " ".join(f"a{n}=1" for n in range(300_000)) + ">x"',
    "references": '"&amp;" * 49_000',
    "no-break spaces": '"\\xa0" * 49_000',
    "soft hyphens": '"\\xad" * 2_000_000',
    "huge references": '"&#9999999999;" * 300_000',
    "nothing": '"\\0" * 4_000_000',
    "open brackets": '"<" * 4_000_000',
    "style addresses": '("<p style=\'" + "url(" * 1000 + "\'>") * 900',
    "open comments": '"<!--" * 900_000',
    "bodies with styles": '"<body style=color:red;width:1px>" * 19_000',
    "a doctype that never comes": '"<!---->" * 10_000 + "<!doctype html" + " " * 4_000_000',
    "a repeated image": '"<img src=cid:a alt=x>" * 19_000',
    "brackets in a sheet": '"<style>" + "{(" * 65_000 + "}"',
    "brackets in a value": '"<style>p{width:calc" + "(" * 131_000 + "}"',
    "rules in rules": '"<style>" + "&{" * 65_000 + "}"',
    "selectors": '"<style>" + "a," * 65_000 + "a{color:red}"',
    "a number in a sheet": '"<style>p{width:" + "1" * 131_000 + "}"',
    "sheets for many media": '("<style media=\\"" + "(width:1px)," * 24 + "\\">a{}</style>") * 9900',
    "classes": '("<tr class=\\"" + "a: " * 60 + "\\">") * 19_900',
    "tags that differ": '"".join(f"<p style=font:0+{n}>" for n in range(19_000))',
    "colours that differ": '"".join(f"<p style=color:#{n:06x};background:#{n:06x}>" for n in range(19_000))',
    "styles that differ": '"".join("<p style=x%d:y;%s>" % (n, "a:" * 2000) for n in range(60)) + "<style>" + ")" * 131_000 + "}"',
}
RUN = """
import resource, sys, time
from tmpmaild.mail.htmltext import to_text
from tmpmaild.mail.htmlview import content_ids, render
render("", {}, remote_images=True)
used_bytes = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used_bytes + 200 * 2**20,) * 2)
divisor = int(sys.argv[1])
for bomb in sys.argv[2:]:
    html = eval(bomb)
    html = html[: len(html) // divisor]
    started = time.process_time()
    to_text(html)
    content_ids(html)
    render(html, {"a": "data:image/png;base64," + "A" * 2**20}, remote_images=True)
    print(time.process_time() - started)
"""


def bomb_seconds(divisor):
    """Return what each bomb costs, cut to a part of its length, in a process that may take 200 MiB for it."""
    run = subprocess.run(
        [sys.executable, "-c", RUN, str(divisor), *BOMBS.values()],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    return dict(zip(BOMBS, map(float, run.stdout.split()), strict=True))
