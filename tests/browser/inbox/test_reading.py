"""Reading a message: the space that it has on the screen, stable positions, and deceptive sender names."""

import re
import time

import pytest

from scripts import scripts_of

SCRIPTS = scripts_of(__file__)
# Sender names; True means that the name looks like an address.
CLAIMS = {
    "security@bank.example": True,
    "security\uff20bank.example": True,
    "security\ufe6bbank.example": True,
    "Bank Security bank\uff0eexample": True,
    "bank.example": True,
    "evil.example": False,
    "Evil from mail.evil.example": False,
    "a@evil.example": False,
    "Dr. Ada L. Byron": False,
}

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
SMALL = {"width": 1280, "height": 720}
SIGN_UP = "<p>Your verification code is <b>482913</b>.</p><p><a href='https://orchard.example/confirm?t=9f2c81'>Confirm</a></p>"
REMOTE = "<img src='https://images.example/1.png'>"
BOX = (
    "one => { const { top, bottom, left, right } = one.getBoundingClientRect(); return { top, bottom, left, right }; }"
)
HEIGHTS = "rows => rows.map((one) => one.getBoundingClientRect().height)"
MARKS = "\u0301\u0302\u0303\u0304\u0335\u0489"


async def box(locator):
    return await locator.evaluate(BOX)


async def test_a_message_gets_most_of_a_small_screen_and_nothing_shifts_when_it_opens(
    open_inbox, daemon, inbox, expect
):
    daemon.deliver(inbox.address, "Confirm", text="Your verification code is 482913.", html=SIGN_UP + REMOTE)
    daemon.deliver(inbox.address, "Other")
    tab = await open_inbox(inbox, viewport=SMALL)
    await expect(tab.rows).to_have_count(2)
    closed = [await tab.rows.evaluate_all(HEIGHTS), await box(tab.list), await box(tab.card)]
    await tab.open("Confirm")
    await expect(tab.reader.get_by_text("1 remote image blocked.")).to_be_visible()
    # The server in this test does not authenticate senders.
    assert await tab.page.locator(".proof > *, .verdict").count() == 0
    frame = tab.reader.locator("iframe")
    assert await frame.evaluate("one => one.clientHeight") >= 480
    assert (
        await frame.evaluate("one => [getComputedStyle(one).borderWidth, getComputedStyle(one).padding]") == ["0px"] * 2
    )
    assert await tab.reader.evaluate("one => one.scrollHeight - one.clientHeight") == 0
    assert [await tab.rows.evaluate_all(HEIGHTS), await box(tab.list), await box(tab.card)] == closed
    modes, delete = await box(tab.button("Source")), await box(tab.button("Delete message"))
    assert delete["top"] < modes["bottom"]
    assert modes["top"] < delete["bottom"]


async def test_on_a_phone_going_back_leads_to_the_same_place_in_the_list(open_inbox, daemon, inbox, expect):
    for number in range(15):
        daemon.deliver(inbox.address, f"mail {number:02}")
    tab = await open_inbox(inbox, **PHONE)
    await expect(tab.rows).to_have_count(15)
    row = tab.row("mail 03")
    await row.scroll_into_view_if_needed()
    before = await box(row)
    for go_back in (tab.page.go_back, tab.button("Back").tap):
        await row.tap()
        await expect(tab.heading("mail 03")).to_be_visible()
        await expect(tab.card.locator(".address")).to_be_visible()
        await expect(tab.button("Copy", tab.card)).to_be_in_viewport()
        await go_back()
        await expect(row).to_be_in_viewport()
        assert await box(row) == pytest.approx(before, abs=2)


async def test_a_reload_opens_the_message_again_and_a_closed_message_stays_closed(open_inbox, daemon, inbox, expect):
    for subject in ("one", "two"):
        daemon.deliver(inbox.address, subject)
    tab = await open_inbox(inbox, viewport=SMALL)
    await tab.row("two").click()  # a wide screen would automatically open an unread message
    await tab.page.keyboard.press("Escape")
    await tab.row("one").click()
    await tab.page.reload()
    await expect(tab.heading("one")).to_be_visible()
    await tab.page.keyboard.press("Escape")
    await tab.page.reload()
    await tab.until_live()
    await tab.until_subjects("two", "one")
    await expect(tab.reader).to_be_hidden()


