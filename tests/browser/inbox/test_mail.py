"""A message from its arrival to its deletion: its row in the list, its display in the reader, and its parts."""

import io
import re
import zipfile
from pathlib import Path
from urllib.error import HTTPError

import pytest

from scripts import scripts_of

SCRIPTS = scripts_of(__file__)

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c020000000b4944415478da6364f80f00010501012718e3660000000049454e44ae426082"
)
ELSEWHERE = "https://images.example"
CODE = "482913"
OCTETS = bytes(range(256))
SIGN_UP = Path(__file__).with_name("mail-sign-up.eml").read_bytes()


def sign_up(subject):
    """Return a typical message from a service: text, HTML with images, a file."""
    return SIGN_UP.replace(b"SUBJECT", subject.encode())


@pytest.fixture
async def reading(tab):
    """Open a tab in which a sign-up message has arrived and has been opened automatically."""
    tab.address_shown = await tab.address()
    tab.daemon.deliver_raw(tab.address_shown, sign_up("Confirm your account"))
    await tab.reader.wait_for()
    return tab


@pytest.fixture
async def watched(browser_name, named_browser, tab_in, daemon):
    """Open a tab whose requests to another host return an image and are recorded in ``fetched``."""
    context = await (await named_browser(browser_name)).new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(30_000)
    tab = tab_in(await context.new_page(), daemon)
    tab.fetched = []

    async def answer(route):
        tab.fetched.append((route.request.url, await route.request.header_value("referer")))
        await route.fulfill(body=PIXEL, content_type="image/png")

    await context.route(f"{ELSEWHERE}/**", answer)
    yield await tab.visit()
    await context.close()


@pytest.mark.browsers("firefox", "webkit")
async def test_mail_arrives_in_the_open_page_and_its_code_link_images_and_a_second_mail_are_shown(reading, expect):
    await reading.until_subjects("Confirm your account")
    row = reading.row("Confirm your account")
    for shown in ("Example", "Welcome to Example. Your verification code is"):
        assert await row.get_by_text(shown).first.is_visible()
    assert await row.get_by_role("time").inner_text() == "now"
    await reading.button(f"Copy code {CODE}", reading.reader).click()
    await expect(reading.page.get_by_text("Copied").first).to_be_attached()
    assert await reading.pasted() == CODE
    link = reading.reader.get_by_role("link", name="Open login.other.example")
    await expect(link).to_have_attribute("href", "https://login.other.example/confirm?user=7")
    await expect(link).to_have_attribute("rel", "noopener noreferrer")
    warning = "The text says example.com, but the link leads to login.other.example."
    assert await reading.reader.get_by_text(warning).is_visible()
    await reading.button("Copy link", reading.reader).click()
    assert await reading.pasted() == "https://login.other.example/confirm?user=7"
    frame = reading.reader.locator("iframe")
    sandbox = (await frame.get_attribute("sandbox")).split()
    assert not {"allow-scripts", "allow-forms", "allow-top-navigation"} & set(sandbox)
    logo = reading.mail.get_by_alt_text("Logo")
    await expect(logo).to_have_js_property("naturalWidth", 1)
    assert await reading.mail.get_by_text(CODE).is_visible()
    assert await reading.heading("Confirm your account").is_visible()
    reading.daemon.deliver(reading.address_shown, f"Your code is {CODE}")
    await reading.until_subjects(f"Your code is {CODE}", "Confirm your account")
    assert await reading.heading("Confirm your account").is_visible()
    await expect(reading.page).to_have_title(f"{CODE} · tmpmaild")
    await expect(reading.rows.first.get_by_role("button", name=f"Copy code {CODE}")).to_be_visible()


async def test_a_link_to_the_host_it_names_has_no_warning_and_a_message_without_sender_or_subject_has_placeholders(
    tab, expect
):
    html = "<p>Please <a href='https://www.example.com/verify?t=1'>verify your e-mail at example.com</a></p>"
    tab.daemon.deliver(await tab.address(), "Verify your e-mail address", html=html)
    await tab.reader.get_by_role("link", name="Open www.example.com").wait_for()
    assert await tab.reader.get_by_text("but the link leads to").count() == 0
    tab.daemon.deliver_raw(await tab.address(), b"\r\n\r\n", sender="")
    await tab.open("No subject")
    assert await tab.reader.get_by_text("No sender").is_visible()
    assert await tab.reader.get_by_text("There is no text in this message.").is_visible()


