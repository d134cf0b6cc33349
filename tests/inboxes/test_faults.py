"""Faults in memory: the order in which they occur, which faults are allowed, and when they are discarded."""

import pytest
from msgspec.structs import replace

from tmpmaild.errors import InvalidRequest
from tmpmaild.inboxes import faults as faults_module
from tmpmaild.inboxes.faults import Fault, Faults, Refusals
from tmpmaild.model import ExpiryMoved, InboxChange, InboxDeleted, MessageDeleted

from .conftest import INBOX as ADA

BOB = replace(ADA, id="8", address="bob@mail.example.com")
TWICE = Fault("rcpt", "451 4.7.1 Greylisted", times=2)
THEN = Fault("rcpt", "550 5.1.1 No")
SLOW = Fault("end", delay_seconds=3)


@pytest.fixture
def faults():
    return Faults(allowed=True)


def test_faults_are_used_up_in_their_order_step_by_step(faults):
    faults.order(ADA, [TWICE, SLOW, THEN])
    assert [faults.take(["7"], "rcpt") for _ in range(2)] == [TWICE, replace(TWICE, times=1)]
    assert faults.remaining("7") == (SLOW, THEN)
    assert (faults.has(["7"], "data"), faults.take(["7"], "data")) == (False, None)
    assert [faults.take(["7"], step) for step in ("rcpt", "rcpt", "end", "end")] == [THEN, None, SLOW, None]
    assert (faults.remaining("7"), len(faults)) == ((), 0)


def test_the_first_recipient_with_a_fault_decides_and_new_faults_replace_the_old_ones(faults):
    faults.order(ADA, [SLOW])
    faults.order(BOB, [replace(SLOW, delay_seconds=9)])
    assert faults.take(["5", "8", "7"], "end").delay_seconds == 9
    assert (faults.remaining("8"), faults.remaining("7")) == ((), (SLOW,))
    faults.order(ADA, [TWICE])
    faults.order(ADA, [SLOW])
    assert faults.remaining("7") == (SLOW,)
    faults.order(ADA, [])
    assert len(faults) == 0


@pytest.mark.parametrize(
    ("allowed", "ordered", "mistake"),
    [
        (False, [TWICE], ("/faults", "expected no faults: this server does not allow them (smtp.faults)")),
        (True, [TWICE, Fault("end")], ("/faults/1", "expected a reply, a delay or both")),
        (False, [], None),
        (True, [TWICE, SLOW], None),
    ],
)
def test_faults_that_cannot_be_ordered_are_reported(allowed, ordered, mistake):
    found = []
    try:
        Faults(allowed=allowed).ensure_possible(ordered)
    except InvalidRequest as error:
        found = list(error.errors)
    assert found == ([mistake] if mistake else [])


def test_the_number_of_addresses_with_faults_is_limited(faults, monkeypatch):
    monkeypatch.setattr(faults_module, "_MAX_INBOXES", 2)
    faults.order(ADA, [SLOW])
    faults.ensure_possible([SLOW])
    faults.order(BOB, [SLOW])
    with pytest.raises(InvalidRequest, match="2 addresses already have faults"):
        faults.ensure_possible([SLOW])
    faults.ensure_possible([SLOW], BOB.id)  # the new faults replace the current faults of this inbox
    faults.ensure_possible([])


def test_faults_end_with_their_inbox_and_when_they_are_no_longer_allowed(faults):
    faults.order(ADA, [SLOW])
    faults.order(BOB, [SLOW])
    faults.update([InboxChange("7", full=False, notice=MessageDeleted("msg_1"))])
    faults.update([InboxChange("7", full=False, notice=ExpiryMoved(500)), InboxChange("5", full=False)])
    faults.forget_expired(500)
    assert (faults.remaining("7"), faults.remaining("8")) == ((), (SLOW,))
    faults.update([InboxChange("8", full=False, notice=InboxDeleted())])
    assert len(faults) == 0
    faults.order(ADA, [SLOW])
    faults.allow(allowed=False)
    assert len(faults) == 0
    faults.order(ADA, [SLOW])
    assert len(faults) == 0


def test_a_refusal_is_kept_for_an_hour(clock):
    refusals = Refusals(clock, wanted=True)
    refusals.add("192.0.2.1", "RCPT TO:<ada@mail.example.com>", "550 5.1.1 No such address here")
    clock.advance(seconds=1)
    refusals.add("192.0.2.2", "", "")
    clock.advance(seconds=3599)
    refusals.forget_expired(clock())
    assert [one.client for one in refusals.newest()] == ["192.0.2.2"]
