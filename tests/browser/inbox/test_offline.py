"""The page while offline: a service worker serves its files, it shows that it is offline, and no message is cached."""

import signal

import anyio
import pytest

from scripts import scripts_of

SCRIPTS = scripts_of(__file__)

SHELL = ["/", "/web/VERSION/app.js", "/web/VERSION/inbox.css", "/web/VERSION/messages.js"]
CONTROLLED = "Boolean(navigator.serviceWorker.controller)"


async def until_kept(tab):
    with anyio.fail_after(30):
        while sorted(await tab.page.evaluate(SCRIPTS["KEPT"])) != SHELL or not await tab.page.evaluate(CONTROLLED):
            await tab.page.wait_for_timeout(50)


@pytest.mark.browsers("firefox", "webkit")
async def test_a_page_reloaded_offline_reports_that_and_recovers_automatically(any_tab, mortal_daemon, expect):
    tab = await (await (await any_tab(at=mortal_daemon)).visit()).until_live()
    address = await tab.address()
    await until_kept(tab)
    mortal_daemon.stop()
    await tab.page.reload()
    await expect(tab.state).to_contain_text("Connection lost.")
    assert await tab.address() == address
    mortal_daemon.start()
    mortal_daemon.deliver(address, "one")
    await tab.until_subjects("one")
    await tab.until_live()


async def test_only_the_page_is_cached_but_no_message_link_or_token(any_tab, daemon, inbox):
    tab = await (await (await any_tab()).visit()).until_live()
    await until_kept(tab)
    await (await tab.follow(inbox)).until_live()
    daemon.deliver(inbox.address, "one", html="<p>It works.</p>", attachments=[("a.txt", "text/plain", b"x")])
    await tab.open("one")
    await tab.mail.get_by_text("It works.").wait_for()
    assert sorted(await tab.page.evaluate(SCRIPTS["KEPT"])) == SHELL


async def test_a_new_version_replaces_the_cached_version(new_tab):
    tab = await (await (await new_tab()).visit()).until_live()
    await until_kept(tab)
    scope = f"{tab.daemon.url}/"
    others = [f"{scope} {scope}web/{'0' * 16}/app.js", f"{scope}mail/ {scope}mail/web/{'0' * 16}/app.js"]
    await tab.page.evaluate("names => Promise.all(names.map((name) => caches.open(name)))", others)
    await tab.page.evaluate("navigator.serviceWorker.getRegistration().then((one) => one.unregister())")
    await tab.page.reload()
    await tab.until_live()
    with anyio.fail_after(30):
        while others[0] in (names := await tab.page.evaluate("caches.keys()")):
            await tab.page.wait_for_timeout(50)
    assert others[1] in names
    assert len(names) == 2


async def test_a_connection_that_delivers_no_data_counts_as_lost(any_tab, expect):
    tab = await (await (await any_tab()).visit()).until_live()
    address = await tab.address()
    await until_kept(tab)
    tab.daemon.process.send_signal(signal.SIGSTOP)
    try:
        await tab.page.reload()
        assert await tab.address() == address
    finally:
        tab.daemon.process.send_signal(signal.SIGCONT)
    await tab.until_live()
