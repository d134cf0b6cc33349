"""Waiting for messages: with the real service, and through servers and proxies that do not wait.

The tests also cover the latest time at which a wait may end.
"""

import asyncio
import json
import pickle
import socket
import time
from datetime import UTC, datetime
from math import inf, nan

import pytest

from daemons import wait_until
from tmpmaild import client as api
from tmpmaild.client.models import Address
from tmpmaild.client.remote import Filter, RemoteInbox, RemoteService
from tmpmaild.client.transport import Reply
from tmpmaild.client.waiting import MAIL, Waiting
from tmpmaild.http.problems import PROBLEMS

CODE = b"From: shop@shop.example\r\nSubject: Confirm\r\n\r\nYour verification code is 481516\r\n"
FIRST, SECOND, THIRD = (f"msg_01m7y0sgyf00000000000000{number:02}" for number in (1, 2, 3))


def test_a_new_message_ends_a_wait(inbox, service, at_once):
    with service.listening():
        found = at_once(inbox.wait_for, timeout=20)
    sent = service.deliver(inbox.address)
    assert found.result(5).id == sent
    service.deliver(inbox.address)
    assert inbox.wait_for().id == inbox.wait_for(timeout=0).id == sent  # a message that has already arrived counts


def test_only_a_matching_message_ends_a_wait(inbox, service, at_once):
    before = service.deliver(inbox.address, CODE)
    with service.listening():
        found = at_once(inbox.wait_for, sender="SHOP", subject="confirm", after=before, timeout=20)
    service.deliver(inbox.address)
    service.deliver(inbox.address, b"From: other@example.org\r\nSubject: Confirm\r\n\r\n")
    sent = service.deliver(inbox.address, CODE)
    assert found.result(5).id == sent


def test_a_message_without_a_code_does_not_end_a_wait_for_a_code(inbox, service, at_once):
    service.deliver(inbox.address)
    with service.listening():
        code = at_once(inbox.wait_for_code, timeout=20)
    service.deliver(inbox.address)
    service.deliver(inbox.address, CODE)
    assert code.result(5) == "481516"


def test_a_message_without_a_link_does_not_end_a_wait_for_a_link(scripted_inbox, scripted):
    links = [{"href": "https://a.test/?x=1&y", "confidence": 0.8}, {"href": "https://b.test"}]
    scripted.say(scripted.messages(FIRST), scripted.messages(SECOND, links=links))
    assert scripted_inbox.wait_for_link() == "https://a.test/?x=1&y"


def test_expiry_ends_a_wait(client, service, at_once):
    inbox = client.create()
    service.clock.now_ms += 3_600_000 - 30
    with service.listening():
        found = at_once(inbox.wait_for, timeout=20)
    service.clock.now_ms += 30
    with pytest.raises(api.AddressExpired):
        found.result(5)


def test_an_unsuccessful_wait_lists_the_other_messages(inbox, service):
    service.deliver(inbox.address, b"From: a@shop.example\r\nSubject: \x1b[31mSale\xc2\x9b\r\n\r\n481516\r\n")
    service.deliver(inbox.address, b"\r\n", sender="")
    with pytest.raises(TimeoutError) as late:
        inbox.wait_for(subject="confirm", sender="bank", timeout=0)
    first, *lines = str(late.value).splitlines()
    assert first == (
        f"no message with subject 'confirm' and sender 'bank' arrived at {inbox.address} within 0 s; what arrived:"
    )
    assert [line.split("  ")[2:] for line in lines] == [
        ["a@shop.example", "\ufffd[31mSale\ufffd"],
        ["lacks subject 'confirm' and sender 'bank'"],
        ["unknown sender", "(no subject)"],
        ["lacks subject 'confirm' and sender 'bank'"],
    ]
    assert isinstance(late.value, api.WaitTimeout)
    assert [message.sender for message in late.value.arrived] == ["a@shop.example", ""]
    again = pickle.loads(pickle.dumps(late.value))
    assert (str(again), again.arrived) == (str(late.value), late.value.arrived)