@pytest.mark.browsers("firefox", "webkit")
async def test_a_deletion_can_be_undone_and_otherwise_deletes_the_message_and_the_address_on_the_server(
    reading, expect
):
    await reading.choose("Delete")
    await expect(reading.heading("This address was deleted")).to_be_visible()
    await reading.button("Undo").click()
    await reading.until_subjects("Confirm your account")
    await reading.row("Confirm your account").click()
    assert reading.daemon.request(f"addresses/{reading.address_shown}")["message_count"] == 1
    await reading.button("Delete message").click()
    await reading.until_subjects()
    await reading.reader.wait_for(state="hidden")
    assert await reading.heading("Waiting for messages…").is_visible()
    await reading.send_deletions()
    assert reading.daemon.request(f"addresses/{reading.address_shown}/messages") == {"messages": []}
    reading.daemon.deliver_raw(reading.address_shown, sign_up("Another"))
    await reading.until_subjects("Another")
    await reading.end()
    await expect(reading.page.locator("#toast")).to_contain_text("and its messages were deleted")
    assert await reading.page.get_by_text(CODE).count() == 0
    assert await reading.kept() == []
    with pytest.raises(HTTPError) as refused:
        reading.daemon.request(f"addresses/{reading.address_shown}")
    assert refused.value.code == 410
    refused.value.close()
    await reading.another()
    assert await reading.address() != reading.address_shown
    await reading.until_live()


@pytest.mark.browsers("firefox")
async def test_remote_images_are_loaded_only_on_request_and_only_for_one_message(watched, expect):
    blocked = watched.reader.get_by_text("2 remote images blocked.")
    watched.daemon.deliver_raw(await watched.address(), sign_up("one"), sign_up("two"))
    await watched.until_subjects("two", "one")
    await watched.open("one")
    await expect(blocked).to_be_visible()
    await expect(watched.mail.get_by_alt_text("Logo")).to_have_js_property("naturalWidth", 1)
    assert watched.fetched == []
    await watched.button("Load images").click()
    for name in ("First", "Second"):
        await expect(watched.mail.get_by_alt_text(name)).to_have_js_property("naturalWidth", 1)
    assert sorted(watched.fetched) == [(f"{ELSEWHERE}/1.png", None), (f"{ELSEWHERE}/2.png", None)]
    await expect(blocked).to_have_count(0)
    await watched.button("Text").click()
    await watched.button("HTML").click()
    await expect(watched.mail.get_by_alt_text("First")).to_be_visible()
    assert await blocked.count() == 0
    for subject in ("two", "one"):
        await watched.open(subject)
        await expect(blocked).to_be_visible()
        await expect(watched.mail.get_by_alt_text("Logo")).to_have_js_property("naturalWidth", 1)
    assert len(watched.fetched) == 2


@pytest.mark.browsers("firefox", "webkit")
async def test_a_message_is_also_shown_as_text_headers_and_source_and_saved_with_its_attachment(reading, expect):
    reader = reading.reader
    await reading.button("Text").click()
    await expect(reader.get_by_text("Welcome to Example.").last).to_be_visible()
    await expect(reader.locator("iframe")).to_be_hidden()
    await reading.button("Headers").click()
    await expect(reader.get_by_role("term").filter(has_text="X-Campaign")).to_be_visible()
    assert await reader.get_by_role("definition").filter(has_text="sign-up").is_visible()
    for trace in ("Return-Path", "Received"):
        assert await reader.get_by_role("term").filter(has_text=trace).is_visible()
    await reading.button("Source").click()
    await expect(reader.get_by_text("Return-Path: <alice@example.com>")).to_be_visible()
    assert await reading.button("Source").get_attribute("aria-pressed") == "true"
    async with reading.saving() as saved:
        await reading.button("Save as .eml").click()
    assert saved.name == "Confirm your account.eml"
    await reading.button("Copy as curl").click()
    await expect(reading.page.get_by_text("Copied").first).to_be_attached()
    assert (await reading.pasted()).startswith('curl -H "Authorization: Bearer ')
    source = saved.octets
    assert source.startswith(b"Return-Path: <alice@example.com>\r\n")
    assert source.endswith(sign_up("Confirm your account")[-200:])
    attachments = reading.reader.get_by_role("list", name="Attachments").get_by_role("button")
    assert await attachments.count() == 1  # the logo is not listed, because it is embedded in the HTML
    assert "BIN · 256 B" in await attachments.inner_text()
    async with reading.saving() as saved:
        await attachments.click()
    assert (saved.name, saved.octets) == ("thing.bin", OCTETS)


