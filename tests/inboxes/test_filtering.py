"""Pages of messages with a code or a link: their content, the examined messages, and the start of the next page."""

import msgspec
import pytest

from tmpmaild.inboxes.filtering import MAX_EXAMINED, filtered, matches, rest_of
from tmpmaild.model import Attachment, Code, Findings, Link, Listing, Page
from tmpmaild.storage.keys import message_id_of

from .conftest import INBOX, message

CODE = Findings(codes=(Code("481516", 0.3),))
LINK = Findings(links=(Link("https://shop.example/", "", 0),))
BOTH = Findings(CODE.codes, LINK.links)
NEITHER = Findings()


def numbered(number, findings, body="x"):
    return message(message_id_of(number), body, size_bytes=1, findings=findings)


class Shelf:
    """Messages in order of arrival, read as from storage; it records each message that is examined."""

    def __init__(self, *findings, body="x"):
        self.messages = [numbered(number, found, body) for number, found in enumerate(findings, start=1)]
        self.examined = []

    async def read(self, page):
        between = [
            one
            for one in self.messages
            if (page.after or "") < one.id and (page.before is None or one.id < page.before)
        ]
        ordered = between if page.ascending else between[::-1]
        return Listing(INBOX, tuple(ordered[: page.limit]), has_more=len(ordered) > page.limit)

    async def bodies(self, _, message_ids, up_to_characters):
        return {one.id: one.body[:up_to_characters] for one in self.messages if one.id in message_ids}

    async def complete(self, _, messages):
        self.examined += messages
        return messages

    async def pages(self, page):
        """Read all pages."""
        found = []
        while True:
            found.append(await filtered(page, self))
            if not found[-1].has_more:
                return found
            page = rest_of(page, found[-1].examined_to)


@pytest.mark.parametrize(
    ("has", "numbers"),
    [
        pytest.param({"code"}, [1, 3], id="code"),
        pytest.param({"link"}, [2, 3], id="link"),
        pytest.param({"code", "link"}, [3], id="both"),
        pytest.param({"attachment", "code"}, [], id="nothing has it"),
    ],
)
async def test_a_page_contains_the_messages_that_match_all_conditions(has, numbers):
    shelf = Shelf(NEITHER, CODE, LINK, BOTH, NEITHER)
    page = await filtered(Page(has=frozenset(has), ascending=True), shelf)
    assert page.messages == tuple(shelf.messages[number] for number in numbers)
    assert not page.has_more


@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_pages_one_after_another_have_every_match_once(ascending, limit):
    shelf = Shelf(*[CODE if number % 7 == 3 else NEITHER for number in range(500)])
    pages = await shelf.pages(Page(has=frozenset({"code"}), limit=limit, ascending=ascending))
    found = [one for page in pages for one in page.messages]
    expected = [one for one in shelf.messages if one.findings.codes]
    assert found == (expected if ascending else expected[::-1])
    assert all(len(page.messages) <= limit for page in pages)


@pytest.mark.parametrize("ascending", [False, True])
async def test_one_page_examines_a_limited_number_of_messages(ascending):
    shelf = Shelf(*[NEITHER] * (2 * MAX_EXAMINED + 1))
    wanted = Page(has=frozenset({"code"}), ascending=ascending)
    page = await filtered(wanted, shelf)
    assert (page.messages, page.has_more, len(shelf.examined)) == ((), True, MAX_EXAMINED)
    assert len(await shelf.pages(rest_of(wanted, page.examined_to))) == 2
    assert len(shelf.examined) == len(set(map(id, shelf.examined))) == len(shelf.messages)