def test_the_error_of_a_wait_after_a_message_mentions_it(inbox, service):
    service.deliver(inbox.address)
    first = inbox.wait_for(timeout=0)
    with pytest.raises(api.WaitTimeout) as late:
        inbox.wait_for(subject="no", after=first, timeout=0)
    assert str(late.value) == (
        f"no message with subject 'no' arrived at {inbox.address} after {first.id} within 0 s; no other message did after it"
    )
    service.deliver(inbox.address)
    with pytest.raises(api.WaitTimeout, match=r"; what arrived after it:\n.*hello\n    lacks subject 'no'$") as late:
        inbox.wait_for(subject="no", after=first, timeout=0)
    assert len(late.value.arrived) == 1


def test_the_wanted_message_is_described_in_one_line_of_limited_length(inbox):
    with pytest.raises(api.WaitTimeout, match=r"^no message with subject 'xx") as late:
        inbox.wait_for(subject="x" * 3000, timeout=0)
    assert len(str(late.value)) < 400


def test_the_real_service_keeps_a_wait_open_until_its_end(inbox):
    with pytest.raises(api.WaitTimeout):
        inbox.wait_for(timeout=0.9)


def test_a_cancelled_wait_leaves_nothing_behind(connect_async, url, service, portal):
    inbox = portal.call(connect_async(url).create)
    before = service.listeners()
    with service.listening():
        wait = portal.start_task_soon(inbox.wait_for)
    wait.cancel()
    wait_until(lambda: service.listeners() == before)


def waiting_server(scripted, fake_time, arrives_after=None):
    """Respond like a server that waits: after the requested time, or when the message arrives."""
    begun = fake_time()

    def answer(asked):
        due = begun + arrives_after - fake_time() if arrives_after is not None else 1e9
        wait = int(asked.query.get("wait", 0))
        fake_time.seconds += max(min(due, wait), 0)
        return scripted.messages(FIRST) if due <= wait else scripted.messages()

    return answer


def test_a_long_wait_consists_of_several_requests(scripted_inbox, scripted, fake_time):
    scripted.answer = waiting_server(scripted, fake_time, arrives_after=110)
    assert scripted_inbox.wait_for(timeout=120).id == FIRST
    assert [asked.query["wait"] for asked in scripted.asked] == ["50", "50", "20"]
    assert fake_time.slept == []


def test_a_check_without_a_wait_continues_after_empty_pages(scripted_inbox, scripted):
    link = f'Link: </api/v1/addresses/x@a.test/messages?has=code&after={SECOND}>; rel="next"'
    scripted.say(scripted.messages(headers=[link]), scripted.messages(THIRD, codes=[{"value": "481516"}]))
    assert scripted_inbox.wait_for(has="code", timeout=0).id == THIRD
    assert [asked.query.get("after") for asked in scripted.asked] == [None, SECOND]


@pytest.mark.parametrize(
    ("call", "asked", "wanted"),
    [
        ("wait_for_code", {}, "code"),
        ("wait_for_code", {"pattern": r"\d+"}, None),
        ("wait_for_link", {"has": "link"}, "link"),
        ("wait_for", {}, None),
    ],
)
def test_the_client_requests_only_messages_with_a_code_or_a_link(scripted_inbox, scripted, call, asked, wanted):
    links = [{"href": "https://a.test/", "confidence": 0.8}]
    scripted.say(scripted.messages(FIRST, codes=[{"value": "481516"}], links=links, body="481516"))
    getattr(scripted_inbox, call)(**asked)
    assert scripted.asked[0].query.get("has") == wanted


def test_an_unsuccessful_wait_for_a_code_lists_the_messages_without_a_code(scripted_inbox, scripted):
    scripted.answer = lambda asked: scripted.messages(*([] if "has" in asked.query else [FIRST]))
    with pytest.raises(api.WaitTimeout, match=r"no message with a code arrived at .*; what arrived:\n"):
        scripted_inbox.wait_for_code(timeout=0)


def test_the_reason_given_by_the_service_is_reported(scripted_inbox, scripted, fake_time):
    scripted.say(scripted.json(json.dumps({"messages": [], "reason": "no message arrived; refused: \x1b"}).encode()))
    with pytest.raises(api.WaitTimeout, match=r"within 2\.5 s; no message arrived; refused: \ufffd$"):
        scripted_inbox.wait_for_code(timeout=2.5)
    assert {("wait" in asked.query, asked.query.get("explain")) for asked in scripted.asked} == {
        (True, "true"),
        (False, None),
    }


