"""Methods of both clients that tests use: several messages, no message, a code, a link, an attachment, a view."""

import re
from pathlib import Path

import pytest

from tmpmaild import client as api
from tmpmaild.client import waiting as goals

ROOT = Path(__file__).parents[2]
CODE = b"From: shop@shop.example\r\nSubject: Confirm\r\n\r\nYour verification code is 481516\r\nOrder: A-77\r\n"
RICH = Path(__file__).with_name("views-verbs-rich.eml").read_bytes()


@pytest.fixture
def mail(inbox, service):
    """Return a function that delivers a message and returns it."""

    def delivered(raw):
        message_id = service.deliver(inbox.address, raw)
        return next(one for one in inbox.messages() if one.id == message_id)

    return delivered


def test_several_messages_are_awaited_and_returned_oldest_first(inbox, service, at_once):
    first = service.deliver(inbox.address, CODE)
    service.deliver(inbox.address)
    with service.listening():
        found = at_once(inbox.wait_for_messages, 3, sender="shop", timeout=20)
    with service.listening(0):
        second = service.deliver(inbox.address, CODE)
    third = service.deliver(inbox.address, CODE)
    service.deliver(inbox.address, CODE)
    assert [one.id for one in found.result(5)] == [first, second, third]
    assert [one.id for one in inbox.wait_for_messages(1, after=first, sender="shop", timeout=0)] == [second]


def test_too_few_messages_are_counted_and_listed(inbox, service):
    for _ in range(2):
        service.deliver(inbox.address)
    with pytest.raises(
        api.WaitTimeout, match=r"^2 of 3 messages with subject 'hello' arrived at .* within 0 s; what arrived:"
    ) as late:
        inbox.wait_for_messages(3, subject="hello", timeout=0)
    assert len(late.value.arrived) == 2
    with pytest.raises(ValueError, match="count is 0, expected 1 or more"):
        inbox.wait_for_messages(0)


def test_no_mail_is_a_success_only_after_the_whole_time_has_passed(scripted_inbox, scripted, fake_time):
    scripted.say(scripted.messages())
    before = fake_time()
    assert scripted_inbox.assert_no_mail(within=2) is None
    assert fake_time() - before == 2


def test_an_unwanted_message_is_an_assertion_error_that_shows_it(inbox, service, at_once):
    first = service.deliver(inbox.address, CODE)
    inbox.assert_no_mail(subject="confirm", after=first, within=0)
    inbox.assert_no_mail(subject="welcome", within=0)
    with service.listening():
        waiting = at_once(inbox.assert_no_mail, sender="shop", after=first, within=20)
    service.deliver(inbox.address, CODE)
    with pytest.raises(AssertionError) as unexpected:
        waiting.result(5)
    assert isinstance(unexpected.value, api.UnexpectedMail)
    heading, line, *text = str(unexpected.value).splitlines()
    assert heading == (
        f"a message with sender 'shop' arrived at {inbox.address} after {first} although none was expected within 20 s:"
    )
    assert line.endswith("  shop@shop.example  Confirm")
    assert text == ["  | Your verification code is 481516", "  | Order: A-77"]


def test_a_service_that_does_not_respond_does_not_count_as_no_message(scripted_inbox, scripted, fake_time):
    scripted.say(scripted.messages(), scripted.problem(503, "stopping", "Retry-After: 5"))
    with pytest.raises(api.Stopping):
        scripted_inbox.assert_no_mail(within=3)


@pytest.mark.parametrize(
    ("pattern", "found"), [(None, "481516"), (r"\d{4}", "4815"), (r"^Order: (\S+)$", "A-77"), (r"Conf\w+", "Confirm")]
)
def test_the_code_is_the_best_code_or_the_match_of_an_expression_in_subject_or_text(inbox, mail, pattern, found):
    assert mail(CODE).get_code(pattern) == found
    assert inbox.wait_for_code(pattern=pattern, timeout=0) == found


def test_a_message_without_the_code_is_shown_with_its_text(inbox, mail):
    one = mail(b"From: a@b.example\r\nSubject: Hi\x1b[31m\r\n\r\n" + b"one line\r\n\r\n" * 50)
    with pytest.raises(api.NotInMail) as missing:
        one.get_code()
    heading, line, *text = str(missing.value).splitlines()
    assert heading == f"the message to {inbox.address} does not have a code:"
    assert line.endswith("  a@b.example  Hi\ufffd[31m")
    assert text == ["  | one line"] * 15 + ["  | …"]
    with pytest.raises(LookupError, match="does not have a match of 'Ticket '"):
        one.get_code("Ticket ")


def test_an_unmatched_group_is_not_a_match(inbox, mail):
    one = mail(CODE)
    with pytest.raises(api.NotInMail, match="does not have a match of"):
        one.get_code(r"Confirm(?: code (\d+))?")
    with pytest.raises(api.WaitTimeout):
        inbox.wait_for_code(pattern=r"Confirm(?: code (\d+))?", timeout=0)
    assert one.get_code(r"code is (x?)") == ""


def test_a_link_that_should_not_be_followed_is_among_the_links_but_not_the_main_link(mail):
    one = mail(b"Subject: News\r\n\r\nUnsubscribe: https://shop.example/unsubscribe?u=8kq2\r\n")
    assert ([link.href for link in one.links], one.link) == (["https://shop.example/unsubscribe?u=8kq2"], None)
    with pytest.raises(api.NotInMail):
        one.get_link()


def test_the_page_and_every_client_use_the_same_minimum_confidence_for_a_link():
    sources = {
        "tmpmaild/web/findings.js": r"const LIKELY = ([\d.]+);",
        "clients/typescript/src/mail.ts": r"const LIKELY = ([\d.]+);",
        "docs/api.md": r"\n\| `links` \|[^\n]*?\b(0\.\d+)",
    }
    for path, pattern in sources.items():
        assert [float(one) for one in re.findall(pattern, (ROOT / path).read_text())] == [goals.LIKELY], path


