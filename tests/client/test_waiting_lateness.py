"""How late a wait may end, and which timeouts are none."""

import socket
import time
from datetime import UTC, datetime
from math import inf, nan

import pytest

from tmpmaild import client as api
from tmpmaild.client.models import Address
from tmpmaild.client.remote import Filter, RemoteInbox, RemoteService
from tmpmaild.client.transport import Reply
from tmpmaild.client.waiting import MAIL, Waiting


@pytest.mark.parametrize(("left_seconds", "longest_seconds"), [(0, 1), (0.3, 1.3), (7, 8), (60, 55), (inf, 55)])
def test_a_server_that_says_nothing_is_not_listened_to_for_much_longer_than_the_time(left_seconds, longest_seconds):
    service = RemoteService("http://a.test", clock=lambda: 0.0, wait_out_rate_limit=False)
    inbox = RemoteInbox(service, Address("x@a.test", datetime.now(UTC)), None)
    ask = next(Waiting(inbox, Filter(), MAIL, left_seconds).steps())
    assert ask.request.read_seconds == longest_seconds


@pytest.fixture
def silent():
    """Name a place where connections are taken and never answered."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def full():
    """Name a place where no more connections are taken, and none is refused."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, socket.create_connection(server.getsockname()):
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def moved(inbox, url):
    """Have an inbox at another place."""
    inbox._remote.service.url = url
    return inbox


@pytest.mark.parametrize("place", ["silent", "full"])
def test_a_server_that_hangs_makes_a_wait_a_second_late_at_most(inbox, request, place):
    inbox = moved(inbox, request.getfixturevalue(place))
    begun = time.monotonic()
    with pytest.raises((api.WaitTimeout, api.ServiceUnreachable), match="within 1 s"):
        inbox.wait_for(subject="x", timeout=0)
    assert 0.9 < time.monotonic() - begun < 50  # no server that hangs is listened to for less than 55 s otherwise


def test_what_came_instead_is_asked_for_within_the_same_second():
    seconds = [0.0]
    service = RemoteService("http://a.test", clock=lambda: seconds[0], wait_out_rate_limit=False)
    inbox = RemoteInbox(service, Address("x@a.test", datetime.now(UTC)), None)
    steps = Waiting(inbox, Filter(subject="x"), MAIL, 1).steps()
    nothing = Reply(next(steps).request, 200, {}, b'{"messages": []}')
    seconds[0] = 1.25
    assert steps.send(nothing).request.read_seconds == 0.75


@pytest.mark.parametrize("call", ["wait_for", "wait_for_code", "wait_for_link"])
def test_a_timeout_that_is_no_number_is_refused(scripted_inbox, scripted, call):
    with pytest.raises(ValueError, match="a timeout is a number of seconds, not nan"):
        getattr(scripted_inbox, call)(timeout=nan)
    assert scripted.asked == []


def test_a_timeout_that_is_over_before_it_begins_is_one_look(scripted_inbox, scripted):
    scripted.say(scripted.messages())
    with pytest.raises(api.WaitTimeout):
        scripted_inbox.wait_for(timeout=-5)
    assert len(scripted.asked) == 1
