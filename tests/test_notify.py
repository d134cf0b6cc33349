"""What systemd is told."""

import socket

import pytest

from tmpmaild.notify import notify


@pytest.mark.parametrize("abstract", [False, True])
def test_the_supervisor_hears_the_state(tmp_path, monkeypatch, abstract):
    name = f"\0{tmp_path}/notify" if abstract else f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(name)
        monkeypatch.setenv("NOTIFY_SOCKET", name.replace("\0", "@"))
        notify("READY=1")
        assert supervisor.recv(100) == b"READY=1"


def test_without_a_supervisor_nothing_happens(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