@pytest.mark.browsers("firefox")
async def test_rendered_forms_are_cached_and_the_dark_view_is_remembered_and_costs_no_request(tab, expect):
    tab.daemon.deliver(await tab.address(), "Newsletter", html="<p>read me</p>")
    await expect(tab.mail.get_by_text("read me")).to_be_visible()
    tab.asked.clear()
    await tab.row("Newsletter").click()
    for mode in ("Text", "HTML", "Source", "HTML"):
        await tab.button(mode).click()
    await expect(tab.mail.get_by_text("read me")).to_be_visible()
    assert [path.rpartition("/")[2] for _, path in tab.asked] == ["raw"]
    tab.daemon.deliver(await tab.address(), "Hello", html="<p>read me</p>")
    dark = tab.button("Show messages in dark colors")
    await expect(tab.mail.get_by_text("read me")).to_be_visible()
    await tab.reader.get_by_role("combobox", name="Width").select_option("360 px")
    await expect(tab.reader.locator("iframe")).to_have_css("width", "360px")
    await expect(dark).to_have_attribute("aria-pressed", "false")
    tab.asked.clear()
    steps = await tab.page.evaluate("history.length")
    async with tab.page.expect_event("framenavigated"):
        await dark.click()
    await expect(dark).to_have_attribute("aria-pressed", "true")
    assert tab.page.frames[-1].url.endswith("#dark")
    for mode in ("Text", "HTML"):
        await tab.button(mode).click()
    await expect(tab.mail.get_by_text("read me")).to_be_visible()
    assert [tab.asked, await tab.page.evaluate("history.length")] == [[], steps]
    await tab.page.reload()
    await expect(tab.mail.get_by_text("read me")).to_be_visible()
    await expect(dark).to_have_attribute("aria-pressed", "true")
    assert tab.page.frames[-1].url.endswith("#dark")


async def test_a_failed_view_and_an_empty_frame_recover_when_the_service_is_available_again(tab, expect):
    await tab.page.route("**/view", lambda route: route.fulfill(status=503, json={"code": "storage-full"}))
    tab.daemon.deliver(await tab.address(), "Hello", html="<p>read me</p>")
    await expect(tab.reader.get_by_text("The service is full at the moment.")).to_be_visible()
    await expect(tab.reader.get_by_text("It works.")).to_be_visible()  # the text part has already been loaded
    await tab.page.unroute("**/view")
    await expect(tab.mail.get_by_text("read me")).to_be_visible()
    await tab.page.route("**/view/*", lambda route: route.abort())
    tab.daemon.deliver(await tab.address(), "Again", html="<p>read me again</p>")
    await tab.open("Again")
    await expect(tab.reader.get_by_text("The service cannot be reached.")).to_be_visible()
    await tab.page.unroute("**/view/*")
    await expect(tab.mail.get_by_text("read me again")).to_be_visible()
    tab.asked.clear()
    await tab.button("Text").click()
    await tab.button("HTML").click()
    await expect(tab.mail.get_by_text("read me again")).to_be_visible()
    assert tab.asked == []


async def test_a_name_that_looks_like_an_address_is_shown_with_the_real_address(
    open_inbox, daemon, inbox, expect, subtests
):
    for name in CLAIMS:
        daemon.deliver(inbox.address, "Hello", sender=f'"{name}" <a@evil.example>')
    tab = await open_inbox(inbox)
    await expect(tab.rows).to_have_count(len(CLAIMS))
    for number, (name, is_claim) in enumerate(reversed(CLAIMS.items())):
        with subtests.test(name):
            row = tab.rows.nth(number)
            await row.get_by_role("button").first.click()
            assert ("a@evil.example \u201c" in await row.inner_text()) == is_claim
            assert ("calls itself" in await tab.reader.inner_text()) == is_claim
            assert "a@evil.example" in await tab.reader.locator("header").inner_text()


