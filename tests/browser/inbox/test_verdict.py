"""The inbox shows the result of sender authentication once it is known, or no result if senders are not checked."""

from threading import Event

import pytest

from daemons import NO_LIMITS
from zones import Zones, text_record

from .test_access import OVERFLOWING

BROWSERS = ("chromium", "firefox", "webkit")  # each browser has its own domain, because DNS responses are cached
ZONE = "".join(
    text_record(f"_dmarc.{name}.example", "v=DMARC1; p=reject") + text_record(f"{name}.example", f"v=spf1 {sends} -all")
    for name, sends in (("bank", "ip4:192.0.2.1"), *((name, "ip4:127.0.0.1") for name in BROWSERS))
)
PHONE = {"viewport": {"width": 320, "height": 640}, "has_touch": True, "is_mobile": True, "locale": "de-DE"}


@pytest.fixture(scope="session")
def zones():
    with Zones(ZONE) as served:
        yield served


@pytest.fixture
def daemon(share_daemon, zones):
    return share_daemon("checking", **NO_LIMITS, TMPMAILD_SENDERS__RESOLVER=zones.place)


class Sender:
    """Sends messages to an inbox from this host, which is authorised for ``domain``, with any From field."""

    def __init__(self, daemon, inbox, domain):
        self.daemon, self.inbox, self.domain = daemon, inbox, domain

    def send(self, subject, author=None):
        raw = f"From: Shop <shop@{author or self.domain}>\r\nTo: {self.inbox.address}\r\nSubject: {subject}\r\n\r\nText.\r\n"
        self.daemon.deliver_raw(self.inbox.address, raw.encode(), sender=f"bounce@{self.domain}")


@pytest.fixture
def sender(daemon, inbox, browser_name):
    return Sender(daemon, inbox, f"{browser_name}.example")


@pytest.fixture
def answering(zones, monkeypatch):
    """Return an event; the resolver responds only after it is set."""
    answering = Event()
    monkeypatch.setattr(zones, "spoil", lambda wire: wire if answering.wait(20) else None)
    return answering


@pytest.mark.browsers("firefox", "webkit")
async def test_the_verdict_is_shown_with_the_sender_and_in_the_list_as_soon_as_it_is_known(
    open_inbox, answering, sender, expect
):
    ours = sender.domain
    tab = await open_inbox(sender.inbox)
    sender.send("ours")
    await tab.open("ours")
    verdict = tab.reader.get_by_role("status")
    await expect(verdict).to_be_empty()
    answering.set()
    await expect(verdict).to_have_text(f"Sender verified: {ours}")
    await expect(tab.row("ours")).to_contain_text(f"Sender verified: {ours}Text.")
    await verdict.get_by_text("Sender verified:").click()
    await expect(verdict.locator("dl > div").last).to_have_text("ARCnone")
    assert await verdict.locator("dl > div").all_text_contents() == [
        f"SPFpass · {ours} · ip4:127.0.0.1",
        "DKIMnone",
        f"DMARCpass · {ours} · p=reject",
        "ARCnone",
    ]
    sender.send("theirs", "bank.example")
    sender.send("anybody's", "nobody.example")
    await tab.open("anybody's")
    await expect(verdict).to_have_text("Not verified")
    await tab.open("theirs")
    await expect(verdict).to_have_text("Claims to be bank.example, but is not")
    await expect(tab.row("theirs")).to_contain_text("Not from bank.exampleText.")
    await tab.page.reload()
    await expect(tab.list.locator(".verdict")).to_have_text(
        ["Not verified", "Not from bank.example", f"Sender verified: {ours}"]
    )


async def test_in_german_at_320_pixels_a_long_unverified_name_fits_with_all_reasons(open_inbox, sender, expect):
    sender.send("fremd", f"{'filiale-im-bahnhof.' * 5}bank.example")
    tab = await open_inbox(sender.inbox, **PHONE)
    await tab.row("fremd").click()
    verdict = tab.reader.get_by_role("status")
    await expect(verdict).to_contain_text("Gibt sich als")
    await expect(verdict).to_contain_text("bank.example aus, ist es aber nicht")
    await verdict.locator("summary").click()
    await expect(verdict.get_by_text("p=reject")).to_be_visible()
    assert await tab.page.evaluate(OVERFLOWING) == []
