"""The page works in browsers that lack some features, or that disable them because cookies are blocked."""

import pytest

from scripts import scripts_of

SCRIPTS = scripts_of(__file__)


@pytest.mark.parametrize("taken_away", [SCRIPTS["REFUSED"], SCRIPTS["MISSING"]], ids=["refused", "missing"])
async def test_without_storage_locks_channels_notifications_and_clipboard_mail_is_read_and_copied(
    new_tab, expect, taken_away
):
    tab = await new_tab()
    await tab.page.add_init_script(f"({taken_away})()")
    await (await tab.visit()).until_live()
    tab.daemon.deliver(await tab.address(), "Sign up", text="Your verification code is 482913.")
    await tab.until_subjects("Sign up")
    await tab.button("Copy code 482913", tab.rows).click()
    assert await tab.pasted() == "482913"
    await expect(tab.reader).to_contain_text("482913")
    bell = tab.button("Notify me of new messages")
    if await bell.is_visible():
        await bell.click()
        await expect(tab.page.get_by_text("This browser does not allow notifications from this site.")).to_be_visible()
    await tab.another()
    await expect(tab.choices).to_have_count(2)