@pytest.mark.browsers("firefox", "webkit")
async def test_a_hostile_subject_is_truncated_stays_in_its_place_and_can_be_read_completely(
    open_inbox, daemon, inbox, expect
):
    subjects = ["Z" + MARKS * 200 + "algo", "\u202e" + "long " * 2000, "x" * 10_000]
    for subject in subjects:
        daemon.deliver(inbox.address, subject, sender=f"{'n' + MARKS * 99} <a@evil.example>", text="t" + MARKS * 300)
    tab = await open_inbox(inbox, viewport=SMALL)
    await expect(tab.rows).to_have_count(3)
    heights = await tab.rows.evaluate_all(HEIGHTS)
    assert max(heights) - min(heights) <= 1  # rows may differ by the width of a border
    title, more = tab.reader.get_by_role("heading"), tab.button("Show the whole subject")
    for number, subject in enumerate(reversed(subjects)):
        await tab.rows.nth(number).get_by_role("button").first.click()
        assert not re.search("\\w[\u0300-\u036f\u0489]{5}|\u202e", await title.text_content())
        height = await title.evaluate("one => one.getBoundingClientRect().height")
        assert height <= 80
        if len(subject) < 5000:
            continue
        await more.click()
        assert await title.evaluate("one => one.getBoundingClientRect().height") > height
        await tab.button("Show less").click()
        assert await title.evaluate("one => one.getBoundingClientRect().height") == height


async def test_a_long_address_fits_next_to_the_copy_button_at_every_width(open_inbox, daemon, expect):
    inbox = daemon.create(local_part="a-very-long-local-part-" * 2 + "of-64-characters-x")
    tab = await open_inbox(inbox, **PHONE)
    for width in (320, 360, 768, 1024, 1440):
        await tab.page.set_viewport_size({"width": width, "height": 740})
        copy, address = await box(tab.button("Copy", tab.card)), await box(tab.card.locator(".address"))
        assert address["right"] <= copy["left"]
        assert copy["top"] < (address["top"] + address["bottom"]) / 2 < copy["bottom"]
    assert await tab.address() == inbox.address
    await tab.card.locator(".address").click()
    await tab.page.keyboard.press("Control+C")
    assert await tab.pasted() == inbox.address


CONFIRM = "<a href='https://{0}/confirm?t=9f2c81'>Confirm your e-mail address{1}</a>"


async def test_only_one_button_is_filled_and_never_for_a_link_that_is_not_from_the_sender(
    open_inbox, daemon, inbox, expect
):
    host = "accounts.shop.example." * 6 + "evil.example"
    mails = {
        "deceptive": {"html": CONFIRM.format("evil.example", " at shop.example"), "sender": "Shop <a@evil.example>"},
        "foreign": {"html": CONFIRM.format(host, "")},
        "link": {"html": CONFIRM.format("click.shop.example", ""), "sender": "Shop <no-reply@shop.example>"},
        "both": {"text": "Your verification code is 482913.", "html": SIGN_UP, "sender": "a@orchard.example"},
    }
    tab = await open_inbox(inbox, viewport=SMALL)
    assert await tab.page.evaluate(SCRIPTS["FILLED"]) == [await tab.button("Copy", tab.card).inner_text()]
    for subject, mail in mails.items():
        daemon.deliver(inbox.address, subject, **mail)
        await tab.row(subject).wait_for()
    filled = {}
    for subject in mails:
        await tab.row(subject).click()
        filled[subject] = await tab.page.evaluate(SCRIPTS["FILLED"])
    assert filled == {"deceptive": [], "foreign": [], "link": ["Open click.shop.example"], "both": ["Copy"]}
    await tab.row("deceptive").click()
    for place in (tab.rows.last, tab.reader):
        warning, link = place.locator(".warning"), place.get_by_role("link", name="Open evil.example")
        await expect(warning).to_contain_text("The text says shop.example, but the link leads to evil.example.")
        assert (await box(warning))["bottom"] <= (await box(link))["top"]
    shown = await tab.rows.nth(2).get_by_role("link").inner_text()
    assert shown.endswith("evil.example")
    assert len(shown) < 60
    await tab.button("Copy code 482913", tab.rows).click()
    await expect(tab.rows.first.get_by_text("Copied")).to_be_visible()
    assert await tab.pasted() == "482913"


@pytest.mark.parametrize("local_part", ["maria.schneider.26", None], ids=["chosen", "random"])
async def test_a_shortened_address_is_marked_and_copied_in_full(open_inbox, daemon, expect, local_part):
    inbox = daemon.create(**{"local_part": f"{local_part}-{time.time_ns()}"} if local_part else {})
    daemon.deliver(inbox.address, "one")
    tab = await open_inbox(inbox, **PHONE)
    parts = tab.card.locator(".address > span")
    assert await parts.evaluate_all("all => all.filter((one) => one.scrollWidth > one.clientWidth).length") == 0
    await tab.row("one").tap()
    for width in (360, 320):
        await tab.page.set_viewport_size({"width": width, "height": 740})
        await expect(tab.heading("one")).to_be_visible()
        assert (width, await parts.evaluate_all(SCRIPTS["CUT_WITHOUT_A_SIGN"])) == (width, [])
    assert await parts.evaluate_all("all => all.some((one) => one.scrollWidth > one.clientWidth)")
    assert await tab.card.locator(".address").evaluate("one => getComputedStyle(one).webkitUserSelect") == "all"
    await tab.card.locator(".address").click()
    await tab.page.keyboard.press("Control+C")
    assert await tab.pasted() == inbox.address


