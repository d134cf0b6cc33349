"""Codes and links found in messages: found once, cached within bounds, and forgotten along with the inbox."""

import asyncio

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from growth import SLACK_SECONDS, assert_within, cpu_seconds
from patience import PATIENCE_SECONDS
from tmpmaild.findings import detecting
from tmpmaild.inboxes import caches, finding
from tmpmaild.inboxes.caches import Caches, FindingsCache, findings_characters
from tmpmaild.inboxes.finding import Detector
from tmpmaild.mail import htmltext
from tmpmaild.model import Code, ExpiryMoved, Findings, InboxChange, InboxDeleted, Link, MessageDeleted, Texts
from tmpmaild.scheduling.turns import FairScheduler

from .conftest import INBOX, message

SIGN_UP = "Your verification code is 481516."


def inbox(inbox_id="1", expires_at_ms=1000):
    return replace(INBOX, id=inbox_id, expires_at_ms=expires_at_ms)


class Shelf:
    """A stand-in for the part of a storage that reads texts; it records the reads."""

    def __init__(self, *texts):
        self.texts = {one.message_id: one for one in texts}
        self.reads = []

    async def read_texts(self, _inbox_id, message_ids, _up_to_characters):
        self.reads.append(list(message_ids))
        await anyio.lowlevel.checkpoint()
        return tuple(self.texts[one] for one in message_ids if one in self.texts)


def found(links=(), codes=("1",)):
    return Findings(tuple(Code(one, 1.0) for one in codes), tuple(Link(one, "", 1.0) for one in links))


async def test_plain_text_from_a_list_is_searched_even_if_the_message_is_deleted_meanwhile():
    shelf = Shelf()
    (completed,) = await Detector(shelf, FindingsCache(), FairScheduler()).add_findings(
        inbox(), [message("msg_1", SIGN_UP)]
    )
    assert [code.value for code in completed.findings.codes] == ["481516"]
    assert shelf.reads == []
    (completed,) = await Detector(Shelf(), FindingsCache(), FairScheduler()).add_findings(
        inbox(), [message("msg_1", SIGN_UP, has_html=True)]
    )
    assert [code.value for code in completed.findings.codes] == ["481516"]


async def test_a_bug_in_the_search_leaves_a_message_readable(monkeypatch, caplog):
    monkeypatch.setattr(finding, "detect", lambda *_: 1 / 0)
    (completed,) = await Detector(Shelf(), FindingsCache(), FairScheduler()).add_findings(
        inbox(), [message("msg_1", SIGN_UP)]
    )
    assert completed.findings == Findings()
    assert "finding codes and links failed" in caplog.text


async def test_html_and_truncated_texts_are_read_for_the_search():
    shelf = Shelf(
        Texts(
            "msg_1", "Please see the HTML.", '<p>Your code: 481516</p><a href="https://example.org/verify">Verify</a>'
        ),
        Texts("msg_2", "A long text. " + SIGN_UP, ""),
    )
    messages = [message("msg_1", "Please see the HTML.", has_html=True), message("msg_2", "A long", truncated=True)]
    html, text = await Detector(shelf, FindingsCache(), FairScheduler()).add_findings(inbox(), messages)
    assert [code.value for code in html.findings.codes] == ["481516"]
    assert [link.href for link in html.findings.links] == ["https://example.org/verify"]
    assert [code.value for code in text.findings.codes] == ["481516"]
    assert shelf.reads == [["msg_1", "msg_2"]]


@pytest.mark.parametrize("text", ["", "See https://example.org/verify for more"])
async def test_html_is_read_once_for_codes_and_links(monkeypatch, text):
    made, read = [], htmltext.read
    monkeypatch.setattr(htmltext, "read", lambda html: made.append(html) or read(html))
    html = "<p>See https://example.org/verify for more</p>"
    shelf = Shelf(Texts("msg_1", text, html, is_of_html=bool(text)))
    (completed,) = await Detector(shelf, FindingsCache(), FairScheduler()).add_findings(
        inbox(), [message("msg_1", "", has_html=True)]
    )
    assert [link.href for link in completed.findings.links] == ["https://example.org/verify"]
    assert made == [html]


async def test_small_messages_do_not_wait_for_large_ones_of_other_clients():
    class Stuck(Shelf):
        async def read_texts(self, inbox_id, message_ids, up_to_characters):
            if "msg_large" in message_ids:
                await anyio.sleep_forever()
            return await super().read_texts(inbox_id, message_ids, up_to_characters)

    detector = Detector(Stuck(Texts("msg_small", "", f"<p>{SIGN_UP}</p>")), FindingsCache(), FairScheduler())
    large, small = [
        message(f"msg_{size}", has_html=True, size_bytes=n) for size, n in (("large", 90_000), ("small", 7000))
    ]
    async with anyio.create_task_group() as tasks:
        for inbox_id in ("1", "2"):
            tasks.start_soon(detector.add_findings, inbox(inbox_id), [large])
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(PATIENCE_SECONDS):
            (completed,) = await detector.add_findings(inbox("3"), [small])
        tasks.cancel_scope.cancel()
    assert [code.value for code in completed.findings.codes] == ["481516"]


