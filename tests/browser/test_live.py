"""Live updates of inboxes, in real tabs with a real daemon.

The tests cover the choice of the tab that opens the stream, and the handling of the stream's end.
"""

import re
from types import SimpleNamespace

import pytest

from modules import in_node
from scripts import scripts_of

SCRIPTS = scripts_of(__file__)

BARE = "<!doctype html><title>bare</title><link rel=icon href='data:,'>"
QUICK = {
    "firstOctetMs": 2000,
    "pausesMs": [100, 200],
    "helloMs": 300,
}


class Tab:
    """A page with the daemon's origin that contains only the modules under test."""

    def __init__(self, page):
        self.page = page
        self.asked = []
        page.on("request", lambda request: self.asked.append(request.url.partition("/api/v1/")[2]))

    async def visit(self, daemon):
        await self.page.route("**/bare", lambda route: route.fulfill(body=BARE, content_type="text/html"))
        await self.page.goto(f"{daemon.url}/bare")

    async def follow(self, daemon, *inboxes, **timings):
        await self.visit(daemon)
        await self.page.evaluate(SCRIPTS["APP"], [[vars(one) for one in inboxes], {**QUICK, **timings}])
        return self

    async def add(self, inbox):
        """Add an inbox at the top of the page's list."""
        await self.page.evaluate(
            "(inbox) => { const old = [...app.inboxes.values()]; app.inboxes.clear(); [inbox, ...old].forEach(app.add);"
            " app.live.change(); }",
            vars(inbox),
        )

    async def leave(self):
        await self.page.unroute_all()
        await self.page.goto("about:blank")
        self.asked.clear()

    async def until(self, condition):
        try:
            await self.page.wait_for_function(
                f"() => {{ const {{ messages, told, states, live }} = app; return {condition} }}"
            )
        except Exception as error:
            raise AssertionError(
                f"not reached: {condition}; {await self.page.evaluate('JSON.stringify(app)')}"
            ) from error
        return self

    async def until_state(self, name):
        return await self.until(f"states.at(-1).name === '{name}'")

    async def until_subjects(self, *subjects):
        """Wait until the page contains exactly these messages, in order of arrival."""
        await self.until(f"messages.map((one) => one.subject).reverse().join() === '{','.join(subjects)}'")
        return self

    async def ask(self, expression):
        return await self.page.evaluate(expression)

    async def state_names(self):
        return await self.page.evaluate("app.states.map(({ name }) => name)")

    def requests(self):
        """Return the most distinctive path segment of each API request."""
        return [re.split(r"[/?]", path)[-1 if path == "events" else 2] for path in self.asked if path]


@pytest.fixture(scope="module")
def left_tabs():
    """Keep the tabs of earlier tests, all in one profile, because opening a new tab takes twice as long."""
    return []


@pytest.fixture
async def open_tab(shared_pages, left_tabs):
    """Return a function that opens another tab in the same profile."""
    opened = []

    async def open_tab():
        beside = next((tab.page for tab in [*opened, *left_tabs]), None)
        opened.append(left_tabs.pop() if left_tabs else Tab(await shared_pages.open(beside)))
        return opened[-1]

    yield open_tab
    for tab in opened:
        if not tab.page.is_closed():
            await tab.leave()
            left_tabs.append(tab)


@pytest.fixture
async def tab(open_tab):
    return await open_tab()


@pytest.fixture
def inbox(daemon):
    return daemon.create()


@pytest.mark.needs("node")
@pytest.mark.parametrize(
    ("octets", "events"),
    [
        pytest.param(b"event: told\ndata: 1\n\n", [["told", "1"]], id="an event"),
        pytest.param(b"retry: 10000\n\n:\n\nevent: told\ndata: 1\n\n:\n\n", [["told", "1"]], id="what is no event"),
        pytest.param(
            b"id: msg_1\nevent: told\ndata: 1\n\nevent: told\ndata: 1\n\n", [["told", "1"], ["told", "1"]], id="an id"
        ),
        pytest.param(b"event: told\ndata: a: b\n\n", [["told", "a: b"]], id="colons in a value"),
        pytest.param(
            b"event: told\ndata: a\xe2\x80\xa8event: x\r\xe2\x80\xa9data: 2\n\n",
            [["told", "a\u2028event: x\r\u2029data: 2"]],
            id="what would be a line elsewhere",
        ),
        pytest.param(
            b"event: told\ndata: \xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\n\n",
            [["told", "\xfc\u20ac\U0001f600"]],
            id="characters of several octets",
        ),
        pytest.param(b"event: told\ndata: 1\n\nevent: told\ndata: 2\n", [["told", "1"]], id="an event without its end"),
        pytest.param(b"", [], id="nothing"),
    ],
)
def test_a_stream_is_parsed_the_same_wherever_it_is_cut(octets, events):
    assert in_node("following.js", SCRIPTS["PARSE_EVERY_CUT"], list(octets)) == [events]