async def test_the_search_stays_in_place_and_an_empty_result_is_announced(tab, expect):
    search, title, address = tab.page.get_by_role("searchbox"), tab.page.locator("#mail-title"), await tab.address()
    place, height = await box(search), (await box(title))["top"]
    for subject in ("one", "two"):
        tab.daemon.deliver(
            address, subject, text=f"https://shop.example/{subject} Read this https://shop.example/b now."
        )
        await tab.row(subject).wait_for()
        assert await box(search) == place
    assert "http" not in await tab.list.inner_text()
    await search.fill("nothing like it")
    await expect(tab.page.get_by_text("No messages match.")).to_be_visible()
    assert (await box(search), (await box(title))["top"]) == (place, height)


@pytest.mark.parametrize("size", [(720, 450), (360, 225)], ids=["200 %", "400 %"])
async def test_when_zoomed_in_the_address_can_still_be_read_and_copied_completely(any_tab, size):
    tab = await (await any_tab(viewport=dict(zip(("width", "height"), size, strict=True)))).visit()
    address = await tab.address()
    parts = tab.card.locator(".address > span")
    assert await parts.evaluate_all("all => all.filter((one) => one.scrollWidth > one.clientWidth).length") == 0
    await tab.card.get_by_role("button", name="Copy").click()
    assert await tab.pasted() == address


async def test_on_a_phone_reloading_a_message_adds_no_history_entry(open_inbox, daemon, inbox, expect):
    daemon.deliver(inbox.address, "one")
    tab = await open_inbox(inbox, **PHONE)
    await tab.row("one").tap()
    await expect(tab.heading("one")).to_be_visible()
    steps = await tab.page.evaluate("history.length")
    for _ in range(2):
        await tab.page.reload()
        await expect(tab.heading("one")).to_be_visible()
    assert await tab.page.evaluate("history.length") == steps
    await tab.page.go_back()
    await expect(tab.reader).to_be_hidden()
    await expect(tab.row("one")).to_be_visible()


async def test_a_long_message_is_printed_on_several_sheets_and_the_list_is_printed_if_no_message_is_open(
    open_inbox, daemon, inbox
):
    daemon.deliver(inbox.address, "Long", text="A line.\n\n" * 200)
    tab = await open_inbox(inbox)
    await tab.open("Long")
    assert sheets(await tab.page.pdf()) > 4
    await tab.page.keyboard.press("Escape")
    assert sheets(await tab.page.pdf()) == 1
    await tab.page.emulate_media(media="print")
    assert await tab.list.is_visible()


async def test_a_folded_quote_in_a_text_is_printed_and_then_folded_again(open_inbox, daemon, inbox, expect):
    daemon.deliver(inbox.address, "Re: one", text="Agreed.\n\nAlice wrote:\n" + "> a line\n" * 200)
    tab = await open_inbox(inbox)
    await tab.open("Re: one")
    quote = tab.reader.locator("pre").filter(has_text="a line")
    await expect(quote).to_be_hidden()
    assert sheets(await tab.page.pdf()) > 3
    await expect(quote).to_be_hidden()
    await tab.reader.get_by_text("Quoted text").click()
    assert sheets(await tab.page.pdf()) > 3
    await expect(quote).to_be_visible()  # the reader has unfolded it


def sheets(pdf):
    return len(re.findall(rb"/Type /Page\b", pdf))


