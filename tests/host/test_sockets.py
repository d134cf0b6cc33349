"""Sockets that a parent has passed, in a process of its own: descriptors begin at 3 there."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack

import pytest

from tmpmaild.host.sockets import take_passed

TAKE = """
import json, os, sys
for place, descriptor in enumerate(json.loads(sys.argv[1]), 3):
    os.dup2(descriptor, place)
os.environ["LISTEN_PID"] = str(os.getpid())
from tmpmaild.errors import ConfigError
from tmpmaild.host.sockets import take_passed
try:
    passed = take_passed(os.environ)
except ConfigError as error:
    sys.exit("\\n".join(error.mistakes))
left = [name for name in os.environ if name.startswith("LISTEN_")]
bare = {name: [[one.fileno(), one.get_inheritable(), one.family] for one in some] for name, some in passed.items()}
print(json.dumps([bare, left]))
"""


@pytest.fixture
def opened():
    with ExitStack() as closing:

        def listening(family=socket.AF_INET, kind=socket.SOCK_STREAM, place=("127.0.0.1", 0), *, listen=True):
            made = closing.enter_context(socket.socket(family, kind))
            made.bind(place)
            if listen:
                made.listen()
            return made

        yield listening


def passed(names, *sockets):
    """Return what a process that is passed these sockets takes, or what it says is wrong."""
    numbers = [one.fileno() for one in sockets]
    # High numbers, so that none is overwritten by the copy of another.
    high = [os.dup2(number, 100 + place) for place, number in enumerate(numbers)]
    environ = {**os.environ, "LISTEN_FDS": str(len(sockets)), "LISTEN_FDNAMES": names}
    done = subprocess.run(
        [sys.executable, "-c", TAKE, json.dumps(high)],
        env=environ,
        pass_fds=high,
        capture_output=True,
        text=True,
        check=False,
    )
    for number in high:
        os.close(number)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.splitlines()


def test_sockets_are_taken_by_name_and_handed_to_no_child(opened, tmp_path):
    unix = opened(socket.AF_UNIX, place=f"{tmp_path}/http.sock")
    found, left = passed("smtp:http:smtp:metrics", opened(), unix, opened(), opened())
    tcp, local = int(socket.AF_INET), int(socket.AF_UNIX)
    assert found == {
        "smtp": [[3, False, tcp], [5, False, tcp]],
        "http": [[4, False, local]],
        "metrics": [[6, False, tcp]],
    }
    assert left == []


def test_each_mistake_is_named(opened, tmp_path):
    unix = opened(socket.AF_UNIX, place=f"{tmp_path}/smtp.sock")
    datagrams = opened(kind=socket.SOCK_DGRAM, listen=False)
    with tempfile.TemporaryFile() as file:
        given = [opened(), unix, datagrams, opened(listen=False), file]
        said = passed("tmpmaild-smtp.socket:smtp:http:metrics:http", *given)
    assert said == [
        "passed socket 'tmpmaild-smtp.socket': expected FileDescriptorName= of its unit to be one of http, smtp, smtps, metrics",
        "passed socket 'smtp': expected TCP",
        "passed socket 'http': expected a stream socket that listens (ListenStream=, Accept=no)",
        "passed socket 'metrics': expected a stream socket that listens (ListenStream=, Accept=no)",
        "passed socket 'http': is not a socket",
    ]


def test_a_socket_without_a_name_is_a_mistake(opened):
    (line,) = passed("", opened())
    assert "''" in line
    assert "FileDescriptorName=" in line


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "smtp"},
        {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "0"},
        {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "x"},
    ],
)
def test_what_was_passed_to_another_process_or_to_nobody_is_left_alone(environ):
    assert take_passed(environ) == {}
    assert environ == {}