async def test_messages_and_other_events_arrive_and_the_end_is_reported_once(tab, daemon):
    inbox = daemon.create()
    daemon.deliver(inbox.address, "before")
    await tab.follow(daemon, inbox)
    await tab.until_subjects("before")
    daemon.deliver(inbox.address, "after")
    await tab.until_subjects("before", "after")
    message_id = await tab.ask("app.messages[0].id")
    daemon.delete(inbox, message_id)
    extended = daemon.extend(inbox, 60)["expires_at"]
    await tab.until("told.length === 2")
    assert await tab.ask("app.told") == [["deleted", message_id], ["extended", extended]]
    assert await tab.state_names() == ["connecting", "connecting", "live"]
    about = await tab.ask(f"app.about['{inbox.address}']")
    assert (about["message_count"], about["expires_at"]) == (1, inbox.expires_at)
    daemon.extend(inbox, 1)
    await tab.until("told.length === 4")
    assert (await tab.ask("app.told"))[3] == ["gone", "expired"]
    assert tab.requests() == ["events"]


async def test_a_browser_that_reports_that_it_is_offline_is_believed_without_waiting_for_silence(tab, daemon, inbox):
    await (await tab.follow(daemon, inbox, silenceMs=3_600_000)).until_state("live")
    await tab.ask("dispatchEvent(new Event('offline'))")
    await tab.until("states.some(({ name }) => name === 'lost')")
    await tab.until_state("live")


async def test_tabs_share_one_stream_and_each_tab_receives_only_events_that_it_lacks(tab, open_tab, daemon, inbox):
    daemon.deliver(inbox.address, "one")
    await (await tab.follow(daemon, inbox)).until_subjects("one")
    second = await (await (await open_tab()).follow(daemon, inbox)).until_subjects("one")
    await second.ask("dispatchEvent(new Event('visibilitychange'))")
    third = await (await (await open_tab()).follow(daemon, inbox)).until_subjects("one")
    daemon.deliver(inbox.address, "two")
    for one in (tab, second, third):
        await one.until_subjects("one", "two")
        assert await one.ask("app.twice") == []
    assert [one.requests() for one in (tab, second, third)] == [["events"], [], []]
    daemon.delete(inbox)
    for one in (tab, second, third):
        await one.until("told.length === 1")
        assert await one.ask("app.told") == [["gone", "deleted"]]


async def test_the_next_tab_takes_over_when_the_leading_tab_closes(tab, open_tab, daemon, inbox):
    await (await tab.follow(daemon, inbox)).until_state("live")
    second = await (await open_tab()).follow(daemon, inbox)
    third = await (await open_tab()).follow(daemon, inbox)
    daemon.deliver(inbox.address, "one")
    await third.until_subjects("one")
    await tab.page.close()
    daemon.deliver(inbox.address, "two")
    for left in (second, third):
        await left.until_subjects("one", "two")
        await left.until_state("live")
        assert await left.ask("app.twice") == []
    assert (second.requests(), third.requests()) == (["events"], [])


async def test_a_leading_tab_that_does_not_respond_is_replaced(tab, open_tab, daemon, inbox):
    await tab.visit(daemon)
    await tab.ask("void navigator.locks.request('live', () => new Promise(() => {{}})).catch(() => 'robbed')")
    second = await (await open_tab()).follow(daemon, inbox)
    daemon.deliver(inbox.address, "one")
    await second.until_subjects("one")


async def test_a_replaced_tab_follows_the_new_leader(tab, open_tab, daemon, inbox):
    await (await tab.follow(daemon, inbox)).until_state("live")
    thief = await open_tab()
    await thief.visit(daemon)
    await thief.ask("void navigator.locks.request('live', { steal: true }, () => {})")
    daemon.deliver(inbox.address, "one")
    await tab.until_subjects("one")
    await tab.until_state("live")
    assert tab.requests() == ["events", "events"]


async def test_a_tab_opened_without_a_leader_receives_the_events_of_the_next_leader(tab, open_tab, daemon, inbox):
    daemon.deliver(inbox.address, "one")
    await (await tab.follow(daemon, inbox, helloMs=4000)).until_subjects("one")
    thief = await open_tab()
    await thief.visit(daemon)
    hold = "new Promise((resolve) => { window.release = resolve; })"
    await thief.ask(f"void navigator.locks.request('live', {{ steal: true }}, () => {hold})")
    second = await (await open_tab()).follow(daemon, inbox, helloMs=4000)
    await second.until_state("connecting")
    await thief.ask("release()")
    await second.until_subjects("one")
    await second.until_state("live")
    assert second.requests() == []


