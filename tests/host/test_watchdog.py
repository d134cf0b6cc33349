"""What systemd's watchdog hears of the event loop."""

import asyncio
import os
import socket

import pytest

from tmpmaild.host.watchdog import interval_seconds, keep_alive


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "60000000"}, 30),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 30),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, 0),
        ({"WATCHDOG_USEC": "0"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
    ],
)
def test_reports_come_twice_as_often_as_asked_for(environ, seconds):
    assert interval_seconds(environ) == seconds


def hear_on(supervisor):
    while supervisor.recv(100):
        pass


async def test_reports_come_from_the_loop_and_stop_when_it_is_stuck(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(f"{tmp_path}/notify")
        supervisor.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/notify")
        reporting = asyncio.create_task(keep_alive({"WATCHDOG_USEC": "20000"}))
        for _ in range(3):
            assert await asyncio.to_thread(supervisor.recv, 100) == b"WATCHDOG=1"
        supervisor.settimeout(0.2)
        with pytest.raises(TimeoutError):
            hear_on(supervisor)  # in the loop, which therefore stands still
        supervisor.settimeout(30)
        assert await asyncio.to_thread(supervisor.recv, 100) == b"WATCHDOG=1"
        reporting.cancel()


async def test_a_supervisor_that_takes_nothing_more_does_not_hold_the_loop(tmp_path, monkeypatch, caplog):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(f"{tmp_path}/notify")
        monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/notify")
        reporting = asyncio.create_task(keep_alive({"WATCHDOG_USEC": "2"}))
        async with asyncio.timeout(30):
            while not caplog.records:
                await asyncio.sleep(0)
        reporting.cancel()
        assert "cannot be told WATCHDOG=1" in caplog.text