async def test_links_in_a_text_are_where_the_server_reports_them(open_inbox, daemon, inbox, expect):
    """The server's offsets count code points, and the page adds no rules for brackets, Chinese or Arabic."""
    found = ["http://static.example/TD-W9970(EU)_V2.pdf", "https://x.example/verify?t=aB3_", "https://x.example/z"]
    text = f"🎉🎉 Guide: {found[0]}\uff0c完成 {found[1]}، **{found[2]}** 🎉 end"
    daemon.deliver(inbox.address, "Links", text=text)
    daemon.deliver(inbox.address, "None", text="Nothing to follow")
    tab = await open_inbox(inbox)
    await tab.open("Links")
    drawn = tab.reader.locator("pre.text a")
    await expect(drawn).to_have_text(found)
    assert [await one.get_attribute("href") for one in await drawn.all()] == found
    assert await tab.reader.locator("pre.text").inner_text() == f"{text}\n"
    asked = []
    tab.page.on("request", lambda request: asked.append(request.url))
    await tab.open("None")
    await expect(tab.reader.locator("pre.text")).to_have_text("Nothing to follow")
    assert [url for url in asked if "/messages/" in url] == []


def outlook_header(separator, *fields):
    """Return the lines above the message that Outlook quotes."""
    return "\n".join([separator, *fields, "", *(f"line {number} of what was said before" for number in range(4))])


UNDERSCORES = "_" * 32
TEXT_REPLIES = {
    "RE: one": outlook_header(
        UNDERSCORES,
        "From: Shop <shop@shop.example>",
        "Sent: Friday, November 27, 2026 2:30 PM",
        "To: Anna <anna@mail.example>",
        "Subject: one",
    ),
    "AW: zwei": outlook_header(
        "-----Ursprüngliche Nachricht-----",
        "Von: Laden <laden@shop.example>",
        "Gesendet: Freitag, 27. November 2026 14:30",
        "An: Anna <anna@mail.example>",
        "Betreff: Re: zwei",
        "Wichtigkeit: Hoch",
    ),
    "RE: trois": outlook_header(
        "-----Message d'origine-----",
        "De : Boutique <boutique@shop.example>",
        "Envoyé : vendredi 27 novembre 2026 14:30",
        "À : Anna <anna@mail.example>",
        "Objet : trois",
    ),
    "Re: cuatro": outlook_header(
        "-----Mensaje original-----",
        "De: Tienda <tienda@shop.example>",
        "Enviado el: viernes, 27 de noviembre de 2026 14:30",
        "Para: Anna <anna@mail.example>",
        "CC: Ben <ben@mail.example>",
        "Asunto: cuatro",
    ),
    "رد: خمسة": outlook_header(
        UNDERSCORES,
        "من: متجر <shop@shop.example>",
        "تم الإرسال: الجمعة، ٢٧ نوفمبر ٢٠٢٦ ٢:٣٠ م",
        "إلى: Anna <anna@mail.example>",
        "الموضوع: خمسة",
    ),
}
WHOLE_TEXTS = {
    "Re: a signature": f"{UNDERSCORES}\nAnna Shop, 12:30\nphone: 1\nfax: 2\nweb: 3\nmail: 4\nline 2 of what was said before",
    "Re: a ticket": outlook_header(
        "----- Your ticket -----", "Name: Anna", "Opened: 12:30", "Status: open", "Topic: printers"
    ),
    "Fwd: one": TEXT_REPLIES["RE: one"],
    "A newsletter": outlook_header(UNDERSCORES, "A: 12:30", "B: b", "C: c", "D: A newsletter"),
}


async def test_a_text_is_folded_from_the_line_where_outlook_quotes_a_message_with_the_same_subject(
    open_inbox, daemon, inbox, expect, subtests
):
    for subject, text in (TEXT_REPLIES | WHOLE_TEXTS).items():
        daemon.deliver(inbox.address, subject, text=f"Your new code is 482913.\n\n{text}\n")
    daemon.deliver(inbox.address, "Re: nothing else", text=TEXT_REPLIES["RE: one"].replace(": one", ": nothing else"))
    tab = await open_inbox(inbox)
    text, toggle = tab.reader.locator("pre.text"), tab.reader.get_by_text("Quoted text")
    line = text.get_by_text("line 2 of what")
    for subject in TEXT_REPLIES:
        with subtests.test(subject):
            await tab.open(subject)
            await expect(toggle).to_be_visible()
            await expect(line).to_be_hidden()
            await expect(text.first).to_have_text("Your new code is 482913.")
            await toggle.click()
            await expect(line).to_be_visible()
    for subject in (*WHOLE_TEXTS, "Re: nothing else"):
        with subtests.test(subject):
            await tab.open(subject)
            await expect(line).to_be_visible()
            await expect(tab.reader.locator("[aria-busy=true]")).to_have_count(0)
            await expect(toggle).to_have_count(0)