def test_a_message_without_the_wanted_part_is_not_reported_as_no_message(scripted_inbox, scripted, fake_time):
    """The service's reason refers to the last request, which only covered the time after that message."""
    links = [{"href": "https://shop.example/help", "confidence": 0.1}]
    nothing = {"messages": [], "reason": "no message arrived, and none was refused: does your application send here?"}
    scripted.say(
        scripted.messages(FIRST, subject="Welcome", codes=[{"value": "481516"}], links=links),
        scripted.json(json.dumps(nothing).encode()),
    )
    with pytest.raises(api.WaitTimeout) as late:
        scripted_inbox.wait_for_link(subject="welcome", url="/confirm", timeout=2)
    text = str(late.value)
    assert text.startswith("no message with subject 'welcome' and a link with URL '/confirm' arrived at ")
    assert "no message arrived" not in text
    assert "does your application send here" not in text
    assert "    lacks a link with URL '/confirm'\n    codes: 481516\n    links: https://shop.example/help (0.1)" in text


def test_a_refusal_is_reported_even_if_a_message_arrived(scripted_inbox, scripted, fake_time):
    nothing = {
        "messages": [],
        "reason": "no message arrived; refused: RCPT TO:<x@y.example>: 550 5.7.1 Relaying denied",
    }
    scripted.say(scripted.messages(FIRST), scripted.json(json.dumps(nothing).encode()))
    with pytest.raises(
        api.WaitTimeout, match=r"; refused: RCPT TO:<x@y\.example>: 550 5\.7\.1 Relaying denied; what arrived"
    ):
        scripted_inbox.wait_for_code(timeout=2)


def in_a_task(wait):
    async def task():
        wait()

    asyncio.run(task())


def in_a_callback(wait):
    """Call a function as Playwright's synchronous API calls a test: in a running event loop, but outside any task."""
    loop = asyncio.new_event_loop()
    loop.call_soon(wait)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()


def in_a_thread(wait):
    asyncio.run(asyncio.to_thread(wait))


@pytest.mark.parametrize(("calls", "is_blocking"), [(in_a_task, True), (in_a_callback, False), (in_a_thread, False)])
def test_the_error_of_a_wait_explains_if_it_blocked_a_tests_event_loop(scripted, http, fake_time, calls, is_blocking):
    question = "no message arrived, and none was refused: does your application send to SMTP on 127.0.0.1:25?"
    scripted.say(scripted.address())
    inbox = api.Client(scripted.url, http=http, clock=fake_time, sleep=fake_time.sleep).inbox("x@a.test")
    scripted.say(scripted.json(json.dumps({"messages": [], "reason": question}).encode()))
    said = []

    def wait():
        with pytest.raises(api.WaitTimeout) as ended:
            inbox.wait_for(timeout=2.5)
        said.append(str(ended.value))

    calls(wait)
    assert ("blocked the event loop of its thread" in said[0], question in said[0]) == (is_blocking, not is_blocking)
    assert ("async_inbox" in said[0]) == is_blocking


NO_ADDRESS = (404, "address-not-found")


def test_a_wait_continues_until_the_first_message_creates_the_address(connect, scripted, fake_time):
    scripted.say(*[scripted.problem(*NO_ADDRESS)] * 5, scripted.address())
    inbox = connect(scripted.url, time=fake_time).inbox("x@a.test", timeout=10)
    assert inbox.address == "x@a.test"
    assert fake_time.slept == [0.1, 0.2, 0.4, 0.8, 1]


def test_the_error_for_an_address_that_was_never_created_states_how_to_create_it_and_the_refusals(
    connect, scripted, fake_time
):
    refusal = {"at": "2026-11-28T12:00:00Z", "client": "127.0.0.1", "command": "RCPT TO:<y@a.test>", "reason": "550 No"}
    refusals = scripted.json(json.dumps({"refusals": [refusal]}).encode())
    scripted.say(*[scripted.problem(*NO_ADDRESS)] * 3, refusals)
    with pytest.raises(api.WaitTimeout) as late:
        connect(scripted.url, time=fake_time).inbox("x@a.test", timeout=0.3)
    assert str(late.value) == (
        "no message to x@a.test arrived within 0.3 s, and there is no such address; a message creates an address only where "
        "smtp.accept_unknown is create, or on a catcher; refused lately: RCPT TO:<y@a.test>: 550 No"
    )


