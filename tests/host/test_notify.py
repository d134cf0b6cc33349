"""What systemd is told."""

import socket

import pytest

from tmpmaild.host.notify import more_time_to_start, notify


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


def test_a_long_start_asks_for_more_time_until_it_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr("tmpmaild.host.notify._ASK_EVERY_SECONDS", 0.001)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(f"{tmp_path}/notify")
        supervisor.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/notify")
        with more_time_to_start():
            heard = [supervisor.recv(100) for _ in range(3)]
        notify("READY=1")
        while heard[-1] != b"READY=1":
            heard.append(supervisor.recv(100))
    assert set(heard[:-1]) == {b"EXTEND_TIMEOUT_USEC=60000000"}


@pytest.mark.parametrize(
    "name", ["{folder}/nobody", "@{folder}/nobody", "{folder}/left", "{folder}/" + "x" * 200, "vsock:2:1"]
)
def test_a_supervisor_that_cannot_be_reached_is_logged_and_nothing_more(tmp_path, monkeypatch, caplog, name):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as gone:
        gone.bind(f"{tmp_path}/left")
    monkeypatch.setenv("NOTIFY_SOCKET", name.format(folder=tmp_path))
    notify("READY=1")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "READY=1" in record.getMessage()
