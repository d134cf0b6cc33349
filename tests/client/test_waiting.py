"""Waiting for mail: at the real service, at servers and proxies that do not wait, and how late a wait may end."""

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


def test_a_mail_that_comes_ends_a_wait(inbox, service, at_once):
    with service.listening():
        found = at_once(inbox.wait_for, timeout=20)
    sent = service.deliver(inbox.address)
    assert found.result(5).id == sent
    service.deliver(inbox.address)
    assert inbox.wait_for().id == inbox.wait_for(timeout=0).id == sent  # what is there already counts


def test_only_a_mail_that_was_meant_ends_a_wait(inbox, service, at_once):
    before = service.deliver(inbox.address, CODE)
    with service.listening():
        found = at_once(inbox.wait_for, sender="SHOP", subject="confirm", after=before, timeout=20)
    service.deliver(inbox.address)
    service.deliver(inbox.address, b"From: other@example.org\r\nSubject: Confirm\r\n\r\n")
    sent = service.deliver(inbox.address, CODE)
    assert found.result(5).id == sent


def test_a_mail_without_a_code_does_not_end_a_wait_for_one(inbox, service, at_once):
    service.deliver(inbox.address)
    with service.listening():
        code = at_once(inbox.wait_for_code, timeout=20)
    service.deliver(inbox.address)
    service.deliver(inbox.address, CODE)
    assert code.result(5) == "481516"


def test_a_mail_without_a_link_does_not_end_a_wait_for_one(scripted_inbox, scripted):
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