async def test_changes_in_one_tab_reach_the_others(tab, open_tab, daemon, inbox):
    await (await tab.follow(daemon, inbox)).until_state("live")
    second = await (await open_tab()).follow(daemon, inbox)
    await second.until_state("live")
    address = inbox.address
    await second.ask(f"app.live.broadcast({{ address: '{address}', deleted: 'msg_1' }})")
    await tab.ask(f"app.live.broadcast({{ address: '{address}', extended: '2026-11-21T05:00:00.000Z' }})")
    await tab.until("told.length === 1")
    await second.until("told.length === 1")
    assert await tab.ask("app.told") == [["deleted", "msg_1"]]
    assert await second.ask("app.told") == [["extended", "2026-11-21T05:00:00.000Z"]]
    await second.ask(f"app.live.broadcast({{ address: '{address}', gone: 'deleted' }})")
    await tab.until("told.length === 2")
    assert (await tab.ask("app.told"))[-1] == ["gone", "deleted"]


async def test_a_retry_does_not_wait_for_its_time(tab, mortal_daemon):
    daemon = mortal_daemon
    inbox = daemon.create()
    await (await tab.follow(daemon, inbox, pausesMs=[100_000])).until_state("live")
    daemon.restart()
    await tab.until_state("lost")
    await tab.ask("dispatchEvent(new Event('online'))")
    await tab.until_state("live")


@pytest.fixture
async def buffered(tab):
    """Simulate a proxy that buffers a stream until it ends."""
    held = []

    def hold(route):
        held.append(route)

    await tab.page.route("**/events", hold)
    yield tab
    for route in held:  # otherwise Playwright waits for these requests, and an unrelated test fails
        await route.abort()


async def test_waits_replace_a_stream_that_a_proxy_buffers_and_a_retry_tries_the_stream_again(buffered, daemon, inbox):
    daemon.deliver(inbox.address, "one")
    await buffered.follow(daemon, inbox, firstOctetMs=200)
    await buffered.until_subjects("one")
    await buffered.until_state("live")
    daemon.deliver(inbox.address, "two")
    await buffered.until_subjects("one", "two")
    assert buffered.requests()[:4] == ["events", "events", "messages", "messages"]
    assert await buffered.ask("app.twice") == []
    await buffered.page.unroute("**/events")
    await buffered.ask("app.live.order('retry')")
    await buffered.until_state("lost")
    await buffered.until_state("live")
    assert buffered.requests()[-1] == "events"


async def test_behind_such_a_proxy_the_other_inboxes_are_polled_in_turn(buffered, daemon):
    shown, *others = inboxes = [daemon.create() for _ in range(3)]
    await (await buffered.follow(daemon, *inboxes, firstOctetMs=200, waitSeconds=1)).until_state("live")
    for inbox in others:
        daemon.deliver(inbox.address, inbox.address)
    await buffered.until("messages.length === 2")
    await buffered.add(daemon.create())  # the new inbox is now shown, so it is polled immediately
    [newest, *_] = await buffered.ask("[...app.inboxes.keys()]")
    daemon.deliver(newest, "now")
    await buffered.until("messages.length === 3")
    daemon.delete(shown)
    await buffered.until("told.length === 1")
    assert await buffered.ask("app.told") == [["gone", "expired", shown.address]]


async def test_reconnecting_leaves_requests_to_the_reader(tab, start_daemon):
    daemon = start_daemon(TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE="120", TMPMAILD_RATE_LIMIT__BURST="3")
    inbox = daemon.create()
    await (await tab.follow(daemon, inbox, silenceMs=200)).until(
        "states.filter(({ name }) => name === 'live').length === 2"
    )
    assert await tab.state_names() == ["connecting", "connecting", "live", "lost", "limited", "limited", "live"]


async def test_the_page_waits_for_a_free_stream_slot(tab, pages, start_daemon):
    daemon = start_daemon(TMPMAILD_HTTP__MAX_STREAMS_PER_CLIENT="1")
    await (await tab.follow(daemon, daemon.create())).until_state("live")
    other = await Tab(await pages.borrow()).follow(daemon, daemon.create())
    await other.until_state("limited")
    assert await other.ask("app.states.at(-1).retryAtMs > Date.now()")


