"""WebKitGTK, driven by its WebDriver, with the parts of Playwright's ``Page`` API that our tests use.

Playwright itself only supports its own build of WebKit. Playwright's own page script finds elements and checks
expectations; clicks and key presses are real input from the driver. Anything else, such as network events, raises an
error when it is used.
"""

import time
from types import SimpleNamespace

import anyio
from playwright._impl._frame import Frame
from playwright.async_api import Page

from scripts import scripts_of
from webdriver import PATIENCE_SECONDS, WebDriver, WebDriverError

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # WebDriver, section 12: the key of an element reference
# WebDriver, section 17.4.2
KEYS = {
    "Enter": "\ue007", "Tab": "\ue004", "Escape": "\ue00c", "Delete": "\ue017", "Home": "\ue011", "End": "\ue010",
    "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015",
    "Control": "\ue009", "Shift": "\ue008", "Space": " ",
}  # fmt: skip
ENTER_FRAME = " >> internal:control=enter-frame >> "
STATES = {
    "attached": "all.length > 0",
    "detached": "all.length === 0",
    "visible": "is(all[0], 'visible')",
    "hidden": "!is(all[0], 'visible')",
}
ONLY = """(all, argument) => {
  if (all.length > 1) throw Error(`${all.length} elements`);
  return all.length ? { is: (%s)(all[0], argument) } : null;
}"""
# As in Playwright, a missing element is hidden and has the count 0; assertions about its text fail, negated or not.
EXPECT = scripts_of(__file__)["EXPECT"]


class WebkitBrowser(WebDriver):
    """The browser, with Playwright's interface."""

    browser_type = SimpleNamespace(name="webkit")

    async def new_context(self, viewport):
        """Return a context in the browser's only profile."""
        return WebkitContext(self, viewport)


class WebkitContext:
    """The windows opened by one test."""

    def __init__(self, browser, viewport):
        self.browser, self._viewport = browser, viewport
        self.pages = []

    def set_default_timeout(self, milliseconds):
        """Ignore the limit: all waits have the same time limit."""

    async def new_page(self):
        self.browser.show(self.browser.first_window)
        # Opens a window, because the page would detect that a background tab is hidden.
        page = WebkitPage(self, self.browser("POST", "/window/new", type="window")["handle"])
        self.pages.append(page)
        await page.set_viewport_size(self._viewport)
        return page

    async def close(self):
        for page in list(self.pages):
            await page.close()