def test_a_wait_that_was_in_vain_says_what_came_instead(inbox, service):
    service.deliver(inbox.address, b"From: a@shop.example\r\nSubject: \x1b[31mSale\xc2\x9b\r\n\r\n481516\r\n")
    service.deliver(inbox.address, b"\r\n", sender="")
    with pytest.raises(TimeoutError) as late:
        inbox.wait_for(subject="confirm", sender="bank", timeout=0)
    first, *lines = str(late.value).splitlines()
    assert first == (
        f"no mail with subject 'confirm' and sender 'bank' came to {inbox.address} within 0 s; what did come:"
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


def test_a_wait_for_what_comes_after_a_mail_says_so(inbox, service):
    service.deliver(inbox.address)
    first = inbox.wait_for(timeout=0)
    with pytest.raises(api.WaitTimeout) as late:
        inbox.wait_for(subject="no", after=first, timeout=0)
    assert str(late.value) == (
        f"no mail with subject 'no' came to {inbox.address} after {first.id} within 0 s; nothing else did after it"
    )
    service.deliver(inbox.address)
    with pytest.raises(api.WaitTimeout, match=r"; what did come after it:\n.*hello\n    lacks subject 'no'$") as late:
        inbox.wait_for(subject="no", after=first, timeout=0)
    assert len(late.value.arrived) == 1


def test_what_was_wanted_is_told_in_one_line_of_bearable_length(inbox):
    with pytest.raises(api.WaitTimeout, match=r"^no mail with subject 'xx") as late:
        inbox.wait_for(subject="x" * 3000, timeout=0)
    assert len(str(late.value)) < 400


def test_the_real_service_holds_a_wait_to_its_end(inbox):
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
    """Answer as a server that waits: after the asked time, or when the mail comes."""
    begun = fake_time()

    def answer(asked):
        due = begun + arrives_after - fake_time() if arrives_after is not None else 1e9
        wait = int(asked.query.get("wait", 0))
        fake_time.seconds += max(min(due, wait), 0)
        return scripted.messages(FIRST) if due <= wait else scripted.messages()

    return answer


def test_a_long_wait_is_made_of_several(scripted_inbox, scripted, fake_time):
    scripted.answer = waiting_server(scripted, fake_time, arrives_after=110)
    assert scripted_inbox.wait_for(timeout=120).id == FIRST
    assert [asked.query["wait"] for asked in scripted.asked] == ["50", "50", "20"]
    assert fake_time.slept == []


def test_a_look_without_a_wait_goes_on_after_empty_pages(scripted_inbox, scripted):
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
def test_the_service_is_asked_to_leave_out_mails_without_a_code_or_a_link(
    scripted_inbox, scripted, call, asked, wanted
):
    links = [{"href": "https://a.test/", "confidence": 0.8}]
    scripted.say(scripted.messages(FIRST, codes=[{"value": "481516"}], links=links, body="481516"))
    getattr(scripted_inbox, call)(**asked)
    assert scripted.asked[0].query.get("has") == wanted


def test_a_wait_for_a_code_in_vain_lists_what_the_service_left_out(scripted_inbox, scripted):
    scripted.answer = lambda asked: scripted.messages(*([] if "has" in asked.query else [FIRST]))
    with pytest.raises(api.WaitTimeout, match=r"no mail with a code came to .*; what did come:\n"):
        scripted_inbox.wait_for_code(timeout=0)


def test_the_reason_that_the_service_gives_is_told(scripted_inbox, scripted, fake_time):
    scripted.say(scripted.json(json.dumps({"messages": [], "reason": "no mail came; refused: \x1b"}).encode()))
    with pytest.raises(api.WaitTimeout, match=r"within 2\.5 s; no mail came; refused: \ufffd$"):
        scripted_inbox.wait_for_code(timeout=2.5)
    assert {("wait" in asked.query, asked.query.get("explain")) for asked in scripted.asked} == {
        (True, "true"),
        (False, None),
    }


def test_a_message_without_what_was_wanted_is_not_called_no_mail(scripted_inbox, scripted, fake_time):
    """The service's reason is about the last request, which was for what came after that message."""
    links = [{"href": "https://shop.example/help", "confidence": 0.1}]
    nothing = {"messages": [], "reason": "no mail came, and none was refused: does your application send here?"}
    scripted.say(
        scripted.messages(FIRST, subject="Welcome", codes=[{"value": "481516"}], links=links),
        scripted.json(json.dumps(nothing).encode()),
    )
    with pytest.raises(api.WaitTimeout) as late:
        scripted_inbox.wait_for_link(subject="welcome", url="/confirm", timeout=2)
    text = str(late.value)
    assert text.startswith("no mail with subject 'welcome' and a link with URL '/confirm' came to ")
    assert "no mail came" not in text
    assert "does your application send here" not in text
    assert "    lacks a link with URL '/confirm'\n    codes: 481516\n    links: https://shop.example/help (0.1)" in text


def test_a_refusal_is_told_although_something_came(scripted_inbox, scripted, fake_time):
    nothing = {"messages": [], "reason": "no mail came; refused: RCPT TO:<x@y.example>: 550 5.7.1 Relaying denied"}
    scripted.say(scripted.messages(FIRST), scripted.json(json.dumps(nothing).encode()))
    with pytest.raises(
        api.WaitTimeout, match=r"; refused: RCPT TO:<x@y\.example>: 550 5\.7\.1 Relaying denied; what did"
    ):
        scripted_inbox.wait_for_code(timeout=2)


def test_what_did_not_fit_is_not_read_again(scripted_inbox, scripted, fake_time):
    scripted.say(scripted.messages(FIRST, SECOND), scripted.messages(THIRD, codes=[{"value": "481516"}]))
    assert scripted_inbox.wait_for_code(subject="a b") == "481516"
    assert [asked.query.get("after") for asked in scripted.asked] == [None, SECOND]
    assert {asked.query["subject"] for asked in scripted.asked} == {"a+b"}


def test_all_that_is_there_is_looked_through_however_short_the_time(inbox, service):
    for _ in range(101):
        service.deliver(inbox.address)
    service.deliver(inbox.address, CODE)
    assert inbox.wait_for_code(timeout=0) == "481516"


@pytest.mark.parametrize(("timeout", "slept"), [(2.5, [1, 1, 0.5]), (-5, [])])
def test_it_is_looked_once_more_when_the_time_is_over(scripted_inbox, scripted, fake_time, timeout, slept):
    scripted.say(scripted.messages())
    with pytest.raises(api.WaitTimeout, match="nothing else did"):
        scripted_inbox.wait_for(timeout=timeout)
    assert (fake_time.slept, len(scripted.asked)) == (slept, len(slept) + 1)


@pytest.mark.parametrize("way", [b"", "gateway"])
def test_a_proxy_that_cuts_what_takes_long_is_asked_for_less(scripted_inbox, scripted, fake_time, way):
    """It lets 30 seconds pass; the mail comes after 70."""
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
def test_a_proxy_that_lets_nothing_wait_is_asked_each_second(scripted_inbox, scripted, fake_time, way):
    def answer(asked):
        if "wait" in asked.query:
            fake_time.seconds += 0.2
            return scripted.gateway() if way == "gateway" else way
        return scripted.messages(FIRST) if fake_time.seconds > 1010 else scripted.messages()

    scripted.answer = answer
    assert scripted_inbox.wait_for(timeout=60).id == FIRST
    assert [asked.query.get("wait") for asked in scripted.asked][:3] == ["50", "6", None]
    assert all(seconds <= 1 for seconds in fake_time.slept)


def test_a_proxy_that_never_lets_anything_through_is_named_in_the_end(scripted_inbox, scripted, fake_time):
    scripted.say(scripted.gateway(502))
    with pytest.raises(api.WaitTimeout, match=r"the last request failed: http://.*: 502 from a proxy"):
        scripted_inbox.wait_for(subject="x", timeout=10)
    assert fake_time() == 1010


@pytest.mark.parametrize("code", ["rate-limited", "too-many-streams", "stopping", "busy", "storage-unavailable"])
def test_refusals_that_pass_are_waited_out(scripted_inbox, scripted, fake_time, code):
    refusal = scripted.problem(PROBLEMS[code].status, code, "Retry-After: 6")
    scripted.say(*[refusal] * 3, scripted.messages(FIRST))
    assert scripted_inbox.wait_for(timeout=60).id == FIRST
    assert fake_time.slept == [6] * 3


def test_the_whole_text_is_asked_for_again_while_that_is_refused_and_a_mail_that_is_gone_is_passed_over(
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


def test_a_server_that_goes_away_in_the_middle_is_waited_for(scripted_inbox, scripted):
    def last_answer(asked):
        scripted.server.socket.close()  # from now on connections are refused
        return scripted.messages()

    scripted.answer = last_answer
    with pytest.raises(api.WaitTimeout, match=r"the last request failed: .*: connection refused"):
        scripted_inbox.wait_for(timeout=5)


def test_a_server_that_was_never_there_is_not_waited_for(scripted_inbox, scripted, fake_time):
    scripted.close()
    with pytest.raises(api.ServiceUnreachable, match="connection refused; is tmpmaild running there"):
        scripted_inbox.wait_for(timeout=5)
    assert fake_time.slept == []


@pytest.mark.parametrize(("left_seconds", "longest_seconds"), [(0, 1), (0.3, 1.3), (7, 8), (60, 55), (inf, 55)])
def test_a_server_that_says_nothing_is_not_listened_to_for_much_longer_than_the_time(left_seconds, longest_seconds):
    service = RemoteService("http://a.test", clock=lambda: 0.0, wait_out_rate_limit=False)
    inbox = RemoteInbox(service, Address("x@a.test", datetime.now(UTC)), None)
    ask = next(Waiting(inbox, Filter(), MAIL, left_seconds).steps())
    assert ask.request.read_seconds == longest_seconds


@pytest.fixture
def silent():
    """Yield an address where connections are taken and never answered."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def full():
    """Yield an address where no more connections are taken, and none is refused."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, socket.create_connection(server.getsockname()):
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def moved(inbox, url):
    """Have an inbox at another place."""
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
