"""WebKitGTK's WebDriver: a display, the driver, its browser, and scripts run in a page with Playwright's own script."""

import ast
import functools
import json
import os
import socket
import subprocess
import time
from pathlib import Path

import httpx2
import playwright

from scripts import scripts_of

MINIBROWSER = "*/webkit2gtk-4.1/MiniBrowser"
PATIENCE_SECONDS = 30
# Without a GPU, OpenGL would be rendered on the CPU, which doubles the work. Accessibility services are not needed.
LIGHT = {"WEBKIT_DISABLE_COMPOSITING_MODE": "1", "NO_AT_BRIDGE": "1"}
# Playwright's script is injected into a document on first use.
INJECT = """Object.defineProperty(window, "__playwright", {
  value: (() => { const module = {}; %s; return new (module.exports.InjectedScript())(globalThis, %s); })(),
});"""
OPTIONS = {"sdkLanguage": "python", "testIdAttributeName": "data-testid", "browserName": "webkit", "customEngines": []}
CALL = scripts_of(__file__)["CALL"]


@functools.cache
def _injected():
    """Return Playwright's page script, which is a string in the source code of Playwright's driver."""
    source = Path(playwright.__file__).with_name("driver") / "package/lib/coreBundle.js"
    literal = source.read_text().partition('generated/injectedScriptSource.ts"() {')[2].partition(" = ")[2]
    return INJECT % (ast.literal_eval(literal.partition("\n")[0].rstrip(";")), json.dumps(OPTIONS))


class WebDriverError(Exception):
    """An error from the driver, such as for a click on a covered element."""


class WebDriver:
    """A display, the driver, and the browser that it starts; runs one command at a time, in one of its windows."""

    def __init__(self, home):
        """Start the display, the driver and the browser, which saves downloads in ``home``."""
        (home / ".config").mkdir()
        (home / ".config/user-dirs.dirs").write_text(f'XDG_DOWNLOAD_DIR="{home}"\n')
        self._processes = []
        self._environment = {**os.environ, **LIGHT, "HOME": str(home), "DISPLAY": self._display()}
        self._http = httpx2.Client(base_url=self._driver(), timeout=60)
        chosen = {"binary": str(next(Path("/usr/lib").glob(MINIBROWSER))), "args": ["--automation"]}
        # Otherwise each command would wait five minutes for a page load that never finishes, which sometimes happens;
        # goto() and reload() retry.
        wanted = {"webkitgtk:browserOptions": chosen, "timeouts": {"pageLoad": PATIENCE_SECONDS * 1000 // 3}}
        asked = {"capabilities": {"alwaysMatch": wanted}}
        self._path = f"/session/{self._send('POST', '/session', asked)['sessionId']}"
        self._shown = self.first_window = self("GET", "/window")

    def _display(self):
        reading, writing = os.pipe()
        command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1600x1200x24", "-nolisten", "tcp"]
        self._processes.append(subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL))
        os.close(writing)
        with os.fdopen(reading) as number:
            return f":{number.readline().strip()}"

    def _driver(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._processes.append(subprocess.Popen(["WebKitWebDriver", f"--port={port}"], env=self._environment))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
            except ConnectionRefusedError:
                assert time.monotonic() < deadline, "WebKitWebDriver does not listen"
                time.sleep(0.02)
            else:
                return f"http://127.0.0.1:{port}"

    async def close(self):
        self._send("DELETE", self._path)
        self._http.close()
        for process in reversed(self._processes):
            process.terminate()
            process.wait()

    def __call__(self, method, path, **body):
        return self._send(method, self._path + path, body)

    def show(self, window):
        if window != self._shown:
            self("POST", "/window", handle=window)
            self._shown = window

    def run(self, expression, argument=None):
        """Return the value of an expression in the page, or the result of a function there."""
        script = f"({CALL})((find, is) => ({expression}), arguments)"
        for _ in "12":
            answer = self("POST", "/execute/async", script=script, args=[argument])
            if "none" not in answer:
                break
            self("POST", "/execute/sync", script=_injected(), args=[])
        if "error" in answer:
            raise WebDriverError(answer["error"])
        return answer.get("value")

    def _send(self, method, path, body=None):
        answer = self._http.request(method, path, json=body if method == "POST" else None)
        value = answer.json()["value"]
        if answer.is_error:
            raise WebDriverError(f"{value['error']}: {value['message']}")
        return value