async def test_one_stream_follows_all_inboxes_and_each_inbox_ends_separately(tab, open_tab, daemon):
    deleted, private, first, second = (daemon.create(private=True) for _ in range(4))
    daemon.delete(deleted)
    private.token = "wrong"
    inboxes = [deleted, private, first, second]
    await (await tab.follow(daemon, *inboxes)).until("told.length === 2")
    assert await tab.ask("app.told") == [["gone", "unknown", one.address] for one in (deleted, private)]
    beside = await (await open_tab()).follow(daemon, first, second)
    for number, inbox in enumerate((first, second, first)):
        daemon.deliver(inbox.address, str(number))
        await tab.until(f"messages.length === {number + 1}")
    await beside.until_subjects("0", "1", "2")
    assert await beside.ask(f"app.inboxes.get('{second.address}').messages.map(({{ subject }}) => subject)") == ["1"]
    daemon.delete(first)
    await tab.until("told.length === 3")
    daemon.deliver(second.address, "3")
    await tab.until_subjects("0", "1", "2", "3")
    assert (tab.requests(), beside.requests()) == (["events"], [])


async def test_adding_an_inbox_costs_one_request_and_removing_an_inbox_costs_none(tab, open_tab, daemon, inbox):
    daemon.deliver(inbox.address, "one")
    await (await tab.follow(daemon, inbox)).until_subjects("one")
    beside = await (await open_tab()).follow(daemon, inbox)
    await beside.until_subjects("one")
    other = daemon.create()
    daemon.deliver(other.address, "two")
    await beside.add(other)  # this tab learns of the inbox before the tab with the stream does
    await tab.add(other)
    for one in (tab, beside):
        await one.until_subjects("one", "two")
    await tab.ask(f"app.inboxes.delete('{inbox.address}'); app.live.change()")
    daemon.deliver(other.address, "three")
    for one in (tab, beside):
        await one.until_subjects("one", "two", "three")
        assert await one.ask("app.twice") == []
    assert (tab.requests(), beside.requests()) == (["events"] * 2, [])
    assert "lost" not in await tab.state_names()


async def test_no_request_is_sent_while_there_is_no_inbox_to_follow(tab, daemon, inbox):
    await (await tab.follow(daemon)).until_state("")
    await tab.add(inbox)
    daemon.deliver(inbox.address, "one")
    await tab.until_subjects("one")
    daemon.delete(inbox)
    await tab.until_state("")
    assert tab.requests() == ["events"]


async def test_the_first_twenty_inboxes_are_followed_and_inboxes_beyond_the_rate_limit_are_followed_later(
    tab, start_daemon
):
    daemon = start_daemon(TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE="600", TMPMAILD_RATE_LIMIT__BURST="30")
    inboxes = [daemon.create() for _ in range(21)]
    await (await tab.follow(daemon, *inboxes)).until("Object.keys(app.about).length === 20")
    daemon.delete(inboxes[7])
    await tab.until("told.length === 1")
    await tab.ask("app.live.change()")
    await tab.until("Object.keys(app.about).length === 21")
    assert tab.requests() == ["events"] * 2


async def test_inboxes_left_out_because_of_the_rate_limit_are_requested_again(tab, start_daemon):
    daemon = start_daemon(TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE="120", TMPMAILD_RATE_LIMIT__BURST="2")
    inbox = daemon.create()
    unknown = [SimpleNamespace(address=f"{name}@mail.example.com") for name in ("one", "two")]
    await tab.follow(daemon, *unknown, inbox)
    await tab.until(f"told.length === 2 && app.about['{inbox.address}']")
    assert [reason for _, reason, _ in await tab.ask("app.told")] == ["unknown"] * 2


async def test_an_error_in_the_page_is_reported_and_closes_no_connection(tab, daemon, inbox):
    await (await tab.follow(daemon, inbox)).until_state("live")
    await tab.ask(
        "addEventListener('error', (event) => { event.preventDefault(); app.told.push(event.message); }); [...app.inboxes.values()][0].messages.some = null"
    )
    daemon.deliver(inbox.address, "one")
    await tab.until("told.length === 1")
    assert "is not a function" in (await tab.ask("app.told"))[0]
    daemon.extend(inbox, 60)
    await tab.until("told.length === 2")
    assert await tab.state_names() == ["connecting", "connecting", "live"]


NO_LOCKS = "Object.defineProperty(Navigator.prototype, 'locks', { value: undefined })"
NO_LOCK_GRANTED = "LockManager.prototype.request = () => Promise.reject(new DOMException('', 'SecurityError'))"


async def test_without_web_locks_each_tab_has_a_stream(pages, daemon, inbox):
    tab = Tab(await pages.open())
    second = Tab(await pages.open(tab.page))
    for one, script in ((tab, NO_LOCKS), (second, NO_LOCK_GRANTED)):
        await one.page.add_init_script(script)
        await (await one.follow(daemon, inbox, helloMs=1, silenceMs=3000)).until_state("live")
    daemon.deliver(inbox.address, "one")
    for one in (tab, second):
        await one.until_subjects("one")
        assert one.requests() == ["events"]
    await tab.ask("app.live.stop()")
    daemon.delete(inbox)
    await second.until("told.length === 1")
    assert await tab.ask("app.told") == []
