"""Browsers with the extension in ``clients/browser``, loaded as a developer would and operated as a user would.

Both classes have the same methods: ``open`` opens a page, ``page`` evaluates a JavaScript expression or a promise in
it, ``press_button`` opens the popup as a click on the toolbar button does, and ``popup`` evaluates in the popup. Parts
of Chromium that a driver cannot access (the permission prompt, shortcuts, menus) are operated with the keyboard of a
``Display``.
"""

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Error as PlaywrightError

from scripts import scripts_of

SCRIPTS = scripts_of(__file__)

SOURCE = Path(__file__).parents[2] / "clients/browser"
PATIENCE_SECONDS = 20
HERE = "http://127.0.0.1/*"
ID = "extension@tmpmaild.org"
DEVELOPMENT = ("store", "README.md")
PATH = os.environ["PATH"]
ACROSS = "(({left, top, width, height}) => [left + width / 2, top + height / 2])"


def unpacked(folder, **changes):
    """Copy the extension into a folder, with changes to its manifest."""
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns(*DEVELOPMENT))
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | changes))
    return folder


def until(ask, what="it", seconds=PATIENCE_SECONDS, instead=str):
    """Return the result of ``ask`` once it is true; if it stays false, ``instead`` returns the state to report."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"still waiting for {what}: {instead()}"
        time.sleep(0.05)
    return answer


class Display:
    """A virtual screen with a keyboard."""

    def __init__(self):
        reading, writing = os.pipe()
        command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1400x1000x24", "-nolisten", "tcp"]
        self._process = subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL)
        os.close(writing)
        with os.fdopen(reading) as number:
            self.name = f":{number.readline().strip()}"

    def press(self, *keys):
        """Press keys one after the other, after a pause: a prompt of the browser ignores keys at first."""
        time.sleep(1)
        subprocess.run(
            ["xdotool", "key", "--delay", "100", *keys], env={"DISPLAY": self.name, "PATH": PATH}, check=True
        )

    def close(self):
        self._process.kill()
        self._process.wait()


class Browser:
    """Methods shared by both browsers."""

    tab_text = "document.body?.innerText"

    def click(self, selector):
        """Click an element of the popup as soon as it exists and is clickable."""
        found = (
            f"[...document.querySelectorAll({json.dumps(selector)})].find(e => !e.closest('[inert]') && !e.disabled)"
        )
        until(lambda: self.popup(f"!!{found}"), selector, instead=self.popup_text)
        self.popup(f"void {found}.click()")

    def press(self, selector):
        """Click an element of the popup with the mouse, for actions that need a real user gesture."""
        found = f"document.querySelector({json.dumps(selector)})"
        until(lambda: self.popup(f"!!{found} && !{found}.closest('[inert]')"), selector, instead=self.popup_text)
        self.press_at(*self.popup(f"{ACROSS}({found}.getBoundingClientRect())"))

    def popup_text(self):
        return self.popup("document.body?.innerText") or ""

    def page_text(self):
        return self.page("document.body?.innerText") or ""

    def says(self, text):
        """Wait until the popup shows a text."""
        until(lambda: text in self.popup_text(), repr(text), instead=self.popup_text)

    def shows(self, text):
        """Wait until the page shows a text."""
        until(lambda: text in self.page_text(), repr(text), instead=self.page_text)

    def fill_address(self):
        """Use the popup to fill a new address into the page; the popup then closes."""
        self.press_button()
        self.click("#fill")
        self.closes()

    @contextlib.contextmanager
    def private_window(self):
        """Continue in a private window, which is closed at the end."""
        self.open_private()
        try:
            yield
        finally:
            self.close_private()

    def close_popup(self):
        self.popup("void close()")
        self.closes()

    def closes(self):
        until(lambda: not self.is_popup_open(), "the end of the popup")


class Chromium(Browser):
    """Debian's Chromium on a display or in headless mode, driven by Playwright."""

    name = "chromium"
    ALLOW, DENY = ("Tab", "Return"), ("Return",)  # the "Deny" button has the focus at first

    def __init__(self, playwright, extension, display=None, **options):
        """Start the browser on ``display``, or in headless mode, in which no permission prompt can be answered."""
        self._display, self._private = display, None
        switches = [
            *(() if display else ("--headless=new",)),
            *("--no-sandbox", "--disable-gpu", "--force-prefers-reduced-motion", "--lang=en"),
            "--disable-features=DisableLoadExtensionCommandLineSwitch",
            f"--disable-extensions-except={extension}",
            f"--load-extension={extension}",
            "--enable-unsafe-extension-debugging",  # the toolbar button can be pressed only with this flag
            "--host-resolver-rules=MAP *.example 127.0.0.1",
        ]
        self._profile = Path(tempfile.mkdtemp(prefix="chromium-"))
        (self._profile / "Default").mkdir()
        chosen = {"extensions": {"ui": {"developer_mode": True}}}  # otherwise our extension would be disabled
        (self._profile / "Default/Preferences").write_text(json.dumps(chosen))
        self.context = playwright.chromium.launch_persistent_context(
            self._profile,
            executable_path="/usr/bin/chromium",
            headless=False,
            args=switches,
            ignore_default_args=["--disable-extensions"],
            env={**os.environ, "DISPLAY": display.name} if display else None,
            **options,
        )
        self._cdp = self.context.browser.new_browser_cdp_session()
        self._numbers, self._answers = itertools.count(1), {}
        self._cdp.on("Target.receivedMessageFromTarget", self._receive)
        self._sessions = {}
        self.tab = self.context.pages[0]
        until(lambda: self.tab.wait_for_timeout(20) or self.context.service_workers, "the background")
        self.id = self.context.service_workers[0].url.split("/")[2]
        if display:  # reloading the extension closes its tabs, and the browser if no other tab is open
            until(lambda: any(one["url"].endswith("/options.html") for one in self._pages()), "the options page")
            self.tab = self.context.new_page()
            before = self.target("/background.js")
            self._settings(f"updateExtensionConfiguration({{extensionId: '{self.id}', incognitoAccess: true}})")
            until(lambda: self.target("/background.js") not in {None, before}, "the background, loaded again")
        self.background("1")  # an attached debugger keeps the background script alive
        (self._ours,) = {one["browserContextId"] for one in self._pages()}

    def close(self):
        self.context.close()
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, url):
        if not self._private:
            self.tab.goto(url)
            return
        self.send(self._private, "Page.navigate", url=url)
        until(lambda: self.page("location.href + document.readyState") == f"{url}complete", url)

    def page(self, expression):
        if self._private:
            return self._evaluate(self._private, expression)
        try:
            return self.tab.evaluate(expression)
        except PlaywrightError as error:
            if "navigation" not in str(error):
                raise
        self.tab.wait_for_load_state()
        return self.tab.evaluate(expression)

    def background(self, expression):
        return self._evaluate(self.target("/background.js"), expression)

    def open_options(self):
        self.tab.goto(f"chrome-extension://{self.id}/options.html")

    def connect(self, base, answer=ALLOW):
        """Connect to a service, and answer the permission prompt if there is one."""
        self.open_options()
        self.tab.locator("#service").fill(base)
        self.tab.locator("button").click()
        if self._display and not self.background(f"chrome.permissions.contains({{origins: ['{HERE}']}})"):
            self._display.press(*answer)
        self.tab.locator("#result:not(:empty)").wait_for()
        return self.tab.locator("#result").text_content()

    def press_button(self):
        """Open the popup, as a click on the toolbar button does."""
        if not self._private:
            self.tab.bring_to_front()
        filters = {"filter": [{"type": "tab"}]}
        tabs = self._cdp.send("Target.getTargets", filters)["targetInfos"]
        active = (tab for tab in tabs if tab["embedderData"]["tabActive"])
        (target,) = (tab["targetId"] for tab in active if self._is_private(tab) == bool(self._private))
        self._cdp.send("Extensions.triggerAction", {"id": self.id, "targetId": target})
        until(lambda: self.target("/popup.html"), "the popup")
        until(lambda: self.popup("document.querySelector('#fill')?.textContent"), "its words")

    def press_key(self):
        self._display.press("alt+shift+m")

    def press_menu(self, selector):
        """Choose our item, which is the second to last, in the context menu of a field."""
        self.tab.click(selector, button="right")
        self._display.press("Up", "Up", "Return")

    def press_at(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            about = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}
            self.send(self.target("/popup.html"), "Input.dispatchMouseEvent", **about)

    def clipboard(self):
        """Paste the clipboard text into a page, and return it."""
        self.tab.bring_to_front()
        self.page(
            "void (document.body.innerHTML = '<textarea></textarea>', document.querySelector('textarea').focus())"
        )
        self._display.press("ctrl+v")
        return until(lambda: self.page("document.querySelector('textarea').value"), "what was copied")

    def revoke(self):
        """Revoke the permission, as in the browser's settings."""
        self._settings(f"removeHostPermission('{self.id}', '{HERE}')")

    def open_private(self):
        """Open a private window and continue in it."""
        self._display.press("ctrl+shift+n")
        private = until(lambda: [one for one in self._pages() if self._is_private(one)], "the private window")
        self._private = private[0]["targetId"]

    def close_private(self):
        self._cdp.send("Target.closeTarget", {"targetId": self._private})
        self._private = None

    def opened(self, base):
        """Close the tab that was opened at a URL; return its text, and whether it was private."""
        found = until(lambda: [one for one in self._pages() if one["url"].startswith(base)], base)[0]
        until(lambda: "@" in (self._evaluate(found["targetId"], self.tab_text) or ""), "the inbox")
        text = self._evaluate(found["targetId"], self.tab_text)
        self._cdp.send("Target.closeTarget", {"targetId": found["targetId"]})
        return text, self._is_private(found)

    def _pages(self):
        return [one for one in self._cdp.send("Target.getTargets")["targetInfos"] if one["type"] == "page"]

    def _is_private(self, target):
        return target["browserContextId"] != self._ours

    def _settings(self, call):
        """Change a setting in the same way as the browser's own extensions page."""
        page = self.context.new_page()
        page.goto("chrome://extensions")
        page.evaluate(f"chrome.developerPrivate.{call}")
        page.close()

    def popup(self, expression):
        return self._evaluate(self.target("/popup.html"), expression)

    def is_popup_open(self):
        return bool(self.target("/popup.html"))

    def badge(self):
        return self.background("chrome.action.getBadgeText({})")

    def target(self, ending):
        targets = self._cdp.send("Target.getTargets")["targetInfos"]
        found = [one["targetId"] for one in targets if one["url"] == f"chrome-extension://{self.id}{ending}"]
        return found[0] if found else None

    def _receive(self, event):
        message = json.loads(event["message"])
        if "id" in message:
            self._answers[message["id"]] = message

    def _evaluate(self, target, expression):
        asked = {"expression": f"(async () => ({expression}))()", "awaitPromise": True, "returnByValue": True}
        result = self.send(target, "Runtime.evaluate", **asked, userGesture=True)
        assert "exceptionDetails" not in result, f"{expression}: {result}"
        return result["result"].get("value")

    def send(self, target, method, **about):
        """Send a command of the DevTools protocol to one of Chromium's targets, such as the popup."""
        if target not in self._sessions:
            attached = self._cdp.send("Target.attachToTarget", {"targetId": target, "flatten": False})
            self._sessions[target] = attached["sessionId"]
        number = next(self._numbers)
        message = json.dumps({"id": number, "method": method, "params": about})
        self._cdp.send("Target.sendMessageToTarget", {"sessionId": self._sessions[target], "message": message})
        until(lambda: self.tab.wait_for_timeout(5) or number in self._answers, f"an answer to {method}")
        answer = self._answers.pop(number)
        assert "error" not in answer, f"{about}: {answer}"
        return answer["result"]


