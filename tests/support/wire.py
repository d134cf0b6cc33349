r"""Bytes as written in data files: ``\r \n \t \0 \xNN \\`` are single bytes, ``\{n*text}`` is the text n times."""

import re

_ESCAPES = {"r": "\r", "n": "\n", "t": "\t", "0": "\0", "\\": "\\"}
_ESCAPED = re.compile(r"\\(?:\{(?P<count>\d+)\*(?P<text>[^}]*)\}|x(?P<hex>[0-9a-f]{2})|(?P<name>.))")


def octets(text):
    return _ESCAPED.sub(_meaning, text).encode("latin-1")


def _meaning(match):
    if match["count"]:
        return octets(match["text"]).decode("latin-1") * int(match["count"])
    return chr(int(match["hex"], 16)) if match["hex"] else _ESCAPES[match["name"]]
