"""Browsers with the extension in ``clients/browser``, loaded as by who develops it, and pressed as by who uses it.

Both have the same methods: ``open`` a page, ``page`` evaluates there, ``press_button`` opens the popup as a click on the
toolbar does, ``popup`` evaluates in it. What is evaluated is an expression in JavaScript, or a promise of one.
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

SOURCE = Path(__file__).parents[2] / "clients/browser"
PATIENCE_SECONDS = 20
ID = "extension@tmpmaild.org"
DEVELOPMENT = ("store", "README.md")


def unpacked(folder, **changes):
    """Copy the extension into a folder, with changes to its manifest."""
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns(*DEVELOPMENT))
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | changes))
    return folder


def until(ask, what="it", seconds=PATIENCE_SECONDS, instead=str):
    """Return what ``ask`` returns as soon as that is true; ``instead`` says what there is if that does not come."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"{what} did not come: {instead()}"
        time.sleep(0.05)
    return answer


class Browser:
    """What is the same in both."""

    def click(self, selector):
        """Click an element of the popup as soon as it is there and can be clicked."""
        found = (
            f"[...document.querySelectorAll({json.dumps(selector)})].find(e => !e.closest('[inert]') && !e.disabled)"
        )
        until(lambda: self.popup(f"!!{found}"), selector, instead=self.popup_text)
        self.popup(f"void {found}.click()")

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
        """Fill a new address into the page by the popup, which closes then."""
        self.press_button()
        self.click("#fill")
        self.closes()

    def closes(self):
        until(lambda: not self.is_popup_open(), "the end of the popup")


class Chromium(Browser):
    """Debian's Chromium without windows, by Playwright."""

    name = "chromium"

    def __init__(self, playwright, extension, **options):
        switches = [
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--force-prefers-reduced-motion", "--lang=en"),
            "--disable-features=DisableLoadExtensionCommandLineSwitch",
            f"--disable-extensions-except={extension}",
            f"--load-extension={extension}",
            "--enable-unsafe-extension-debugging",  # to press the button in the toolbar
            "--host-resolver-rules=MAP *.example 127.0.0.1",
        ]
        self.context = playwright.chromium.launch_persistent_context(
            "",
            executable_path="/usr/bin/chromium",
            headless=False,
            args=switches,
            ignore_default_args=["--disable-extensions"],
            **options,
        )
        self._cdp = self.context.browser.new_browser_cdp_session()
        self._numbers, self._answers = itertools.count(1), {}
        self._cdp.on("Target.receivedMessageFromTarget", self._receive)
        self._sessions = {}
        self.tab = self.context.pages[0]
        until(lambda: self.tab.wait_for_timeout(20) or self.context.service_workers, "the background")
        self.id = self.context.service_workers[0].url.split("/")[2]

    def close(self):
        self.context.close()

    def open(self, url):
        self.tab.goto(url)

    def page(self, expression):
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

    def connect(self, base):
        self.open_options()
        self.tab.locator("#service").fill(base)
        self.tab.locator("button").click()
        self.tab.locator("#result:not(:empty)").wait_for()
        return self.tab.locator("#result").text_content()

    def press_button(self):
        """Open the popup as a click on the button in the toolbar does."""
        self.tab.bring_to_front()
        filters = {"filter": [{"type": "tab"}]}
        tabs = self._cdp.send("Target.getTargets", filters)["targetInfos"]
        (target,) = (tab["targetId"] for tab in tabs if tab["embedderData"]["tabActive"])
        self._cdp.send("Extensions.triggerAction", {"id": self.id, "targetId": target})
        until(lambda: self.target("/popup.html"), "the popup")
        until(lambda: self.popup("document.querySelector('#fill')?.textContent"), "its words")

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
        """Send a command of Chromium's protocol to one of its targets, such as the popup."""
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