class WebkitFrame(Frame):
    """The methods that Playwright's locators call, for one page."""

    def __init__(self, browser, window):
        self.browser, self.window = browser, window
        self._loop, self._connection = None, SimpleNamespace(_dispatcher_fiber=None)
        self.main_frame, self.context = self, SimpleNamespace(_base_url=None)

    def _timeout(self, _timeout=None):
        return PATIENCE_SECONDS * 1000

    def call(self, selector, function, argument=None):
        """Call a function in the frame with the elements that match."""
        self.browser.show(self.window)
        *frames, inner = selector.split(ENTER_FRAME)
        try:
            for frame in frames:
                element = self.browser.run("(selector, { find }) => find(selector)[0]", frame)
                if element is None:
                    inner = "css=:not(*)"
                    break
                self.browser("POST", "/frame", id=element)
            with_elements = f"([selector, argument], {{ find, is }}) => ({function})(find(selector), argument)"
            return self.browser.run(with_elements, [inner, argument])
        finally:
            if frames:
                self.browser("POST", "/frame", id=None)

    async def poll(self, what, attempt, patience_seconds=PATIENCE_SECONDS):
        """Repeat an action until it returns a value, and return the value; retry if the driver reports an error."""
        deadline = time.monotonic() + patience_seconds
        while True:
            error = None
            try:
                if (result := attempt()) is not None:
                    return result
            except WebDriverError as raised:
                error = raised
            if time.monotonic() > deadline:
                raise AssertionError(what) from error
            await anyio.sleep(0.05)

    async def one(self, selector, function, argument=None):
        """Call a function with the only matching element, as soon as it exists."""
        called = await self.poll(f"nothing is {selector}", lambda: self.call(selector, ONLY % function, argument))
        return called.get("is")

    def _usable(self, selector):
        found = self.call(selector, "(all) => is(all[0], 'visible') && is(all[0], 'enabled') ? all[0] : null")
        return found and found[ELEMENT]

    async def _click(self, selector, **_strict):
        def click():  # find the element again each time, because the page may have replaced it
            if element := self._usable(selector):
                self.browser("POST", f"/element/{element}/click")
                return True
            return None

        await self.poll(f"no click: {selector}", click)

    async def fill(self, selector, value, **_strict):
        element = await self.poll(f"not usable: {selector}", lambda: self._usable(selector))
        self.browser("POST", f"/element/{element}/clear")
        self.browser("POST", f"/element/{element}/value", text=value)

    async def focus(self, selector, **_strict):
        await self.one(selector, "one => one.focus()")

    async def press(self, selector, key, **_strict):
        await self.focus(selector)
        self.keys(key)

    def keys(self, *chords):
        self.browser.show(self.window)
        actions = []
        for chord in chords:
            keys = [KEYS.get(key, key) for key in (chord.split("+") if len(chord) > 1 else chord)]
            actions += [{"type": "keyDown", "value": key} for key in keys]
            actions += [{"type": "keyUp", "value": key} for key in reversed(keys)]
        self.browser("POST", "/actions", actions=[{"type": "key", "id": "keys", "actions": actions}])

    async def wait_for_selector(self, selector, state=None, **_strict):
        state = state or "visible"
        await self.poll(f"not {state}: {selector}", lambda: self.call(selector, f"(all) => {STATES[state]} || null"))
        return _Handle(self, selector)

    async def eval_on_selector_all(self, selector, expression, arg=None):
        return self.call(selector, expression, arg)

    async def _query_count(self, selector):
        return self.call(selector, "(all) => all.length")

    async def is_visible(self, selector, **_strict):
        return self.call(selector, f"(all) => {STATES['visible']}")

    async def text_content(self, selector, **_strict):
        return await self.one(selector, "one => one.textContent")

    async def inner_text(self, selector, **_strict):
        return await self.one(selector, "one => one.innerText")

    async def input_value(self, selector, **_strict):
        return await self.one(selector, "one => one.value")

    async def get_attribute(self, selector, name, **_strict):
        return await self.one(selector, "(one, name) => one.getAttribute(name)", name)

    async def _expect(self, selector, expression, options, title=None):  # noqa: ARG002 - Playwright passes it
        patience_seconds = options.pop("timeout") / 1000
        wanted, answer = not options["isNot"], {}

        def attempt():
            answer.update(self.call(selector or ":root", EXPECT, {"expression": expression, **options}))
            return True if answer["matches"] is wanted else None

        try:
            await self.poll(expression, attempt, patience_seconds)
        except AssertionError:
            return {"matches": not wanted, "received": answer.get("received")}
        return {"matches": wanted}


class _Handle:
    """One element, located again for each use."""

    def __init__(self, frame, selector):
        self._frame, self._selector = frame, selector

    async def evaluate(self, expression, arg=None):
        return await self._frame.one(self._selector, expression, arg)

    async def dispose(self):
        """Do nothing, because a handle has no resources."""


class WebkitPage(Page):
    """A window and its keyboard."""

    def __init__(self, context, window):
        self._impl_obj = self._frame = WebkitFrame(context.browser, window)
        self._context, self._browser = context, context.browser
        self._loop = self._dispatcher_fiber = None

    @property
    def context(self):
        return self._context

    @property
    def keyboard(self):
        return self

    @property
    def url(self):
        self._browser.show(self._frame.window)
        return self._browser("GET", "/url")

    def on(self, event, handler):
        """Ignore the listener, because there are no events."""

    remove_listener = on

    def is_closed(self):
        return self not in self._context.pages

    async def press(self, key):
        self._frame.keys(key)

    async def type(self, text):
        self._frame.keys(*text)

    async def goto(self, url):
        await self._load(url, lambda: self._browser("POST", "/url", url=url))

    async def reload(self):
        await self._load("the page again", lambda: self._browser("POST", "/refresh"))

    async def _load(self, what, request):
        def loaded():
            request()
            self._browser("GET", "/title")  # fails if the driver still waits for the page, as all later commands would
            return True

        await self.bring_to_front()
        await self._frame.poll(what, loaded)

    async def evaluate(self, expression, arg=None):
        await self.bring_to_front()
        return self._browser.run(expression, arg)

    async def content(self):
        return await self.evaluate("document.documentElement.outerHTML")

    async def set_content(self, html):
        await self.goto(f"data:text/html,{html}")

    async def bring_to_front(self):
        self._browser.show(self._frame.window)

    async def set_viewport_size(self, viewport_size):
        await self.bring_to_front()
        measure = "[outerWidth - innerWidth, outerHeight - innerHeight]"
        width, height = await self._frame.poll("the size of the window", lambda: self._browser.run(measure))
        size = {"width": width + viewport_size["width"], "height": height + viewport_size["height"]}
        self._browser("POST", "/window/rect", **size)

    async def close(self):
        await self.bring_to_front()
        self._browser("DELETE", "/window")
        self._browser.show(self._browser.first_window)
        self._context.pages.remove(self)