@pytest.mark.browsers("firefox", "webkit")
async def test_print_and_ctrl_p_print_the_whole_html_or_the_shown_form(reading):
    await reading.mail.get_by_text(CODE).wait_for()
    await reading.page.evaluate(SCRIPTS["PRINTED"])
    await reading.button("Print").click()
    await reading.page.keyboard.press("Control+p")
    await reading.button("Source").click()
    await reading.page.keyboard.press("Control+p")
    assert await reading.page.evaluate("printed") == ["html", "html", "page"]


SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(1)</script></svg>"
FILES = [
    ("photo.png", "image/png", PIXEL),
    ("drawing.png", "image/png", SVG),
    ("drawing.svg", "image/svg+xml", SVG),
    ("notes.txt", "text/plain", "Grüße\r\n\t<b>exe.\u202egpj</b>\n".encode()),
    ("notes.txt", "application/octet-stream", b"\xff\xfeh\0i\0"),
    ("terms.pdf", "application/pdf", b"%PDF-1.7"),
]
EVENT = """BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:Design\r\n  review\r\nDTSTART;TZID=Europe/Oslo:20261202T090000\r
LOCATION:Room 4\\, <b>2nd</b> floor\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"""
FILES.append(("invite.ics", "text/calendar", EVENT.encode()))


@pytest.mark.browsers("firefox", "webkit")
async def test_images_and_text_are_previewed_and_other_attachments_are_saved_immediately(tab, expect):
    tab.daemon.deliver(await tab.address(), "Files", attachments=FILES)
    await tab.open("Files")
    attachments = tab.reader.get_by_role("list", name="Attachments").get_by_role("listitem")
    shown = attachments.locator("[aria-expanded]")
    assert [(await one.inner_text()).split("\n")[0] for one in await shown.all()] == [
        FILES[index][0] for index in (0, 1, 3, 4, 6)
    ]
    await shown.nth(0).click()
    await expect(tab.reader.get_by_role("img", name="photo.png")).to_have_js_property("naturalWidth", 1)
    await expect(shown.nth(0)).to_have_attribute("aria-expanded", "true")
    await shown.nth(1).click()
    await expect(tab.reader.get_by_text("This image cannot be shown here.")).to_be_visible()
    await expect(tab.reader.get_by_role("img")).to_have_count(0)
    await shown.nth(2).click()
    assert await tab.reader.get_by_role("region", name="notes.txt").inner_text() == "Grüße\n\t<b>exe. gpj</b>\n"
    await shown.nth(3).click()
    await expect(tab.reader.get_by_role("region", name="notes.txt")).to_have_text("hi")
    await shown.nth(3).click()
    await expect(tab.reader.get_by_role("region")).to_have_count(0)
    await shown.nth(4).click()
    assert re.sub(r"\s+", " ", (await tab.reader.locator(".event").inner_text()).strip()) == (
        "Design review When Dec 2, 2026, 9:00 AM (Europe/Oslo) Where Room 4, <b>2nd</b> floor"
    )
    async with tab.saving() as saved:
        await tab.button("Save all as ZIP").click()
    assert saved.name == "Files.zip"
    with zipfile.ZipFile(io.BytesIO(saved.octets)) as archive:
        assert [archive.read(one) for one in archive.infolist()] == [octets for _, _, octets in FILES]
        assert archive.namelist()[3:5] == ["notes.txt", "notes (2).txt"]
    fetched = [path for path in await tab.answered() if "/attachments/" in path]
    assert len(fetched) == len(set(fetched)) == len(FILES)


@pytest.mark.browsers("firefox", "webkit")
async def test_a_search_queries_the_server_only_on_enter_and_only_for_partly_loaded_text(tab, expect):
    filler = "a line of text\n" * 6000
    for subject, text in (("long", f"{filler[:30_000]}needle\n{filler}"), ("longer", filler), ("short", "Needle?")):
        tab.daemon.deliver(await tab.address(), subject, text=text)
        await tab.row(subject).wait_for()
    found = tab.page.get_by_role("search").get_by_role("status")
    search = tab.page.get_by_role("searchbox", name="Search this inbox")
    await search.fill("needle")
    await expect(found).to_have_text("1 of 3")
    await expect(
        tab.page.get_by_text("2 long messages are only partly loaded. Press Enter to search the rest.")
    ).to_be_visible()
    before = await tab.answered()
    await search.press("Enter")
    await expect(found).to_have_text("2 of 3")
    address = (await tab.address()).replace("@", "%40")
    assert await tab.answered() == [*before, f"addresses/{address}/messages?q=needle"]
    await expect(tab.list.locator("li:visible .subject")).to_have_text(["short", "long"])
    await search.press("Enter")
    await expect(tab.row("short")).to_be_focused()
    await tab.page.keyboard.press("/")
    await search.press("Escape")
    await expect(tab.list.locator("li:visible")).to_have_count(3)