def test_without_a_timeout_a_missing_address_is_an_error_at_once(connect, scripted, fake_time):
    scripted.say(scripted.problem(*NO_ADDRESS))
    with pytest.raises(api.AddressNotFound):
        connect(scripted.url, time=fake_time).inbox("x@a.test")
    assert fake_time.slept == []


def test_messages_that_did_not_match_are_not_requested_again(scripted_inbox, scripted, fake_time):
    scripted.say(scripted.messages(FIRST, SECOND), scripted.messages(THIRD, codes=[{"value": "481516"}]))
    assert scripted_inbox.wait_for_code(subject="a b") == "481516"
    assert [asked.query.get("after") for asked in scripted.asked] == [None, SECOND]
    assert {asked.query["subject"] for asked in scripted.asked} == {"a+b"}


def test_all_existing_messages_are_checked_however_short_the_time(inbox, service):
    for _ in range(101):
        service.deliver(inbox.address)
    service.deliver(inbox.address, CODE)
    assert inbox.wait_for_code(timeout=0) == "481516"


@pytest.mark.parametrize(("timeout", "slept"), [(2.5, [1, 1, 0.5]), (-5, [])])
def test_a_last_check_follows_when_the_time_is_over(scripted_inbox, scripted, fake_time, timeout, slept):
    scripted.say(scripted.messages())
    with pytest.raises(api.WaitTimeout, match="no other message did"):
        scripted_inbox.wait_for(timeout=timeout)
    assert (fake_time.slept, len(scripted.asked)) == (slept, len(slept) + 1)


@pytest.mark.parametrize("way", [b"", "gateway"])
def test_a_proxy_that_cuts_off_long_requests_gets_shorter_requests(scripted_inbox, scripted, fake_time, way):
    """The proxy allows 30 seconds; the message arrives after 70."""
    waiting = waiting_server(scripted, fake_time, arrives_after=70)
    cut = scripted.gateway() if way == "gateway" else way

    def answer(asked):
        if int(asked.query.get("wait", 0)) > 30:
            fake_time.seconds += 30
            return cut
        return waiting(asked)

    scripted.answer = answer
    assert scripted_inbox.wait_for(timeout=100).id == FIRST
    assert [asked.query["wait"] for asked in scripted.asked] == ["50", "24", "24"]


