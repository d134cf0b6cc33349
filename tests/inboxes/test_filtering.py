"""Pages of messages that have a code or a link: what is on them, how much is looked at, where the next one goes on."""

import pytest

from tmpmaild.inboxes.reading import MOST_LOOKED_AT, filtered, is_filter, rest_of
from tmpmaild.model import Code, Findings, Inbox, Link, Listing, Message, Page
from tmpmaild.storage import ids

INBOX = Inbox("7", "ada@mail.example.com", 0, 1, private=False, token_hash=None, message_count=0, full=False)
CODE = Findings(codes=(Code("481516", 0.3),))
LINK = Findings(links=(Link("https://shop.example/", "", 0),))
BOTH = Findings(CODE.codes, LINK.links)
NEITHER = Findings()


def message(number, findings, body="x"):
    return Message(
        id=ids.message_id(number),
        received_at_ms=0,
        recipient="",
        from_address="",
        from_name="",
        subject="",
        body=body,
        truncated=False,
        size_bytes=1,
        has_html=False,
        attachments=(),
        findings=findings,
    )


class Shelf:
    """Messages in the order of their arrival, read as from storage; it counts how often each is looked at."""

    def __init__(self, *findings, body="x"):
        self.messages = [message(number, found, body) for number, found in enumerate(findings, start=1)]
        self.looked_at = []

    async def read(self, page):
        between = [
            one
            for one in self.messages
            if (page.after or "") < one.id and (page.before is None or one.id < page.before)
        ]
        ordered = between if page.ascending else between[::-1]
        found = tuple(ordered[: page.limit])
        self.looked_at += found
        newest = self.messages[-1].id if self.messages else ids.message_id(0)
        return Listing(INBOX, found, has_more=len(ordered) > page.limit, searched_to=newest)

    async def pages(self, page):
        """Read one page after another to the end."""
        found = []
        while True:
            found.append(await filtered(page, self.read))
            if not found[-1].has_more:
                return found
            page = rest_of(page, found[-1].looked_to)


@pytest.mark.parametrize(
    ("has", "numbers"),
    [({"code"}, [1, 3]), ({"link"}, [2, 3]), ({"code", "link"}, [3]), ({"code", "attachment"}, [1, 3])],
)
async def test_a_page_has_what_has_all_that_is_asked_for(has, numbers):
    shelf = Shelf(NEITHER, CODE, LINK, BOTH, NEITHER)
    page = await filtered(Page(has=frozenset(has), ascending=True), shelf.read)
    assert page.messages == tuple(shelf.messages[number] for number in numbers)
    assert not page.has_more


def test_attachments_alone_need_no_look_at_messages():
    assert [is_filter(Page(has=frozenset(has))) for has in ([], ["attachment"], ["attachment", "link"])] == [
        False,
        False,
        True,
    ]


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
async def test_one_page_looks_at_so_many_messages_and_no_more(ascending):
    shelf = Shelf(*[NEITHER] * (2 * MOST_LOOKED_AT + 1))
    wanted = Page(has=frozenset({"code"}), ascending=ascending)
    page = await filtered(wanted, shelf.read)
    assert (page.messages, page.has_more, len(shelf.looked_at)) == ((), True, MOST_LOOKED_AT)
    assert len(await shelf.pages(rest_of(wanted, page.looked_to))) == 2
    assert len(shelf.looked_at) == len(set(map(id, shelf.looked_at))) == len(shelf.messages)


async def test_a_page_holds_no_more_text_than_another():
    """Each part of it is read with what the parts before have left."""
    shelf = Shelf(*[CODE] * 120, body="€" * 100)
    asked = []

    async def read(page):
        asked.append((page.bodies_bytes, page.other_characters))
        return await shelf.read(page)

    await filtered(Page(has=frozenset({"code"}), bodies_bytes=20_000, other_characters=50_000), read)
    assert [bodies for bodies, _ in asked] == [20_000, 5_000]
    assert asked[1][1] < 50_000
    assert (await filtered(Page(has=frozenset({"code"}), other_characters=1), shelf.read)).has_more


async def test_newest_first_what_comes_meanwhile_is_left_to_the_next_wait():
    shelf = Shelf(*[NEITHER] * 60)
    first = shelf.messages[-1].id

    async def read(page):
        found = await shelf.read(page)
        shelf.messages.append(message(100, CODE))
        return found

    page = await filtered(Page(has=frozenset({"code"})), read)
    assert (page.messages, page.searched_to) == ((), first)


async def test_an_empty_inbox_has_an_empty_page():
    page = await filtered(Page(has=frozenset({"code"})), Shelf().read)
    assert (page.messages, page.has_more, page.looked_to) == ((), False, None)
