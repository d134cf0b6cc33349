"""Reloads run one at a time; each mistake is logged on its own line and reported to the command that requested it."""

import asyncio
import logging
import socket
from contextlib import suppress

import pytest

from tmpmaild.errors import StartError
from tmpmaild.host import process
from tmpmaild.host.control import NoArguments
from tmpmaild.host.process import Outcome, Reloaded, Reloading


async def reloads(monkeypatch, pause_seconds, *signals, fails=False):
    """Return, for each reload, whether a further reload had already been requested when it started.

    ``signals`` contains the number of signals that arrive during each reload; its last number applies to all later
    reloads.
    """
    monkeypatch.setattr(process, "_PAUSE_SECONDS", pause_seconds)
    wanted, begun = asyncio.Event(), []

    async def reload():
        begun.append(wanted.is_set())
        for _ in range(signals[min(len(begun), len(signals)) - 1]):
            wanted.set()
            await asyncio.sleep(0)
        if fails:
            raise RuntimeError("ours")
        return Outcome("all of it", [])

    wanted.set()
    task = asyncio.create_task(Reloading(reload).reload_when(wanted))
    for _ in range(50):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return begun


async def test_signals_during_a_reload_cause_one_more_reload(monkeypatch):
    assert await reloads(monkeypatch, 0, 3, 0) == [False, False]


async def test_after_a_reload_there_is_a_pause_before_the_next(monkeypatch):
    assert await reloads(monkeypatch, process._PAUSE_SECONDS, 1) == [False]


async def test_an_internal_error_is_logged_and_the_next_signal_still_reloads(caplog, monkeypatch):
    assert len(await reloads(monkeypatch, 0, 1, fails=True)) > 1
    assert caplog.records[0].getMessage() == "reloading failed"


async def test_keys_that_need_a_restart_are_returned_and_logged(caplog):
    async def reload():
        return Outcome("all of it", ["http.listen", "smtp.listen"])

    caplog.set_level(logging.INFO)
    answers = [one async for one in Reloading(reload).commands()["reload"].run(NoArguments())]
    assert answers == [Reloaded(["http.listen", "smtp.listen"])]
    assert [record.getMessage() for record in caplog.records] == [
        "reloaded: all of it",
        "changed, but takes effect only after a restart: http.listen, smtp.listen",
    ]


async def test_each_mistake_is_a_log_line_and_the_command_fails(caplog):
    async def reload():
        raise StartError("one\nanother")

    with pytest.raises(StartError, match="one\nanother"):
        [one async for one in Reloading(reload).commands()["reload"].run(NoArguments())]
    assert [record.getMessage() for record in caplog.records] == [
        "the configuration is unchanged: one",
        "the configuration is unchanged: another",
    ]


async def test_systemctl_status_shows_keys_that_need_a_restart_and_mistakes(tmp_path, monkeypatch):
    outcomes = [["storage.path", "http.listen"], StartError("one"), StartError("one\nanother\nthird"), []]

    async def reload():
        outcome = outcomes.pop(0)
        if isinstance(outcome, StartError):
            raise outcome
        return Outcome("all of it", outcome)

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(f"{tmp_path}/notify")
        supervisor.settimeout(0)
        monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/notify")
        reloading = Reloading(reload)
        while outcomes:
            with suppress(StartError):
                [one async for one in reloading.commands()["reload"].run(NoArguments())]
        assert [supervisor.recv(200).decode() for _ in range(4)] == [
            "STATUS=changed, but takes effect only after a restart: storage.path, http.listen",
            "STATUS=the configuration is unchanged: one",
            "STATUS=the configuration is unchanged: one (and 2 more; see the log)",
            "STATUS=",
        ]