# Runs with the rights of the browser. What is evaluated in the popup is so in a sandbox, since its policy forbids eval().
PRIVILEGED = """
const [id, expression, done] = arguments;
(async () => {
  const { extension } = WebExtensionPolicy.getByID(id);
  const main = Services.wm.getMostRecentWindow("navigator:browser");
  const { ExtensionParent } = ChromeUtils.importESModule("resource://gre/modules/ExtensionParent.sys.mjs");
  const button = ExtensionParent.apiManager.global.browserActionFor(extension);
  const popup = main.document.querySelector("browser[webextension-view-type=popup]");
  return JSON.stringify((await (async () => { BODY })()) ?? null);
})().then(done, (error) => done("E" + error));
"""
EVALUATE = """
const sandbox = Cu.Sandbox(popup.contentWindow, { sandboxPrototype: popup.contentWindow, wantXrays: false });
return JSON.parse(await Cu.evalInSandbox(`(async () => JSON.stringify((await (${expression})) ?? null))()`, sandbox));
"""
REVOKE = """
const { ExtensionPermissions } = ChromeUtils.importESModule("resource://gre/modules/ExtensionPermissions.sys.mjs");
await ExtensionPermissions.remove(id, { permissions: [], origins: ["http://127.0.0.1/*"] }, extension);
"""
CHOOSE_IN_MENU = """
const menu = main.document.getElementById("contentAreaContextMenu");
[...menu.querySelectorAll("menuitem")].find((one) => one.label === expression).doCommand();
menu.hidePopup();
"""
PREFERENCES = {
    "extensions.webextOptionalPermissionPrompts": False,
    "extensions.webextensions.remote": False,  # its windows can be reached from here
    "network.dns.localDomains": "shop.example,other.example,frame.example",
    "datareporting.policy.dataSubmissionEnabled": False,
    "ui.prefersReducedMotion": 1,
    "intl.locale.requested": "en-US",
    "app.normandy.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "dom.ipc.processPrelaunch.enabled": False,
}


class MarionetteError(Exception):
    """What Firefox refused."""


class Firefox(Browser):
    """Debian's Firefox without windows, by its own protocol, Marionette, which also reaches the toolbar."""

    name = "firefox"

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
        except MarionetteError:  # the page has gone on
            return self._ask("WebDriver:ExecuteAsyncScript", script=script, args=[], sandbox=None)

    def connect(self, base):
        self.open(f"moz-extension://{self.host()}/options.html")
        until(lambda: self.page("document.activeElement?.id === 'service'"), "the options page")
        self.page(
            f"void (document.querySelector('#service').value = {json.dumps(base)})"
        )  # keys may go to a popup that closes
        (button,) = self._find("button")
        said = "document.querySelector('#result').textContent"
        self._ask("WebDriver:ElementClick", id=button)
        return until(lambda: self.page(said), "the answer", instead=self.page_text)

    def press_button(self):
        self._privileged("await button.triggerAction(main);")
        until(self.is_popup_open, "the popup")
        until(lambda: self.popup("document.querySelector('#fill')?.textContent"), "its words")

    def host(self):
        return self._privileged("return extension.uuid;")

    def press_key(self):
        self._privileged("main.document.querySelector('keyset[id^=ext-keyset-id] key').doCommand();")

    def press_menu(self, selector):
        """Choose our item in the menu of a field."""
        (field,) = self._find(selector)
        origin = {"element-6066-11e4-a52e-4f735466cecf": field}
        point = {"type": "pointerMove", "origin": origin, "x": 0, "y": 0}
        pressed = [point, {"type": "pointerDown", "button": 2}, {"type": "pointerUp", "button": 2}]
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": pressed}
        self._ask("WebDriver:PerformActions", actions=[mouse])
        self._privileged(CHOOSE_IN_MENU, "Fill in a new address")

    def revoke(self):
        """Take the permission back, as in the browser's settings."""
        self._privileged(REVOKE)

    def popup(self, expression):
        return self._privileged(EVALUATE, expression)

    def is_popup_open(self):
        return self._privileged("return Boolean(popup);")

    def badge(self):
        return self._privileged("return button.action.getProperty(null, 'badgeText') ?? '';")

    def _find(self, selector):
        found = self._ask("WebDriver:FindElements", using="css selector", value=selector)
        return [next(iter(one.values())) for one in found]

    def _privileged(self, body, expression=""):
        script = PRIVILEGED.replace("BODY", body)
        self._ask("Marionette:SetContext", value="chrome")
        try:
            answer = self._ask("WebDriver:ExecuteAsyncScript", script=script, args=[ID, expression])
        finally:
            self._ask("Marionette:SetContext", value="content")
        assert not answer.startswith("E"), f"{expression}: {answer}"
        return json.loads(answer)

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