async def test_a_page_contains_no_more_text_than_an_unfiltered_one():
    """The oldest bodies are truncated first. The page ends if texts other than bodies exceed their limit."""
    shelf = Shelf(*[CODE] * 120, body="€" * 1000)
    page = await filtered(Page(has=frozenset({"code"}), bodies_bytes=150_000, ascending=True), shelf)
    assert [one.truncated for one in page.messages] == [True] * 50 + [False] * 50
    page = await filtered(Page(has=frozenset({"code"}), other_characters=1), shelf)
    assert (len(page.messages), page.has_more) == (1, True)
    page = await filtered(Page(has=frozenset({"code"}), other_characters=2000), Shelf(*[CODE] * 3, body="x" * 5000))
    assert len(page.messages) == 3  # bodies have a separate limit


async def test_with_newest_first_new_messages_are_left_to_the_next_wait():
    class Growing(Shelf):
        async def read(self, page):
            found = await super().read(page)
            self.messages.append(numbered(100, CODE))
            return found

    shelf = Growing(*[NEITHER] * 60)
    first = shelf.messages[-1].id
    page = await filtered(Page(has=frozenset({"code"})), shelf)
    assert (page.messages, page.searched_to) == ((), first)


async def test_an_empty_inbox_has_an_empty_page():
    page = await filtered(Page(has=frozenset({"code"})), Shelf())
    assert (page.messages, page.has_more, page.examined_to) == ((), False, None)


LETTER = message("", from_address="No-Reply@Example.com", from_name="Straße GmbH", subject="ΚΩΔΙΚΌΣ 42")
FILE = Attachment(0, "a.pdf", "application/pdf", 1, "00", inline=False, content_id=None)
IMAGE = Attachment(1, '"inline":false', "image/png", 1, "00", inline=True, content_id="x")


@pytest.mark.parametrize(
    ("wanted", "is_match"),
    [
        ({}, True),
        ({"sender": "no-reply@EXAMPLE"}, True),
        ({"sender": "STRASSE"}, True),  # "ß" and "ss" match when case is ignored
        ({"sender": "42"}, False),
        ({"sender": "comStraße"}, False),  # a match cannot span two texts
        ({"subject": "κωδικός"}, True),
        ({"subject": "gmbh"}, False),
        ({"text": "straßE"}, True),
        ({"text": "reply@"}, True),
        ({"text": "κωδικόσ 4"}, True),
        ({"text": "CODE\nIs"}, True),
        ({"text": "42Your"}, False),
        ({"text": "."}, True),
        ({"text": "%"}, False),
        ({"text": "\x00"}, False),
        ({"text": "\ud800"}, False),
        ({"sender": "no-reply", "subject": "42", "text": "4711"}, True),
        ({"sender": "nobody", "subject": "42", "text": "4711"}, False),
        ({"subject": "42", "has": frozenset({"attachment"})}, False),
    ],
)
def test_a_message_matches_if_it_contains_the_wanted_texts(wanted, is_match):
    assert matches(LETTER, Page(**wanted), "Your code\nis 4711\n") is is_match


@pytest.mark.parametrize(
    ("attachments", "is_match"), [((), False), ((IMAGE,), False), ((FILE,), True), ((IMAGE, FILE), True)]
)
def test_a_message_has_an_attachment_if_it_is_not_inline(attachments, is_match):
    letter = msgspec.structs.replace(LETTER, attachments=attachments)
    assert matches(letter, Page(has=frozenset({"attachment"})), "") is is_match


@pytest.mark.parametrize(("domain", "turns"), [("bücher.example", 1), ("books.example", 0)])
async def test_many_recipients_at_internationalised_domains_are_compared_in_a_turn(domain, turns):
    class Scheduler:
        turns = 0

        async def run(self, work, *, work_bytes):
            assert work_bytes > 0
            self.turns += 1
            return work()

    shelf = Shelf(NEITHER)
    recipients = "\n".join(f"{number}@{domain}" for number in range(200))
    shelf.messages = [msgspec.structs.replace(shelf.messages[0], recipient=recipients)]
    shelf.scheduler = Scheduler()
    for wanted, found in ((f"7@{domain.upper()}", 1), (f"200@{domain}", 0)):
        assert len((await filtered(Page(recipient=wanted), shelf)).messages) == found
    assert shelf.scheduler.turns == 2 * turns
