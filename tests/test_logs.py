"""One line an event, as text or JSON, and nothing of the libraries' chatter."""

import json
import logging

import pytest

from tmpmaild.logs import logging_to_stderr


@pytest.fixture(autouse=True)
def _restore_logging():
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level


def test_json_lines_carry_the_exception(capsys):
    with logging_to_stderr("info", "json"):
        try:
            int("of ours")
        except ValueError:
            logging.getLogger("tmpmaild.x").exception("it %s", "failed")
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["logger"], line["message"]) == ("error", "tmpmaild.x", "it failed")
    assert line["time"].endswith("Z")
    assert "ValueError: invalid literal" in line["exception"]


def test_the_level_holds_and_libraries_are_quiet(capsys):
    with logging_to_stderr("info", "text"):
        logging.getLogger("tmpmaild.x").debug("unseen")
        logging.getLogger("mail.log").info("unseen")
        logging.getLogger("tmpmaild.x").info("seen")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("INFO tmpmaild.x: seen")
