"""Small HTML documents that could be expensive to process, and their actual cost."""

import os
import sys
from pathlib import Path

from daemons import finished

BOMBS = {
    "formatting made anew in each block": lambda: "".join(f"<b title={n}>" for n in range(500)) + "<p>x" * 5000,
    "formatting made anew in each item": lambda: "".join(f"<font size={n}>" for n in range(500)) + "<li>x" * 19000,
    "nested blocks": lambda: "<div>" * 19999,
    "paragraphs deep down": lambda: "<div>" * 255 + "<p>x" * 19000,
    "nested tables": lambda: "<table><tr><td>" * 6600,
    "text between cells": lambda: "<table>" + "<b>x<td>" * 9900,
    "links in links": lambda: "<a href=https://x/>x<div>" * 9900,
    "nested items": lambda: "<ul><li>" * 9900,
    "foreign content": lambda: "<svg><foreignObject><math><mtext>" * 4900,
    "headings crossed": lambda: "<h1><i>" * 9900,
    "formatting out of blocks": lambda: ("<b title=x><i><u><s>" + "<div>" * 7 + "</b>" + "</div>" * 7) * 1000,
    "formatting that its end tag does not end": lambda: (
        ("<b>" + "<div>" * 9 + "</b>" + "</div>" * 9) * 400 + "<p>x" * 10_000
    ),
    "formatting with long attributes": lambda: ("<font title=" + "y" * 4000 + ">") * 8 + "<p>x" * 19_000,
    "formatting deep down": lambda: "<div>" * 240 + "<b><p>x</b></p>" * 4900,
    "end tags": lambda: "</p>" * 19999,
    "end tags that look far": lambda: "<i>" + "<div>" * 255 + "</i></b>" * 9800,
    "an attribute": lambda: '<p title="' + "a" * 4_000_000 + '">x',
    "attributes": lambda: "<p " + " ".join(f"a{n}=1" for n in range(300_000)) + ">x",
    "references": lambda: "&amp;" * 49_000,
    "no-break spaces": lambda: "\xa0" * 49_000,
    "soft hyphens": lambda: "\xad" * 2_000_000,
    "huge references": lambda: "&#9999999999;" * 300_000,
    "nothing": lambda: "\0" * 4_000_000,
    "open brackets": lambda: "<" * 4_000_000,
    "style addresses": lambda: ("<p style='" + "url(" * 1000 + "'>") * 900,
    "open comments": lambda: "<!--" * 900_000,
    "bodies with styles": lambda: "<body style=color:red;width:1px>" * 19_000,
    "a doctype that never comes": lambda: "<!---->" * 10_000 + "<!doctype html" + " " * 4_000_000,
    "a repeated image": lambda: "<img src=cid:a alt=x>" * 19_000,
    "brackets in a sheet": lambda: "<style>" + "{(" * 65_000 + "}",
    "brackets in a value": lambda: "<style>p{width:calc" + "(" * 131_000 + "}",
    "rules in rules": lambda: "<style>" + "&{" * 65_000 + "}",
    "selectors": lambda: "<style>" + "a," * 65_000 + "a{color:red}",
    "a number in a sheet": lambda: "<style>p{width:" + "1" * 131_000 + "}",
    "sheets for many media": lambda: ('<style media="' + "(width:1px)," * 24 + '">a{}</style>') * 9900,
    "classes": lambda: ('<tr class="' + "a: " * 60 + '">') * 19_900,
    "tags that differ": lambda: "".join(f"<p style=font:0+{n}>" for n in range(19_000)),
    "colours that differ": lambda: "".join(f"<p style=color:#{n:06x};background:#{n:06x}>" for n in range(19_000)),
    "styles that differ": lambda: (
        "".join(f"<p style=x{n}:y;{'a:' * 2000}>" for n in range(60)) + "<style>" + ")" * 131_000 + "}"
    ),
}
RUN = Path(__file__).with_name("htmlbombs_run.py")


def bomb_seconds(divisor):
    """Return the CPU seconds that each bomb takes if its length is divided by ``divisor``, with 200 MiB of memory."""
    run = finished(
        [sys.executable, RUN, str(divisor)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    return dict(zip(BOMBS, map(float, run.stdout.split()), strict=True))
