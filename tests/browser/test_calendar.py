"""What the page says of a calendar: title, place, zone and times of its first event."""

import pytest

from modules import in_node
from tables import rows_of

pytestmark = pytest.mark.needs("node")
# Swedes write times as ISO 8601 does.
READ = """({ eventOf }, all) => all.map((calendar) => {
    const { title, where, zone, times } = eventOf(calendar);
    const said = ([ms, hasTime]) => new Date(ms).toLocaleString("sv").slice(0, hasTime ? 16 : 10);
    return [title, where, zone, ...times.map(said)];
})"""


def calendar(lines):
    return "\r\n".join(["BEGIN:VCALENDAR", "BEGIN:VEVENT", *lines, "END:VEVENT", "END:VCALENDAR", ""])


def test_of_a_calendar_is_read_what_its_first_event_says(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    rows = rows_of(__file__)["EVENTS"]
    found = in_node("calendar.js", READ, [calendar(lines) for lines, _ in rows])
    assert found == [expected for _, expected in rows]


def test_a_calendar_without_end_of_quotes_and_parameters_is_read_at_once():
    lines = [f"SUMMARY{';' * 30_000}", f"DTSTART;TZID={chr(34) * 30_001}", f"LOCATION{';a=' * 20_000}"]
    assert in_node("calendar.js", READ, [calendar(lines)]) == [["", "", ""]]
