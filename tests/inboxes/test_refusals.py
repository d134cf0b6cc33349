"""Refusals that are kept for testers."""

from tmpmaild.inboxes.faults import Refusals


def test_a_refusal_is_kept_for_an_hour(clock):
    refusals = Refusals(clock, wanted=True)
    refusals.add("192.0.2.1", "RCPT TO:<ada@mail.example.com>", "550 5.1.1 No such address here")
    clock.advance(seconds=1)
    refusals.add("192.0.2.2", "", "")
    clock.advance(seconds=3599)
    refusals.forget_expired(clock())
    assert [one.client for one in refusals.newest()] == ["192.0.2.2"]
