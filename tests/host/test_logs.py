"""One line per event, as text or JSON, without noise from libraries."""

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.cli.configured import clear_errors
from tmpmaild.cli.serving import _announcer
from tmpmaild.config.settings import Config, Log
from tmpmaild.errors import StartError
from tmpmaild.host.logs import logging_to_stderr

LOG = logging.getLogger("tmpmaild.x")


@pytest.fixture(autouse=True)
def _restore_logging():
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level


def test_json_lines_carry_the_exception(capfd):
    with logging_to_stderr("info", "json"):
        try:
            int("of ours")
        except ValueError:
            LOG.exception("it %s", "failed")
    line = json.loads(capfd.readouterr().err)
    assert (line["level"], line["logger"], line["message"]) == ("error", "tmpmaild.x", "it failed")
    assert line["time"].endswith("Z")
    assert "ValueError: invalid literal" in line["exception"]


@pytest.mark.parametrize("form", ["json", "text"])
def test_non_unicode_text_is_written_too(capfd, form):
    with logging_to_stderr("info", form):
        LOG.error("%s: gone", "/srv/\udcff", exc_info=ValueError("\udcfe"))
    said = capfd.readouterr().err
    assert "gone" in said
    assert "udcff" in said
    assert "udcfe" in said
    assert "dropped" not in said


def journal(monkeypatch, descriptor):
    found = os.fstat(descriptor)
    monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")


@pytest.mark.parametrize(("form", "begin"), [("text", "ERROR tmpmaild.x: gone"), ("json", "{")])
def test_journal_lines_have_a_priority_and_text_lines_have_no_time(capfd, monkeypatch, form, begin):
    journal(monkeypatch, 2)
    with logging_to_stderr("info", form):
        LOG.info("fine")
        LOG.warning("odd")
        LOG.error("gone", exc_info=ValueError("why"))
    lines = capfd.readouterr().err.splitlines()
    assert [line[:3] for line in lines[:3]] == ["<6>", "<4>", "<3>"]
    assert {line[:3] for line in lines[2:]} == {"<3>"}
    assert lines[2].startswith(f"<3>{begin}")


def test_an_error_that_ends_a_command_has_its_priority_in_the_journal(capfd, monkeypatch):
    @clear_errors
    def fail():
        raise StartError("one\ntwo")

    for lines in ("tmpmaild: one\ntmpmaild: two\n", "<3>tmpmaild: one\n<3>tmpmaild: two\n"):
        with pytest.raises(SystemExit):
            fail()
        assert capfd.readouterr().err == lines
        journal(monkeypatch, 2)


def test_the_banner_is_neither_for_the_journal_nor_among_json(capfd, monkeypatch):
    places = (["127.0.0.1:8025"], ["127.0.0.1:1025"], [])
    _announcer(Config())(*places)
    assert "HTTP on 127.0.0.1:8025" in capfd.readouterr().out
    _announcer(Config(log=Log(format="json")))(*places)
    journal(monkeypatch, 1)
    _announcer(Config())(*places)
    assert capfd.readouterr().out == ""


def test_a_queued_record_keeps_no_stack_frames():
    with logging_to_stderr("info", "text"):
        (handler,) = logging.getLogger().handlers
        try:
            int("of ours")
        except ValueError as error:
            what = (type(error), error, error.__traceback__)
            record = logging.LogRecord("x", logging.ERROR, "x", 1, "it failed", (), what)
        handler.handle(record)
    assert record.exc_info is None
    assert "ValueError: invalid literal" in record.exc_text


def test_the_level_applies_and_libraries_are_quiet(capfd):
    with logging_to_stderr("info", "text"):
        LOG.debug("unseen")
        logging.getLogger("mail.log").info("unseen")
        LOG.info("seen")
    (line,) = capfd.readouterr().err.splitlines()
    assert line.endswith("INFO tmpmaild.x: seen")


def test_a_repeated_event_is_logged_once_and_counted(capfd):
    with logging_to_stderr("info", "json"):
        for _ in range(3):
            LOG.info("refused: %s", "192.0.2.1")
    first, last = map(json.loads, capfd.readouterr().err.splitlines())
    assert (first["message"], first.get("repeated")) == ("refused: 192.0.2.1", None)
    assert (last["message"], last["repeated"]) == ("refused: 192.0.2.1 (2 more times within a minute)", 2)


PROGRAM = Path(__file__).with_name("logs_program.py")


@pytest.fixture
def talkative():
    """Start a process that fills a pipe with log lines, prints how many lines are waiting, and exits on input."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, PROGRAM], **pipes, text=True) as process:
        yield process
        process.kill()


def test_lines_that_standard_error_does_not_accept_are_dropped_and_counted(talkative):
    assert int(talkative.stdout.readline()) <= 5000
    _, said = talkative.communicate("read\n", timeout=PATIENCE_SECONDS)
    kept = [line for line in said.splitlines() if " INFO tmpmaild.access: line " in line]
    told = re.findall(r"WARNING tmpmaild.host.logs: (\d+) lines? of the log w(?:as|ere) dropped", said)
    assert 5000 <= len(kept) < 30_000
    assert sum(map(int, told)) == 30_000 - len(kept)


def test_an_unread_standard_error_does_not_delay_the_exit(talkative):
    talkative.stdout.readline()
    talkative.stdin.write("\n")
    talkative.stdin.close()
    assert talkative.wait(PATIENCE_SECONDS) == 0


def test_a_closed_standard_error_does_no_harm():
    command = ["sh", "-c", 'exec "$0" "$1" 2>&-', sys.executable, PROGRAM]
    subprocess.run(command, input="\n", stdout=subprocess.PIPE, text=True, timeout=PATIENCE_SECONDS, check=True)


def test_a_faulty_log_call_does_not_stop_the_log(capfd):
    with logging_to_stderr("info", "text"):
        LOG.info("%d", "no number")
        LOG.info("seen")
    err = capfd.readouterr().err
    assert "INFO tmpmaild.x: seen" in err
    assert "1 line of the log was dropped" in err