async def test_quoted_lines_of_a_text_are_folded_and_open_with_their_links(open_inbox, daemon, inbox, expect):
    quoted = "".join(f"> line {number} https://shop.example/{number}\n" for number in range(4))
    daemon.deliver(inbox.address, "Re: one", text=f"🎉 Agreed.\n\nAlice wrote:\n{quoted}\nBye\n> only one\n")
    tab = await open_inbox(inbox)
    await tab.open("Re: one")
    await expect(tab.reader.get_by_text("line 2")).to_be_hidden()
    await expect(tab.reader.get_by_text("> only one")).to_be_visible()
    await tab.reader.get_by_text("Quoted text").click()
    await expect(tab.reader.get_by_role("link", name="https://shop.example/2")).to_be_visible()
    assert "Agreed." in await tab.reader.locator("pre.text").first.inner_text()


HEADER = (
    "<b>From:</b> Shop &lt;shop@shop.example&gt;<br><b>Sent:</b> Friday, November 27, 2026 2:30 PM<br>"
    "<b>To:</b> Anna &lt;anna@mail.example&gt;<br><b>Subject:</b> {0}"
)
RULE = "border:none;border-top:solid #E1E1E1 1.0pt;padding:3.0pt 0in 0in 0in"
LINES = "".join(f"<div>line {number} of what was said before</div>" for number in range(6))
REPLIES = {
    "Re: Gmail": "<div dir=ltr>Agreed.</div><br><div class=gmail_quote><div class=gmail_attr>Alice wrote:<br></div>"
    f"<blockquote class=gmail_quote style='margin:0 0 0 .8ex'><div dir=ltr>{LINES}</div></blockquote></div>",
    "AW: Apple": "<body style='word-wrap:break-word'>Agreed.<br><div><br><blockquote type='cite'><div>Alice wrote:</div>"
    f"<br><div>{LINES}</div></blockquote></div><br></body>",
    "Re: Thunderbird": f"<div class=moz-cite-prefix>Alice wrote:</div><blockquote type=cite cite='mid:1@shop.example'>{LINES}"
    f"<blockquote type=cite>{LINES}</blockquote></blockquote><p>Agreed.</p>",
    "回复: Proton": f"<div>Agreed.</div><div class=protonmail_quote>Alice wrote:<blockquote class=protonmail_quote>{LINES}"
    "</blockquote></div>",
    "Re: Outlook.com": "<div>Agreed.</div><div id=appendonsend></div><hr style='display:inline-block;width:98%'>"
    f"<div id=divRplyFwdMsg dir=ltr><font face=Calibri>{HEADER.format('Outlook.com')}</font><div>&nbsp;</div></div><div>{LINES}</div>",
    "RE: Windows": "<div class=WordSection1><p class=MsoNormal>Agreed.</p><div>"
    f"<div style='{RULE}'><p class=MsoNormal>{HEADER.format('RE: Windows')}</p></div></div>"
    f"<p class=MsoNormal>&nbsp;</p>{LINES}<blockquote type=cite>{LINES}</blockquote></div>",
    "AW: Outlook auf Deutsch": "<div class=WordSection1><p class=MsoNormal>Agreed.</p>"
    "<div style='border-style:solid none none;border-width:1pt medium medium;padding:3pt 0cm 0cm'><p><b>Von:</b> Laden<br>"
    "<b>Gesendet:</b> Freitag, 27. November 2026 14:30<br><b>An:</b> Anna<br><b>Betreff:</b> Outlook auf Deutsch</p></div>"
    f"{LINES}</div>",
    "Re: Outlook on a phone": "<div dir=ltr>Agreed.</div><div id=mail-editor-reference-message-container><hr>"
    f"<div id=divRplyFwdMsg>{HEADER.format('x')}</div>{LINES}</div>",
    "R: Hotmail": f"<div dir=ltr>Agreed.<br><div><hr id=stopSpelling>From: shop@shop.example<br>Subject: x<br>{LINES}</div></div>",
    "RE: Exchange": "<p><font size=2>Agreed.<br><br>-----Original Message-----<br>From: Shop<br>Sent: Friday, November 27, 2026 2:30 PM"
    f"<br>To: Anna<br>Subject: Exchange<br><br></font></p>{LINES}",
    "Re: Outlook in a table": f"<table><tr><td>Agreed.<hr><div id=x_divRplyFwdMsg>{HEADER.format('x')}</div>{LINES}</td></tr></table>",
    "Re: hostile": "<style>details,summary,.quoted,[class]{display:none!important;opacity:0!important;"
    "font-size:0!important;color:white!important}blockquote{display:block!important}</style>"
    f"Agreed.<blockquote type=cite>{LINES}</blockquote>",
}
WHOLE = {
    "Re: a design": f"<p>Our readers say:</p><blockquote class=quote style='border-left:3px solid'>{LINES}</blockquote>",
    "Fwd: Gmail": "<div dir=ltr>See below.</div><div class=gmail_quote><div class=gmail_attr>Forwarded message</div>"
    f"<blockquote class=gmail_quote>{LINES}</blockquote></div>",
    "A newsletter": f"<p>News</p><blockquote type=cite>{LINES}</blockquote>",
    "Re: nothing else": f"<div>\n<blockquote type=cite>{LINES}</blockquote>\n</div>",
    "Re: short": "<p>Agreed.</p><blockquote type=cite><div>line 2 of what was said before</div></blockquote>",
    "Fwd: Outlook": f"<div>See below.</div><hr><div id=divRplyFwdMsg>{HEADER.format('Outlook')}</div>{LINES}",
    "Re: only Outlook": f"<div><hr><div id=divRplyFwdMsg>{HEADER.format('x')}</div>{LINES}</div>",
    "Re: a ruled footer": f"<p>News</p><div style='{RULE}'><b>Phone:</b> 1<br><b>Open:</b> 8:30<br><b>Web:</b> 2<br><b>Mail:</b> 3</div>{LINES}",
    "Re: a different subject": f"<p>News</p><div style='{RULE}'>{HEADER.format('x')}</div>{LINES}",
}