PREFERENCES = {
    "extensions.webextensions.remote": False,  # lets this process access the extension's windows
    "network.dns.localDomains": "shop.example,other.example,frame.example",
    "datareporting.policy.dataSubmissionEnabled": False,
    "ui.prefersReducedMotion": 1,
    "intl.locale.requested": "en-US",
    "app.normandy.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "dom.ipc.processPrelaunch.enabled": False,
}


class MarionetteError(Exception):
    """An error response from Firefox."""


class Firefox(Browser):
    """Debian's Firefox in headless mode, driven by its own protocol, Marionette, which can also access the toolbar."""

    name = "firefox"
    ALLOW, DENY = "button", "secondaryButton"

    def __init__(self, extension, **preferences):
        self._profile = Path(tempfile.mkdtemp(prefix="firefox-"))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        chosen = {**PREFERENCES, "marionette.port": port, **preferences}
        lines = (f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in chosen.items())
        (self._profile / "user.js").write_text("".join(lines))
        command = ["firefox-esr", "-headless", "-marionette", "-remote-allow-system-access", "-no-remote"]
        command += ["-profile", str(self._profile)]
        null = subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdout=null, stderr=null, start_new_session=True)
        until(lambda: self._connects(port), "Firefox", 60)
        self._stream, self._number = self._socket.makefile("rb"), 0
        self._read()
        self._ask("WebDriver:NewSession")
        self._ask("WebDriver:SetTimeouts", script=60_000)
        self._run_privileged(f"({SCRIPTS['ALLOW_PRIVATE']})(arguments)")
        self._ask("Addon:Install", path=str(extension), temporary=True)
        until(lambda: self._ask("WebDriver:GetCurrentURL").endswith("/options.html"), "the options page")

    def close(self):
        self._stream.close()
        self._socket.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, url):
        self._ask("WebDriver:Navigate", url=url)

    def page(self, expression):
        script = f"const done = arguments[0]; (async () => ({expression}))().then(done, e => done('E' + e))"
        try:
            return self._ask("WebDriver:ExecuteAsyncScript", script=script, args=[], sandbox=None)
        except MarionetteError:  # try again, because the page has navigated
            return self._ask("WebDriver:ExecuteAsyncScript", script=script, args=[], sandbox=None)

    def connect(self, base, answer=ALLOW):
        """Connect to a service, and answer the permission prompt if there is one."""
        if self.is_popup_open():
            self.close_popup()  # the popup would cover the button
        self.open(f"moz-extension://{self.host()}/options.html")
        until(lambda: self.page("document.activeElement?.id === 'service'"), "the options page")
        self.page(
            f"void (document.querySelector('#service').value = {json.dumps(base)})"
        )  # key presses might go to a popup that is closing
        (button,) = self._find("button")
        said = "document.querySelector('#result').textContent"
        self._ask("WebDriver:ElementClick", id=button)
        until(lambda: self.page(said) or self._privileged(SCRIPTS["ANSWER"], answer), "the question")
        return until(lambda: self.page(said), "the answer", instead=self.page_text)

    def press_button(self):
        self._privileged("async ({ button, main }) => void (await button.triggerAction(main))")
        until(self.is_popup_open, "the popup")
        until(lambda: self.popup("document.querySelector('#fill')?.textContent"), "its words")

    def host(self):
        return self._privileged("({ extension }) => extension.uuid")

    def press_at(self, x, y):
        self._privileged(SCRIPTS["PRESS"], [x, y])

    def clipboard(self):
        return self._privileged("({ main }) => main.navigator.clipboard.readText()")

    def open_private(self):
        """Open a private window and continue in it."""
        self._first = self._ask("WebDriver:GetWindowHandle")
        opened = self._ask("WebDriver:NewWindow", type="window", focus=True, private=True)["handle"]
        self._ask("WebDriver:SwitchToWindow", handle=opened, focus=True)

    def close_private(self):
        self._ask("WebDriver:CloseWindow")
        self._ask("WebDriver:SwitchToWindow", handle=self._first, focus=True)

    def opened(self, base):
        """Close the tab that was opened at a URL; return its text, and whether it was private."""
        until(lambda: self._privileged("({ main }) => main.gBrowser.currentURI.spec").startswith(base), base)
        is_private = self._privileged("({ main }) => PrivateBrowsingUtils.isWindowPrivate(main)")
        before = self._ask("WebDriver:GetWindowHandle")
        newest = self._ask("WebDriver:GetWindowHandles")[-1]
        self._ask("WebDriver:SwitchToWindow", handle=newest)
        until(lambda: "@" in (self.page(self.tab_text) or ""), "the inbox")
        text = self.page(self.tab_text)
        self._ask("WebDriver:CloseWindow")
        self._ask("WebDriver:SwitchToWindow", handle=before, focus=True)
        return text, is_private

    def press_key(self):
        self._privileged("({ main }) => main.document.querySelector('keyset[id^=ext-keyset-id] key').doCommand()")

    def press_menu(self, selector):
        """Choose our item in the context menu of a field."""
        (field,) = self._find(selector)
        origin = {"element-6066-11e4-a52e-4f735466cecf": field}
        point = {"type": "pointerMove", "origin": origin, "x": 0, "y": 0}
        pressed = [point, {"type": "pointerDown", "button": 2}, {"type": "pointerUp", "button": 2}]
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": pressed}
        self._ask("WebDriver:PerformActions", actions=[mouse])
        self._privileged(SCRIPTS["CHOOSE_IN_MENU"], "Fill in a new address")

    def revoke(self):
        """Revoke the permission, as in the browser's settings."""
        self._privileged(SCRIPTS["REVOKE"])

    def popup(self, expression):
        return self._privileged(SCRIPTS["EVALUATE"], expression)

    def is_popup_open(self):
        return self._privileged("({ popup }) => Boolean(popup)")

    def badge(self):
        return self._privileged("({ button }) => button.action.getProperty(null, 'badgeText') ?? ''")

    def _find(self, selector):
        found = self._ask("WebDriver:FindElements", using="css selector", value=selector)
        return [next(iter(one.values())) for one in found]

    def _privileged(self, act, expression=""):
        answer = self._run_privileged(f"({SCRIPTS['RUN']})({act}, arguments)", expression)
        assert not answer.startswith("E"), f"{expression}: {answer}"
        return json.loads(answer)

    def _run_privileged(self, script, expression=""):
        self._ask("Marionette:SetContext", value="chrome")
        try:
            return self._ask("WebDriver:ExecuteAsyncScript", script=script, args=[ID, expression])
        finally:
            self._ask("Marionette:SetContext", value="content")

    def _connects(self, port):
        with contextlib.suppress(OSError):
            self._socket = socket.create_connection(("127.0.0.1", port))
            return True
        return False

    def _read(self):
        length = b""
        while (octet := self._stream.read(1)) != b":":
            assert octet, "Firefox has ended"
            length += octet
        return json.loads(self._stream.read(int(length)))

    def _ask(self, command, **about):
        self._number += 1
        octets = json.dumps([0, self._number, command, about]).encode()
        self._socket.sendall(b"%d:%b" % (len(octets), octets))
        _, _, error, result = self._read()
        if error:
            raise MarionetteError(f"{command}: {error['error']}: {error['message']}")
        return result.get("value", result) if isinstance(result, dict) else result
