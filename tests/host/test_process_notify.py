"""Notifications to systemd."""

import asyncio
import os
import socket

import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.host.process import interval_seconds, keep_alive, more_time_to_start, notify


@pytest.fixture
def supervisor(request, tmp_path, monkeypatch):
    name = getattr(request, "param", "") + f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name.replace("@", "\0"))
        listening.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield listening


@pytest.mark.parametrize("supervisor", ["", "@"], indirect=True)
def test_the_supervisor_is_notified_of_the_state(supervisor):
    notify("READY=1")
    assert supervisor.recv(100) == b"READY=1"


def test_without_a_supervisor_nothing_happens(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")


def test_a_long_start_requests_more_time_until_it_is_complete(supervisor, monkeypatch):
    monkeypatch.setattr("tmpmaild.host.process._EXTEND_EVERY_SECONDS", 0.001)
    with more_time_to_start():
        heard = [supervisor.recv(100) for _ in range(3)]
    notify("READY=1")
    while heard[-1] != b"READY=1":
        heard.append(supervisor.recv(100))
    assert set(heard[:-1]) == {b"EXTEND_TIMEOUT_USEC=60000000"}


@pytest.mark.parametrize(
    "name", ["{folder}/nobody", "@{folder}/nobody", "{folder}/left", "{folder}/" + "x" * 200, "vsock:2:1"]
)
def test_an_unreachable_supervisor_is_only_logged(tmp_path, monkeypatch, caplog, name):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as gone:
        gone.bind(f"{tmp_path}/left")
    monkeypatch.setenv("NOTIFY_SOCKET", name.format(folder=tmp_path))
    notify("READY=1")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "READY=1" in record.getMessage()


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "60000000"}, 30),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, 0),
        ({"WATCHDOG_USEC": "0"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 30),
    ],
)
def test_reports_are_sent_twice_as_often_as_required(environ, seconds):
    assert interval_seconds(environ) == seconds


def hear_on(supervisor):
    while supervisor.recv(100):
        pass


async def test_reports_are_sent_by_the_event_loop_and_stop_when_it_is_stuck(supervisor):
    reporting = asyncio.create_task(keep_alive({"WATCHDOG_USEC": "20000"}))
    for _ in range(3):
        assert await asyncio.to_thread(supervisor.recv, 100) == b"WATCHDOG=1"
    supervisor.settimeout(0.2)
    with pytest.raises(TimeoutError):
        hear_on(supervisor)  # this call blocks the event loop
    supervisor.settimeout(30)
    assert await asyncio.to_thread(supervisor.recv, 100) == b"WATCHDOG=1"
    reporting.cancel()


@pytest.mark.usefixtures("supervisor")
async def test_a_supervisor_that_stops_reading_does_not_block_the_event_loop(caplog):
    reporting = asyncio.create_task(keep_alive({"WATCHDOG_USEC": "2"}))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not caplog.records:
            await asyncio.sleep(0)
    reporting.cancel()
    assert "cannot send WATCHDOG=1" in caplog.text
