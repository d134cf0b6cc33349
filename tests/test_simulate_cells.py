"""The simulation of a lost cell: no mail disappears, and the same figures come each time; the documentation has them."""

from pathlib import Path

import pytest

from simulate_cells import BUSY, CPU_SECONDS, Scenario, report, simulate, table

SCALE = 100  # at a coarser one each mail takes so long that chance alone makes a cell too busy
SCALING = (Path(__file__).parents[1] / "docs/scaling.md").read_text()


def outage(minutes, scale=SCALE, **more):
    return simulate(Scenario(outage_seconds=60 * minutes, scale=scale, **more))


def test_the_same_figures_come_each_time():
    assert outage(30) == outage(30)
    assert outage(30) != outage(30, seed=2)


@pytest.mark.parametrize("until_seconds", [600, 2000, float("inf")])
def test_each_mail_is_delivered_or_refused_or_still_with_its_sender(until_seconds):
    result = outage(30, until_seconds=until_seconds)
    assert result.offered == result.delivered + result.refused + result.queued
    assert (result.queued == 0) == (until_seconds == float("inf"))
    assert len(result.delays_seconds) <= result.delivered


def test_without_an_outage_no_mail_is_late():
    result = outage(0)
    assert result.delivered == result.offered > 0
    assert (result.deferred, result.delays_seconds) == (0, [])


def test_the_longer_the_outage_the_more_mails_are_deferred_and_refused():
    results = [outage(minutes) for minutes in (0, 5, 15, 30, 60)]
    deferred, refused = [one.deferred for one in results], [one.refused for one in results]
    assert deferred == sorted(set(deferred))
    assert refused == sorted(refused)
    assert refused[-1] > refused[1]


def test_an_address_that_was_there_when_the_cell_was_lost_for_an_hour_gets_nothing():
    result = outage(61, scale=50)
    assert result.deferred == result.refused > 0


def test_cells_that_get_more_than_they_can_do_defer_mail_and_lose_none():
    result = outage(0, mails_a_second=3 * 2 * BUSY * 1.5 / CPU_SECONDS, offered_seconds=3600)
    assert result.deferred > 0
    assert result.offered == result.delivered + result.refused


@pytest.mark.parametrize("made", [report, table])
def test_the_documentation_has_the_figures(made):
    assert made() in SCALING