@pytest.mark.parametrize("way", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", "gateway"])
def test_a_proxy_that_allows_no_waiting_is_polled_every_second(scripted_inbox, scripted, fake_time, way):
    def answer(asked):
        if "wait" in asked.query:
            fake_time.seconds += 0.2
            return scripted.gateway() if way == "gateway" else way
        return scripted.messages(FIRST) if fake_time.seconds > 1010 else scripted.messages()

    scripted.answer = answer
    assert scripted_inbox.wait_for(timeout=60).id == FIRST
    assert [asked.query.get("wait") for asked in scripted.asked][:3] == ["50", "6", None]
    assert all(seconds <= 1 for seconds in fake_time.slept)


def test_a_proxy_that_forwards_no_request_is_finally_reported(scripted_inbox, scripted, fake_time):
    scripted.say(scripted.gateway(502))
    with pytest.raises(api.WaitTimeout, match=r"the last request failed: http://.*: 502 from a proxy"):
        scripted_inbox.wait_for(subject="x", timeout=10)
    assert fake_time() == 1010


@pytest.mark.parametrize("code", ["rate-limited", "too-many-streams", "stopping", "busy", "storage-unavailable"])
def test_temporary_refusals_are_waited_out(scripted_inbox, scripted, fake_time, code):
    refusal = scripted.problem(PROBLEMS[code].status, code, "Retry-After: 6")
    scripted.say(*[refusal] * 3, scripted.messages(FIRST))
    assert scripted_inbox.wait_for(timeout=60).id == FIRST
    assert fake_time.slept == [6] * 3


def test_the_whole_text_is_requested_again_while_refused_and_a_deleted_message_is_skipped(
    scripted_inbox, scripted, fake_time
):
    cut = scripted.messages(FIRST, truncated=True)
    busy, gone = scripted.problem(503, "busy", "Retry-After: 1"), scripted.problem(404, "message-not-found")
    scripted.say(cut, busy, cut, scripted.json(json.dumps({"body": "Ticket 4711"}).encode()))
    assert scripted_inbox.wait_for_code(pattern=r"Ticket (\d+)") == "4711"
    assert fake_time.slept == [1]
    scripted.say(cut, gone, scripted.messages(SECOND, body="Ticket 4712"))
    assert scripted_inbox.wait_for_code(pattern=r"Ticket (\d+)") == "4712"


def test_a_storm_of_refusals_is_waited_out_within_the_time_only(scripted_inbox, scripted, fake_time):
    scripted.say(scripted.problem(429, "rate-limited", "Retry-After: 6"))
    with pytest.raises(api.WaitTimeout, match="429 rate-limited") as late:
        scripted_inbox.wait_for(subject="x", timeout=20)
    assert fake_time.slept == [6, 6, 6]
    assert isinstance(late.value.__cause__, api.RateLimited)


def test_a_wait_continues_if_the_server_disappears(scripted_inbox, scripted):
    def last_answer(asked):
        scripted.server.socket.close()  # the server now refuses connections
        return scripted.messages()

    scripted.answer = last_answer
    with pytest.raises(api.WaitTimeout, match=r"the last request failed: .*: connection refused"):
        scripted_inbox.wait_for(timeout=5)


def test_a_wait_fails_immediately_if_the_server_was_never_reachable(scripted_inbox, scripted, fake_time):
    scripted.close()
    with pytest.raises(api.ServiceUnreachable, match="connection refused; is tmpmaild running there"):
        scripted_inbox.wait_for(timeout=5)
    assert fake_time.slept == []


@pytest.mark.parametrize(("left_seconds", "longest_seconds"), [(0, 1), (0.3, 1.3), (7, 8), (60, 55), (inf, 55)])
def test_a_silent_server_delays_a_wait_only_briefly(left_seconds, longest_seconds):
    service = RemoteService("http://a.test", clock=lambda: 0.0, wait_out_rate_limit=False)
    inbox = RemoteInbox(service, Address("x@a.test", datetime.now(UTC)), None)
    ask = next(Waiting(inbox, Filter(), MAIL, left_seconds).steps())
    assert ask.request.read_seconds == longest_seconds


@pytest.fixture
def silent():
    """Yield the URL of a server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def full():
    """Yield the URL of a server that neither accepts nor refuses further connections."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, socket.create_connection(server.getsockname()):
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def moved(inbox, url):
    """Point an inbox's client at a different server."""
    inbox._remote.service.url = url
    return inbox


@pytest.mark.parametrize("place", ["silent", "full"])
def test_a_server_that_hangs_makes_a_wait_a_second_late_at_most(inbox, request, place, monkeypatch):
    monkeypatch.undo()
    inbox = moved(inbox, request.getfixturevalue(place))
    begun = time.monotonic()
    with pytest.raises((api.WaitTimeout, api.ServiceUnreachable), match="within 1 s"):
        inbox.wait_for(subject="x", timeout=0)
    assert time.monotonic() - begun > 0.9


def test_other_messages_are_requested_within_the_same_second():
    seconds = [0.0]
    service = RemoteService("http://a.test", clock=lambda: seconds[0], wait_out_rate_limit=False)
    inbox = RemoteInbox(service, Address("x@a.test", datetime.now(UTC)), None)
    steps = Waiting(inbox, Filter(subject="x"), MAIL, 1).steps()
    nothing = Reply(next(steps).request, 200, {}, b'{"messages": []}')
    seconds[0] = 1.25
    assert steps.send(nothing).request.read_seconds == 0.75


@pytest.mark.parametrize("call", ["wait_for", "wait_for_code", "wait_for_link"])
def test_a_timeout_that_is_not_a_number_is_refused(scripted_inbox, scripted, call):
    with pytest.raises(ValueError, match="a timeout is a number of seconds, not nan"):
        getattr(scripted_inbox, call)(timeout=nan)
    assert scripted.asked == []
