"""What a browser may lack, or refuse as with cookies blocked: the page does without it."""

import pytest

FACILITIES = """
const refuse = () => { throw new DOMException("The operation is insecure.", "SecurityError"); };
const refused = { get: refuse };
const unkept = { request: () => Promise.reject(new DOMException("no", "SecurityError")) };
const of = (object, facilities) => Object.entries(facilities).forEach(([name, about]) =>
  Object.defineProperty(object, name, { configurable: true, ...about }));
"""
REFUSED = """
of(window, { localStorage: refused, sessionStorage: refused, BroadcastChannel: { value: class { constructor() { refuse(); } } } });
of(Notification, { permission: refused, requestPermission: { value: refuse } });
of(Navigator.prototype, { locks: { value: unkept }, clipboard: { value: { writeText: () => Promise.reject(new Error("no")) } },
  serviceWorker: refused });
"""
MISSING = """
delete window.Notification;
delete window.BroadcastChannel;
of(window, { localStorage: { value: null }, sessionStorage: { value: null } });
for (const name of ["locks", "clipboard", "serviceWorker"]) delete Navigator.prototype[name];
"""


@pytest.mark.parametrize("taken_away", [REFUSED, MISSING], ids=["refused", "missing"])
async def test_without_storage_locks_channels_notifications_and_clipboard_mail_is_read_and_copied(
    new_tab, expect, taken_away
):
    tab = await new_tab()
    await tab.page.add_init_script(FACILITIES + taken_away)
    await (await tab.visit()).until_live()
    tab.daemon.deliver(await tab.address(), "Sign up", text="Your verification code is 482913.")
    await tab.until_subjects("Sign up")
    await tab.button("Copy code 482913", tab.rows).click()
    assert await tab.pasted() == "482913"
    await expect(tab.reader).to_contain_text("482913")
    bell = tab.button("Notify me of new mail")
    if await bell.is_visible():
        await bell.click()
        await expect(tab.page.get_by_text("This browser does not allow notifications from here.")).to_be_visible()
    await tab.another()
    await expect(tab.choices).to_have_count(2)