@pytest.mark.browsers("firefox")
async def test_a_quote_in_the_html_of_a_reply_is_folded_and_opens_with_a_tap(
    open_inbox, daemon, inbox, expect, subtests
):
    for subject, html in (REPLIES | WHOLE).items():
        daemon.deliver(inbox.address, subject, html=html)
    tab = await open_inbox(inbox)
    line, toggle = tab.mail.get_by_text("line 2 of what").first, tab.mail.get_by_text("Quoted text")
    for subject in REPLIES:
        with subtests.test(subject):
            await tab.open(subject)
            await expect(toggle).to_be_visible()
            await expect(toggle).to_have_count(1)
            await expect(line).to_be_hidden()
            await expect(tab.mail.get_by_text("Agreed.")).to_be_visible()
            await toggle.click()
            await expect(line).to_be_visible()
    for subject in WHOLE:
        with subtests.test(subject):
            await tab.open(subject)
            await expect(line).to_be_visible()
            await expect(toggle).to_have_count(0)


@pytest.mark.browsers("firefox", "webkit")
@pytest.mark.parametrize("subject", ["Re: Gmail", "Re: Outlook.com"])
async def test_a_folded_quote_opens_where_a_frame_runs_no_scripts(open_inbox, daemon, inbox, expect, subject):
    daemon.deliver(inbox.address, subject, html=REPLIES[subject])
    tab = await open_inbox(inbox)
    await tab.open(subject)
    await expect(tab.mail.get_by_text("Agreed.")).to_be_visible()
    await expect(tab.mail.get_by_text("line 2 of what")).to_be_hidden()
    click = "document.querySelector('iframe').contentDocument.querySelector('summary').click()"
    await tab.page.evaluate(click)  # WebKit's driver cannot click in a frame
    await expect(tab.mail.get_by_text("line 2 of what")).to_be_visible()


@pytest.mark.parametrize("subject", ["Re: Gmail", "Re: Outlook.com"])
async def test_a_folded_quote_is_printed(open_inbox, daemon, inbox, expect, subject):
    daemon.deliver(inbox.address, subject, html=REPLIES[subject])
    tab = await open_inbox(inbox)
    await tab.open(subject)
    await expect(tab.mail.get_by_text("Agreed.")).to_be_visible()
    await expect(tab.mail.get_by_text("line 2 of what")).to_be_hidden()
    await tab.page.emulate_media(media="print")
    shown = "document.querySelector('iframe').style.setProperty('display', 'block', 'important')"
    await tab.page.evaluate(shown)  # make the frame visible, because it contains the printed content
    await expect(tab.mail.get_by_text("line 2 of what")).to_be_visible()
    await expect(tab.mail.get_by_text("Quoted text")).to_be_hidden()
