"""Possible states of a disk after a power cut, derived from a process's system calls as recorded by strace.

Data written before the start of a file's last fsync is on disk. Of later writes, any subset of the 512-byte sectors may
be on disk. A created file may be missing until its folder is synced with fsync. ``recorded`` reads the calls, and
``Disk`` applies their effects.
"""

import re
from pathlib import Path
from typing import NamedTuple

SECTOR_BYTES = 512
TRACER = ("strace", "-D", "-f", "-y", "-xx", "-qq", "-s", "100000000", "--seccomp-bpf")
_FILE_CALLS = ("openat", "pwrite64", "ftruncate", "fsync", "fdatasync", "unlink", "rename")
_SOCKET_CALLS = ("write", "writev", "sendto", "sendmsg")
CALLS = f"trace={','.join(_FILE_CALLS + _SOCKET_CALLS)}"

_call = re.compile(r"(\d+) +(?:<\.\.\. )?(\w+)(\(| resumed>)(.*)", re.DOTALL).match
_octets = re.compile(r'"((?:\\x[0-9a-f]{2})*)"').findall
_place = re.compile(r"[\d\w]+<((?:\\x[0-9a-f]{2})*)>").match
_result = re.compile(r"\) += (-?\d+)").search
_numbers = re.compile(r", (\d+)").findall
_UNFINISHED = "<unfinished ...>"
_stored = re.compile(rb"250 2\.0\.0 Ok: stored as (msg_\w+)").findall
_told = re.compile(rb'\{"type":"message\.received","timestamp":"[^"]+","data":\{"id":"(msg_\w+)"').findall


class Event(NamedTuple):
    """An action of the process; ``began`` is the number of events that precede its start."""

    kind: str
    path: str
    began: int
    offset: int = 0
    octets: bytes = b""


def tracer(file):
    """Return the command that records a process, which remains our direct child."""
    return [*TRACER, "-o", str(file), "-e", CALLS]


def recorded(trace, folder):
    """Return the events for the files of a folder, in order.

    "stored" is a reply that acknowledges a message, and "told" is a webhook call for a message.
    """
    events, unfinished = [], {}
    for line in Path(trace).read_text(encoding="utf-8").splitlines():
        match = _call(line)
        if match is None:
            continue
        thread, name, how, rest = match.groups()
        if how == "(" and name in _SOCKET_CALLS:  # data may be sent as soon as the call starts
            events += _sent(rest, len(events))
        elif how == "(" and rest.endswith(_UNFINISHED):
            unfinished[thread] = rest.removesuffix(_UNFINISHED), len(events)
        elif name in _FILE_CALLS:
            begun, began = unfinished.pop(thread, ("", 0)) if how != "(" else ("", len(events))
            events += _changes(name, begun + rest, began, f"{folder}/")
    return events


def _sent(rest, began):
    said = b"".join(map(_text, _octets(rest)))
    found = [("stored", name) for name in _stored(said)] + [("told", name) for name in _told(said)]
    return [Event(kind, name.decode(), began) for kind, name in found]


def _changes(name, rest, began, folder):
    result = _result(rest)
    if result is None or int(result[1]) < 0:
        return []
    place = _place(rest)
    path = _text(place[1]).decode(errors="replace") if place else ""
    if name == "openat":
        path = _text(_octets(rest)[0]).decode() if "O_CREAT" in rest else ""
    elif name in ("unlink", "rename"):
        path = _text(_octets(rest)[0]).decode()
    if not f"{path}/".startswith(folder):
        return []
    return [_change(name, path, rest, began)]


def _change(name, path, rest, began):
    if name == "pwrite64":
        octets = _text(_octets(rest)[0])
        written, offset = int(_result(rest)[1]), int(_numbers(rest[rest.rindex('"') :])[1])
        return Event("write", path, began, offset, octets[:written])
    if name == "ftruncate":
        return Event("truncate", path, began, int(_numbers(rest)[0]))
    return Event({"openat": "create", "fsync": "sync", "fdatasync": "sync"}.get(name, name), path, began)


def _text(escaped):
    return bytes.fromhex(escaped.replace("\\x", ""))


class Disk:
    """The files in a folder, updated by events; ``cut`` writes one possible state after a power cut."""

    def __init__(self):
        self._durable = {}
        self._pending = {}
        self._names = set()
        self._renamed = []  # changes to the folder's entries since its last fsync

    def happen(self, number, event):
        """Apply the event with this number."""
        if event.kind == "sync":
            self._sync(event)
        elif event.kind in ("create", "unlink"):
            self._renamed.append(event)
            if event.kind == "unlink" or event.path not in self._durable:
                self._durable[event.path], self._pending[event.path] = bytearray(), []
        elif event.kind in ("write", "truncate"):
            self._pending[event.path].append((number, event))
        else:
            assert event.kind in ("stored", "told"), event

    def _sync(self, event):
        if event.path not in self._durable:  # the folder
            for done in self._renamed:
                _rename(self._names, done)
            self._renamed.clear()
            return
        done = [change for number, change in self._pending[event.path] if number < event.began]
        for change in done:
            _write(self._durable[event.path], change)
        del self._pending[event.path][: len(done)]

    def cut(self, folder, random):
        """Write one possible state after a power cut to a folder."""
        names = set(self._names)
        for done in self._renamed[: random.randint(0, len(self._renamed))]:
            _rename(names, done)
        share = random.choice([0, 0.1, 0.5, 0.9, 1])
        for path in names:
            content = bytearray(self._durable[path])
            for _, change in self._pending[path]:
                for part in _sectors(change):
                    if random.random() < share:
                        _write(content, part)
            (Path(folder) / Path(path).name).write_bytes(content)


def _rename(names, event):
    (names.add if event.kind == "create" else names.discard)(event.path)


def _sectors(change):
    if change.kind == "truncate":
        return [change]
    end = change.offset + len(change.octets)
    starts = [change.offset, *range(change.offset - change.offset % SECTOR_BYTES + SECTOR_BYTES, end, SECTOR_BYTES)]
    return [
        change._replace(offset=start, octets=change.octets[start - change.offset : stop - change.offset])
        for start, stop in zip(starts, [*starts[1:], end], strict=True)
    ]


def _write(content, change):
    if change.kind == "truncate":
        content[change.offset :] = bytes(max(change.offset - len(content), 0))
        return
    content.extend(bytes(max(change.offset - len(content), 0)))
    content[change.offset : change.offset + len(change.octets)] = change.octets
