"""The page's summary of a calendar: title, place, time zone and times of its first event."""

import pytest

from modules import in_node

pytestmark = pytest.mark.needs("node")
# The Swedish locale formats times as in ISO 8601.
READ = """({ eventOf }, all) => all.map((calendar) => {
    const { title, where, zone, times } = eventOf(calendar);
    const said = ([ms, hasTime]) => new Date(ms).toLocaleString("sv").slice(0, hasTime ? 16 : 10);
    return [title, where, zone, ...times.map(said)];
})"""


def calendar(lines):
    return "\r\n".join(["BEGIN:VCALENDAR", "BEGIN:VEVENT", *lines, "END:VEVENT", "END:VCALENDAR", ""])


@pytest.mark.parametrize(
    ("lines", "said"),  # the title, place, time zone and times
    [
        pytest.param(
            ["SUMMARY:Plain", "DTSTART:20261202T090000", "DTEND:20261202T093000"],
            ["Plain", "", "", "2026-12-02 09:00", "2026-12-02 09:30"],
            id="times without a zone",
        ),
        pytest.param(
            ["SUMMARY:UTC", "DTSTART:20261202T090000Z"], ["UTC", "", "", "2026-12-02 09:00"], id="time in UTC"
        ),
        pytest.param(
            ["SUMMARY:Zone", "DTSTART;TZID=Europe/Oslo:20261202T090000"],
            ["Zone", "", "Europe/Oslo", "2026-12-02 09:00"],
            id="zone",
        ),
        # Outlook's time zone names; a quoted parameter may contain a colon.
        pytest.param(
            [
                "SUMMARY:Outlook",
                'DTSTART;TZID="(UTC+01:00) Amsterdam, Berlin":20261202T090000',
                'DTEND;TZID="(UTC+01:00) Amsterdam, Berlin":20261202T100000',
            ],
            ["Outlook", "", "(UTC+01:00) Amsterdam, Berlin", "2026-12-02 09:00", "2026-12-02 10:00"],
            id="zone as Outlook names it",
        ),
        pytest.param(
            ['SUMMARY;ALTREP="https://a.example/1":Title: one', 'LOCATION;X="a;b":Room', "DTSTART:20261202T090000"],
            ["Title: one", "Room", "", "2026-12-02 09:00"],
            id="parameters in quotes",
        ),
        # The end of an all-day event is the day after its last day.
        pytest.param(
            ["SUMMARY:Day", "DTSTART;VALUE=DATE:20261231", "DTEND;VALUE=DATE:20270101"],
            ["Day", "", "", "2026-12-31", "2026-12-31"],
            id="whole day",
        ),
        pytest.param(
            ["SUMMARY:Days", "DTSTART;VALUE=DATE:20261230", "DTEND;VALUE=DATE:20270102"],
            ["Days", "", "", "2026-12-30", "2027-01-01"],
            id="whole days",
        ),
        pytest.param(
            ["SUMMARY:Design", "  review\\, part\\n2", "DTSTART:20261202T090000", "DTEND:soon"],
            ["Design review, part 2", "", "", "2026-12-02 09:00"],
            id="folded and escaped, and an end that is no time",
        ),
        pytest.param(["SUMMARY:Never", "DTSTART:20269902T090000"], ["Never", "", ""], id="begin that is no time"),
        pytest.param(
            ['SUMMARY;X="open:Title', "DTSTART:20261202T090000"],
            ["", "", "", "2026-12-02 09:00"],
            id="quote without end",
        ),
        pytest.param(
            ["SUMMARY:No time", "END:VEVENT", "BEGIN:VTIMEZONE", "DTSTART:19701025T030000"],
            ["No time", "", ""],
            id="time of another component",
        ),
        pytest.param(
            ["SUMMARY:Same", "DTSTART;VALUE=DATE:20261231", "DTEND;VALUE=DATE:20261231"],
            ["Same", "", "", "2026-12-31"],
            id="end before begin",
        ),
    ],
)
def test_a_calendar_is_summarised_by_its_first_event(lines, said, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    assert in_node("calendar.js", READ, [calendar(lines)]) == [said]


def test_a_calendar_with_endless_quotes_and_parameters_is_parsed_quickly():
    lines = [f"SUMMARY{';' * 30_000}", f"DTSTART;TZID={chr(34) * 30_001}", f"LOCATION{';a=' * 20_000}"]
    assert in_node("calendar.js", READ, [calendar(lines)]) == [["", "", ""]]