async def test_a_turn_is_a_few_messages_that_are_small_together_or_a_large_one():
    sizes = [1000] * 9 + [60_000, 5000, 70_000, 1000]
    shelf = Shelf()
    messages = [message(f"msg_{number}", has_html=True, size_bytes=size) for number, size in enumerate(sizes)]
    await Detector(shelf, FindingsCache(), FairScheduler()).add_findings(inbox(), messages)
    assert [len(ids) for ids in shelf.reads] == [8, 2, 1, 1, 1]


async def test_a_message_is_searched_at_most_once_in_each_thread():
    shelf = Shelf(Texts("msg_1", "", "<p>Your code: 481516</p>"))
    detector = Detector(shelf, FindingsCache(), FairScheduler())
    one = message("msg_1", "", has_html=True)
    await asyncio.gather(*[detector.add_findings(inbox(), [one]) for _ in range(5)])
    await detector.add_findings(inbox(), [one])
    assert shelf.reads in ([["msg_1"]], [["msg_1"]] * 2)


async def test_links_of_one_message_are_bounded():
    links = " ".join(f"https://example.org/{'x' * 1000}/{number}" for number in range(60))
    (completed,) = await Detector(Shelf(), FindingsCache(), FairScheduler()).add_findings(
        inbox(), [message("msg_1", links)]
    )
    assert 20 < sum(1 for _ in completed.findings.links) <= 32
    assert sum(len(link.href) + len(link.text) for link in completed.findings.links) <= detecting.MAX_LINKS_CHARACTERS
    assert len(list(detecting._bounded([Link("x" * 1024, "y" * 1024, 0.0)] * 60))) == 16


def test_findings_are_dropped_with_their_message_and_inbox():
    remembered = Caches(may_cache=True)
    cache = remembered.findings
    for number in range(3):
        cache.put(inbox("1"), f"msg_{number}", found(), cache.generation)
    cache.put(inbox("2"), "msg_9", found(), cache.generation)
    remembered.update([InboxChange("1", full=False)])
    assert len(cache) == 4
    remembered.update([InboxChange("1", full=False, notice=MessageDeleted("msg_0"))])
    assert cache.get("msg_0") is None
    assert len(cache) == 3
    remembered.update([InboxChange("1", full=True, notice=InboxDeleted())])
    assert len(cache) == 1
    remembered.update([InboxChange("2", full=False, notice=ExpiryMoved(5))])
    assert len(cache) == 0


def test_ending_inboxes_costs_the_same_however_much_is_cached():
    ended = [InboxChange(f"ended-{number}", full=True, notice=InboxDeleted()) for number in range(200)]
    little, much = Caches(may_cache=True), Caches(may_cache=True)
    for remembered, inboxes in ((little, 20), (much, 10_000)):
        cache = remembered.findings
        for number in range(inboxes):
            cache.put(inbox(str(number)), f"msg_{number}", Findings(), cache.generation)
    assert_within(3 * cpu_seconds(little.update, ended) + SLACK_SECONDS, much.update, ended)


def test_no_findings_are_kept_longer_than_their_inbox():
    cache = FindingsCache()
    cache.put(inbox(expires_at_ms=1000), "msg_1", found(), cache.generation)
    cache.put(inbox(expires_at_ms=1001), "msg_2", found(), cache.generation)
    cache.forget_expired(1000)
    assert cache.get("msg_1") is None
    assert cache.get("msg_2") is not None


@pytest.mark.parametrize(("name", "bound"), [("_MAX_KNOWN", 10), ("_MAX_KNOWN_CHARACTERS", 1000)])
def test_the_memory_is_bounded_and_drops_the_oldest_entry(monkeypatch, name, bound):
    monkeypatch.setattr(caches, name, bound)
    cache = FindingsCache()
    findings = found(links=["x" * 9])
    assert findings_characters(findings) == 100
    for number in range(100):
        cache.put(inbox(), f"msg_{number}", findings, cache.generation)
    assert len(cache) == 10
    assert cache.get("msg_89") is None
    assert cache.get("msg_90") is not None
    for number in range(90, 100):
        cache.drop(f"msg_{number}")
    assert cache._characters == 0


def test_findings_in_a_message_that_is_deleted_meanwhile_are_not_cached():
    remembered = Caches(may_cache=True)
    cache = remembered.findings
    generation = cache.generation
    remembered.update([InboxChange("1", full=False)])
    cache.put(inbox(), "msg_1", found(), generation)
    assert cache.get("msg_1") is not None
    remembered.update([InboxChange("1", full=False, notice=MessageDeleted("msg_2"))])
    cache.put(inbox(), "msg_2", found(), generation)
    assert cache.get("msg_2") is None