def test_an_unsuccessful_wait_for_a_code_shows_the_text_of_the_message(inbox, service):
    for number in range(5):
        service.deliver(inbox.address, b"Subject: hello\r\n\r\ntext %d\r\n" % number)
    with pytest.raises(api.WaitTimeout, match="no message with a code arrived at") as late:
        inbox.wait_for_code(timeout=0)
    lines = str(late.value).splitlines()
    assert len([line for line in lines if line.endswith("hello")]) == 5
    assert [line for line in lines if "|" in line] == [f"  | text {number}" for number in (2, 3, 4)]


def test_an_invalid_expression_is_reported_immediately(inbox):
    with pytest.raises(Exception, match="unterminated"):
        inbox.wait_for_code(pattern="(", timeout=60)


def test_a_code_at_the_end_of_a_huge_message_is_found(inbox, service):
    for ticket in (b"4711", b"4712"):
        service.deliver(inbox.address, b"\r\n" + b"".join([b"x" * 900 + b"\r\n"] * 3000) + b"Ticket %b\r\n" % ticket)
    _, first = inbox.messages()
    assert first.truncated
    assert first.get_code(r"Ticket (\d+)") == "4711"
    assert inbox.wait_for_code(pattern=r"Ticket (\d+)", timeout=0) == "4711"


@pytest.mark.parametrize(
    ("wanted", "href"),
    [
        ({"text": "your ORDER"}, "https://shop.example/orders/7"),
        ({"url": "/orders/"}, "https://shop.example/orders/7"),
        ({"text": "terms", "url": "shop"}, "https://shop.example/terms"),
    ],
)
def test_a_link_is_chosen_by_its_text_and_its_url(inbox, mail, wanted, href):
    assert mail(RICH).get_link(**wanted) == href
    by_text = {"link_text": wanted["text"]} if "text" in wanted else {}
    by_url = {"url": wanted["url"]} if "url" in wanted else {}
    assert inbox.wait_for_link(**by_text, **by_url, timeout=0) == href


def test_an_error_for_a_missing_link_or_attachment_lists_the_existing_ones(mail):
    one = mail(RICH)
    with pytest.raises(api.NotInMail, match=r"does not have a link with text 'Confirm' and URL '/ORDERS/':") as missing:
        one.get_link(text="Confirm", url="/ORDERS/")
    assert "\n  has: https://shop.example/orders/7  Your order" in str(missing.value)
    with pytest.raises(api.NotInMail, match=r"does not have an attachment 'x\.pdf':") as missing:
        mail(RICH).get_attachment("x.pdf")
    assert str(missing.value).splitlines()[-2:] == ["  has: notes.txt", "  has: Invoice-9.PDF"]


def test_without_a_description_only_a_likely_link_is_returned(inbox, mail):
    one = mail(RICH)
    with pytest.raises(api.NotInMail, match=r"does not have a link with a confidence of at least 0\.3:") as missing:
        one.get_link()
    assert "\n  has: https://shop.example/orders/7  Your order" in str(missing.value)
    with pytest.raises(api.WaitTimeout):
        inbox.wait_for_link(timeout=0)
    assert mail(b"\r\nConfirm: https://shop.example/confirm?t=8kq2\r\n").get_link() == inbox.wait_for_link(timeout=0)


@pytest.mark.parametrize(("name", "filename"), [("invoice-*.pdf", "Invoice-9.PDF"), ("*", "notes.txt")])
def test_an_attachment_is_chosen_by_its_name(mail, name, filename):
    found = mail(RICH).get_attachment(name)
    assert found.filename == filename
    assert found.content() in {b"%PDF-1", b"notes"}


def test_the_unsubscribe_link_is_the_https_link_in_the_header_or_else_the_http_link(mail):
    assert mail(RICH).unsubscribe_link == "https://shop.example/leave?id=7"
    http = b"List-Unsubscribe: <mailto:a@b.example>, <http://localhost:8000/leave>%b\r\n\r\n"
    assert mail(http % b"").unsubscribe_link == "http://localhost:8000/leave"
    assert mail(http % b", <HTTPS://shop.example/leave>").unsubscribe_link == "HTTPS://shop.example/leave"
    assert mail(CODE).unsubscribe_link is None
    assert mail(b"List-Unsubscribe: <mailto:a@b.example>, https://no.brackets\r\n\r\n").unsubscribe_link is None


class Page:
    """A stand-in for a browser page, which only records the URLs that it is told to open."""

    def __init__(self, is_async):
        self.urls = []
        self.is_async = is_async

    def goto(self, url):
        self.urls.append(url)
        return self._arrived() if self.is_async else None

    async def _arrived(self):
        return None


def test_a_page_opens_the_view_below_the_url_of_the_client(connect, scripted, request):
    scripted.say(
        scripted.address(),
        scripted.messages("msg_1"),
        scripted.json(b'{"url": "/public/view/secret", "expires_at": "x", "remote_images": 0}', status="201 Created"),
        scripted.json(b'{"url": "elsewhere"}', status="201 Created"),
    )
    (mail,) = connect(f"{scripted.url}/mail").inbox("x@a.test").messages()
    page = Page("async" in request.node.callspec.id)
    mail.open(page)
    assert page.urls == [f"{scripted.url}/mail/view/secret"]
    assert scripted.asked[-1].body == b'{"remote_images":false}'
    with pytest.raises(api.NotTmpmaild):
        mail.open(page, remote_images=True)
    assert scripted.asked[-1].body == b'{"remote_images":true}'
