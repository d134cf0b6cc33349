"""WebKitGTK by its WebDriver, as the part of Playwright's ``Page`` that stories use: Playwright knows no WebKit but its own.

Elements are found and expectations are judged by the script that Playwright itself runs in pages; clicks and keys are the
driver's, which are real ones. What is not here, such as what a page asks of the network, fails when it is asked for.
"""

import time
from types import SimpleNamespace

import anyio
from playwright._impl._frame import Frame
from playwright.async_api import Page

from scripts import scripts_of
from webdriver import PATIENCE_SECONDS, WebDriver, WebDriverError

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # WebDriver, section 12: the name of a reference
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
# As Playwright has it: what is not there is hidden and has the count 0, and neither has a text nor has it not.
EXPECT = scripts_of(__file__)["EXPECT"]


class WebkitBrowser(WebDriver):
    """The browser as Playwright has it."""

    browser_type = SimpleNamespace(name="webkit")

    async def new_context(self, viewport):
        """Return pages of the only profile that there is."""
        return WebkitContext(self, viewport)


class WebkitContext:
    """The windows that were opened together."""

    def __init__(self, browser, viewport):
        self.browser, self._viewport = browser, viewport
        self.pages = []

    def set_default_timeout(self, milliseconds):
        """Nothing waits longer than all do."""

    async def new_page(self):
        self.browser.show(self.browser.first_window)
        # A tab behind another one would be hidden, to the page too.
        page = WebkitPage(self, self.browser("POST", "/window/new", type="window")["handle"])
        self.pages.append(page)
        await page.set_viewport_size(self._viewport)
        return page

    async def close(self):
        for page in list(self.pages):
            await page.close()


class WebkitFrame(Frame):
    """What Playwright's locators call, for one page."""

    def __init__(self, browser, window):
        self.browser, self.window = browser, window
        self._loop, self._connection = None, SimpleNamespace(_dispatcher_fiber=None)
        self.main_frame, self.context = self, SimpleNamespace(_base_url=None)

    def _timeout(self, _timeout=None):
        return PATIENCE_SECONDS * 1000

    def call(self, selector, function, argument=None):
        """Call a function with the elements that are found, in the frame in which they are."""
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
        """Repeat it until it returns something, and return that; what the driver refuses is tried again."""
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
        """Call a function with the one element, as soon as it is there."""
        called = await self.poll(f"nothing is {selector}", lambda: self.call(selector, ONLY % function, argument))
        return called.get("is")

    def _usable(self, selector):
        found = self.call(selector, "(all) => is(all[0], 'visible') && is(all[0], 'enabled') ? all[0] : null")
        return found and found[ELEMENT]

    async def _click(self, selector, **_strict):
        def click():  # the element is found each time: the page may have drawn another one in its place
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

    async def _expect(self, selector, expression, options, title=None):  # noqa: ARG002 - Playwright names its step
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
    """One element, found again each time."""

    def __init__(self, frame, selector):
        self._frame, self._selector = frame, selector

    async def evaluate(self, expression, arg=None):
        return await self._frame.one(self._selector, expression, arg)

    async def dispose(self):
        """Nothing is held."""


class WebkitPage(Page):
    """A window, with its keyboard."""

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
        """Events are not told."""

    remove_listener = on

    def is_closed(self):
        return self not in self._context.pages

    async def press(self, key):
        self._frame.keys(key)

    async def type(self, text):
        self._frame.keys(*text)

    async def goto(self, url):
        await self.bring_to_front()
        await self._frame.poll(url, lambda: self._browser("POST", "/url", url=url) or True)

    async def reload(self):
        await self.bring_to_front()
        self._browser("POST", "/refresh")

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
        width, height = await self.evaluate("[outerWidth - innerWidth, outerHeight - innerHeight]")
        size = {"width": width + viewport_size["width"], "height": height + viewport_size["height"]}
        self._browser("POST", "/window/rect", **size)

    async def close(self):
        await self.bring_to_front()
        self._browser("DELETE", "/window")
        self._browser.show(self._browser.first_window)
        self._context.pages.remove(self)
