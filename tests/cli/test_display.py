"""An address's events other than messages, in each output format."""

import json
from datetime import UTC, datetime

import pytest

from tmpmaild.cli.display import JsonLines, PlainLines, Terminal
from tmpmaild.client import Deleted, Expired, Extended

LATER = datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC)
EVENTS = [Extended(LATER), Deleted("msg_1"), Deleted(), Expired()]


def shown(display, capsys):
    """Return the lines, without the countdown that is erased before each line."""
    for event in EVENTS:
        display.show(event)
    return [line.rpartition("\x1b[K")[2] for line in capsys.readouterr().out.rstrip("\n").split("\n")]


def test_json_output_has_one_object_for_each_event(capsys):
    assert [json.loads(line) for line in shown(JsonLines(), capsys)] == [
        {"event": "extended", "expires_at": "2038-01-19T03:14:07.000Z"},
        {"event": "deleted", "id": "msg_1"},
        {"event": "deleted"},
        {"event": "expired"},
    ]


@pytest.mark.parametrize(("display", "extended"), [(PlainLines, "Expires: 2038-01-19"), (Terminal, "Now expires at ")])
def test_plain_output_consists_of_sentences(display, extended, capsys):
    first, *others = shown(display(), capsys)
    assert first.startswith(extended)
    assert others == ["A message was deleted: msg_1", "The address was deleted", "The address expired"]
