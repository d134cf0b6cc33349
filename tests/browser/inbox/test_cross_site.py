"""The page's own requests pass the API's cross-site check, whether its host is a name or an IP address."""

from pathlib import Path

import pytest

MAIL = Path(__file__).with_name("cross-site.eml").read_bytes()


@pytest.mark.parametrize("name", ["127.0.0.1", "inbox.example"])
async def test_the_page_creates_shows_and_deletes_and_its_frames_send_no_api_requests(daemon, new_tab, expect, name):
    """For plain HTTP to a host other than localhost, browsers send no Sec-Fetch-Site, so the origin decides."""
    tab, framed = await new_tab(), []

    def on_request(request):
        if request.frame.parent_frame:
            framed.append(request.url)

    tab.page.on("request", on_request)
    await (await tab.visit(url=daemon.url.replace("127.0.0.1", name))).until_live()
    daemon.deliver_raw(await tab.address(), MAIL)
    await tab.until_subjects("Welcome")
    await tab.open("Welcome")
    await expect(tab.mail.get_by_alt_text("Logo")).to_have_js_property("naturalWidth", 1)
    assert {url.partition("/view/")[1] for url in framed if not url.startswith("data:")} == {"/view/"}
    await tab.button("Delete message").click()
    await tab.until_subjects()
    await tab.end()
    await expect(tab.heading("This address was deleted")).to_be_visible()
    assert {method for method, _ in tab.asked} == {"POST", "DELETE"}
