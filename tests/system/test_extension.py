"""The extension in Chromium and in Firefox: sign-ups with six forms, errors, hostile pages and hostile mail."""

import contextlib
import json
import subprocess
from pathlib import Path

import pytest
from passing import HELD, Proxy
from playwright.sync_api import sync_playwright

import daemons
import extension
import extensions
from extensions import Chromium, Display, Firefox, until
from signupsite import CODE, SignUpSite

FORMS = Path(__file__).parent / "forms"
NAMES = ("plain", "react", "vue", "svelte", "six", "dialog")
# Submits each form; CODE_FIELD is true once the page asks for the code.
SUBMIT = "void [...document.querySelectorAll('button')].find(e => e.offsetHeight > 0).click()"
CODE_FIELD = (
    "[...document.querySelectorAll('input')].some(e => e.offsetHeight > 0 && /code|otp|one-time|tel/i.test("
    "e.name + e.getAttribute('autocomplete') + e.type)) || document.querySelectorAll('[maxlength=\"1\"]').length === 6"
)


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """Build the framework forms, with packages that npm installs."""
    if not (FORMS / "node_modules").exists():
        install = ("npm", "install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund")
        subprocess.run(install, cwd=FORMS, check=True)
    folder = tmp_path_factory.mktemp("built")
    subprocess.run(["node", "build.mjs", folder], cwd=FORMS, check=True)
    return folder


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    longer = {"TMPMAILD_ADDRESSES__MAX_LIFETIME_SECONDS": "7200"}
    daemon = daemons.Daemon(tmp_path_factory.mktemp("daemon"), **daemons.NO_LIMITS, **longer)
    yield daemon
    daemon.close()


@pytest.fixture(scope="module")
def site(daemon, forms):
    site = SignUpSite(daemon.smtp_port, forms, FORMS)
    yield site
    site.close()


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def browser(request, tmp_path_factory, daemon):
    folder = tmp_path_factory.mktemp("extension") / "unpacked"
    with contextlib.ExitStack() as stack:
        if request.param == "firefox":
            browser = Firefox(extensions.unpacked(folder))
        else:
            stack.callback((display := Display()).close)
            browser = Chromium(stack.enter_context(sync_playwright()), extensions.unpacked(folder), display)
        stack.callback(browser.close)
        assert browser.connect(daemon.url).startswith("Connected to 127.0.0.1:")
        yield browser


@pytest.fixture
def served_by(browser, daemon, tmp_path):
    """Return a function that starts a second service with different settings, and connects the extension to it."""
    running = []

    def served_by(**settings):
        running.append(daemons.Daemon(tmp_path, **settings))
        assert browser.connect(running[0].url).startswith("Connected")
        return running[0]

    yield served_by
    browser.connect(daemon.url)
    for one in running:
        one.close()


@pytest.fixture
def proxy(browser, daemon):
    """Connect the extension with a proxy in front of the service."""
    proxy = Proxy(daemon.url)
    assert browser.connect(proxy.url).startswith("Connected")
    yield proxy
    proxy.answers.clear(), proxy.delays.clear()
    browser.connect(daemon.url)
    proxy.close()


@pytest.fixture(autouse=True)
def no_inboxes(request):
    """Remove the inboxes that a test has created."""
    yield
    if "browser" not in request.fixturenames:
        return
    browser = request.getfixturevalue("browser")
    browser.open("about:blank")
    if not browser.is_popup_open():
        browser.press_button()
    browser.popup("chrome.storage.session.remove(['inboxes', 'notice', 'trouble'])")
    browser.close_popup()


def signed_up(browser, site, name):
    """Sign up with a new address, until the page requests the code."""
    n = len(site.addresses)
    browser.open(site.url(f"/{name}"))
    until(lambda: browser.page("!!document.querySelector('input')"))
    browser.fill_address()
    browser.page(SUBMIT)
    until(lambda: len(site.addresses) > n, "the address")
    assert site.addresses[-1].endswith("@mail.example.com")
    until(lambda: browser.badge() == "1", "the badge")
    until(lambda: browser.page(CODE_FIELD), "the field for the code")


def waits(browser, site):
    """Wait for messages to a new address, with the popup open; return the address."""
    browser.open(site.url("/react"))
    browser.press_button()
    browser.click("#new")
    browser.says("Waiting for messages")
    return browser.popup("document.querySelector('.address').textContent")


@pytest.mark.parametrize("name", NAMES)
def test_a_user_signs_up_with_a_code(browser, site, name):
    signed_up(browser, site, name)
    browser.press_button()
    browser.says(CODE)
    browser.says("Expires in")
    browser.click("[data-key^='code ']")
    browser.closes()
    assert browser.badge() == ""
    browser.page(SUBMIT)
    browser.shows("Welcome")


@pytest.mark.parametrize("name", NAMES)
def test_a_user_signs_up_with_a_link(browser, site, name):
    signed_up(browser, site, name)
    browser.press_button()
    browser.says(f"Open shop.example:{site.port}")
    browser.click("[data-key^='link ']")
    browser.shows("Confirmed by link")
    assert browser.page("history.length") > 1  # the link has opened in the same tab


def test_the_store_archive_has_no_errors_or_warnings(forms, tmp_path):
    *_, archive = extension.build(tmp_path)
    lint = [FORMS / "node_modules/.bin/web-ext", "lint", "--output=json", "--source-dir", archive]
    done = subprocess.run(lint, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert [found[kind] for kind in ("errors", "warnings", "notices")] == [[], [], []]


# Pages that cause an error: the popup shows a message and leaves no unused address.

FAULTS = {
    "/none": ("<input name=city>", "There is no email field on this page."),
    "/password": ("<input type=password autofocus>", "There is no email field on this page."),
    "/several": ("<form><input type=email></form><form><input type=email></form>", "There are several email fields."),
    "/hidden": ("<input type=email style='opacity:0'><input type=email hidden>", "There is no email field"),
    "/refuses": ("<input type=email oninput='this.value=\"\"'>", "Nothing can be filled in on this page."),
}


@pytest.mark.parametrize("path", FAULTS)
def test_a_page_without_a_field_to_fill_shows_a_message(browser, site, path):
    site.pages[path], said = f"<!doctype html>{FAULTS[path][0]}", FAULTS[path][1]
    browser.open(site.url(path))
    browser.press_button()
    browser.click("#fill")
    browser.says(said)
    assert len(browser.popup("chrome.storage.session.get('inboxes')").get("inboxes", [])) == (path == "/refuses")


def test_frames_are_filled_only_if_they_are_from_the_same_site(browser, site):
    site.pages["/inner"] = "<!doctype html><input type=email>"
    for host in ("frame.example", "shop.example"):
        site.pages["/outer"] = f"<!doctype html><iframe src='{site.url('/inner', host)}'></iframe>"
        browser.open(site.url("/outer"))
        browser.press_button()
        browser.click("#fill")
        if host == "frame.example":
            browser.says("The field is in a frame from another site")
            browser.close_popup()
        browser.closes()
    until(lambda: "@mail.example.com" in browser.page("frames[0].document.querySelector('input').value"))


def test_the_browsers_own_pages_cannot_be_accessed(browser):
    browser.open("about:config" if browser.name == "firefox" else "chrome://version")
    browser.press_button()
    browser.click("#fill")
    browser.says("Nothing can be filled in on this page.")
    browser.click("#new")
    browser.says("@mail.example.com")


def test_the_rate_limit_message_states_when_to_try_again(browser, site, served_by):
    served_by(TMPMAILD_RATE_LIMIT__BURST="4", TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE="1")
    browser.open(site.url("/react"))
    browser.press_button()
    for _ in range(4):
        browser.click("#new")
        until(lambda: browser.popup("!document.querySelector('#new').disabled"))
    browser.says("Too many requests. Try again in")


def test_the_popup_recovers_when_the_service_is_back(browser, site, served_by):
    daemon = served_by(**daemons.NO_LIMITS)
    address = waits(browser, site)
    daemon.stop()
    browser.says("The service cannot be reached.")
    browser.click("#fill")
    until(lambda: "cannot be reached" in browser.popup("document.querySelector('#notice').textContent"))
    browser.close_popup()
    daemon.start()
    daemon.deliver_raw(address, b"Subject: Your code\r\n\r\nYour code is 730418.\r\n")
    until(lambda: browser.badge() == "1", "the badge", seconds=60)
    browser.press_button()
    browser.says("730418")
    assert browser.popup("document.querySelector('#trouble').hidden")


STREAMLESS = {
    "refused": (503, {}, b"no streams"),
    "limited": (429, {"Retry-After": "1"}, b'{"code": "too-many-streams"}'),
    "held": HELD,
    "cut": (200, {"Content-Type": "text/event-stream"}, b""),
}


@pytest.mark.parametrize("kind", STREAMLESS)
def test_requests_wait_for_mail_if_streams_are_blocked(browser, site, proxy, kind):
    proxy.answers["events"] = STREAMLESS[kind]
    address = waits(browser, site)
    until(lambda: "messages" in proxy.asked, "a request", seconds=60, instead=lambda: str(proxy.asked))
    streams = proxy.asked.count("events")
    assert streams == 2
    for code in ("730418", "551207"):
        site.mail(address, f"Your code is {code}.\n")
        browser.says(code)
    assert proxy.asked.count("events") == streams  # the extension does not retry failed streams
    assert browser.popup("document.querySelector('#trouble').hidden")


def test_an_expired_address_is_forgotten(browser, site, served_by):
    served_by(**daemons.NO_LIMITS, TMPMAILD_ADDRESSES__LIFETIME_SECONDS="6")
    waits(browser, site)
    until(lambda: browser.popup("document.querySelectorAll('li').length === 0"))
    until(lambda: browser.popup("chrome.storage.session.get('inboxes').then(({inboxes}) => !inboxes.length)"))


def test_several_inboxes_are_extended_opened_and_deleted(browser, site):
    for host in ("shop.example", "other.example"):
        browser.open(site.url("/react", host))
        browser.fill_address()
    browser.press_button()
    until(
        lambda: (
            browser.popup("[...document.querySelectorAll('.site')].map(e => e.textContent).join()")
            == "other.example,shop.example"
        )
    )
    browser.says("Expires in 60 min")
    browser.click("[data-key^='extend ']")
    browser.says("Expires in 120 min")
    browser.click("[data-key^='title ']:not([aria-expanded=true])")
    until(lambda: browser.popup("document.querySelector('[aria-expanded=true] .site').innerText") == "shop.example")
    browser.click("[data-key^='delete ']")
    until(lambda: browser.popup("document.querySelectorAll('li').length") == 1)
    browser.says("other.example")


def test_the_shortcut_and_the_context_menu_fill_fields_too(browser, site):
    browser.open(site.url("/react"))
    browser.press_key()
    until(lambda: "@mail.example.com" in browser.page("document.querySelector('input').value"))
    browser.open(site.url("/plain"))
    browser.press_menu("[name=name]")
    until(lambda: "@mail.example.com" in browser.page("document.querySelector('[name=name]').value"))
    site.pages["/none"] = "<!doctype html>nothing"
    browser.open(site.url("/none"))
    browser.press_key()
    until(browser.is_popup_open, "the popup")
    browser.says("There is no email field on this page.")


def test_a_revoked_permission_is_reported(browser, site, daemon):
    browser.open(site.url("/react"))
    browser.revoke()
    browser.press_button()
    browser.click("#fill")
    browser.says("The browser does not allow access to 127.0.0.1")
    browser.close_popup()
    assert browser.connect(daemon.url, browser.DENY).startswith("The browser does not allow access to 127.0.0.1")
    assert browser.connect(daemon.url).startswith("Connected")


def test_copied_text_is_in_the_clipboard(browser, site):
    signed_up(browser, site, "react")
    for button, copied in (("copy ", site.addresses[-1]), ("copy code ", CODE)):
        browser.press_button()
        browser.press(f"[data-key^='{button}']")
        browser.says("Copied")
        until(lambda: "Copied" not in browser.popup_text())
        browser.close_popup()
        assert browser.clipboard() == copied


def test_an_inbox_is_opened_in_a_separate_tab(browser, site, daemon):
    signed_up(browser, site, "react")
    browser.press_button()
    browser.click("[data-key^='open ']")
    browser.closes()
    text, is_private = browser.opened(daemon.url)
    assert site.addresses[-1] in text
    assert not is_private


def test_private_windows_have_separate_inboxes_until_the_last_is_closed(browser, site, daemon):
    browser.open(site.url("/react", "other.example"))
    browser.fill_address()
    with browser.private_window():
        browser.open(site.url("/react"))
        browser.press_button()
        browser.says("Private window: these addresses are forgotten when the last private window is closed.")
        assert "other.example" not in browser.popup_text()
        browser.page("void document.querySelector('input').remove()")
        browser.click("#fill")
        browser.says("There is no email field on this page.")
        browser.close_popup()
        browser.open(site.url("/vue"))
        browser.press_button()
        browser.click("#fill")
        browser.closes()
        address = until(lambda: browser.page("document.querySelector('input').value"))
        site.mail(address, f"Your code is {CODE}.\n")
        browser.press_button()
        browser.says(CODE)
        browser.click("[data-key^='open ']")
        browser.closes()
        text, is_private = browser.opened(daemon.url)
        assert address in text
        assert is_private
    browser.press_button()
    browser.says("other.example")
    stored = "chrome.storage.session.get('inboxes').then(({inboxes}) => inboxes.map(({site}) => site).join())"
    until(lambda: browser.popup(stored) == "other.example", "the end of the private inbox")


# Attacks.

HOSTILE = Path(__file__).with_name("extension-hostile.html").read_text()


def test_a_hostile_page_gets_only_the_address_filled_into_it(browser, site):
    site.pages["/hostile"] = HOSTILE.replace("IDENTITY", json.dumps(getattr(browser, "id", extensions.ID)))
    browser.open(site.url("/hostile"))
    until(lambda: browser.page("seen.length > 20"))
    assert browser.badge() == ""
    browser.fill_address()
    names = browser.page("seen.join('|')").split("|")
    assert {name for name in names if name.startswith("input ")} == {"input real"}
    assert not {"set", "query", "map", "dispatch", "focus"} & set(names)
    assert "@mail.example.com" not in "|".join(names)  # the events do not reveal the address either
    browser.press_button()
    until(lambda: browser.popup("document.querySelectorAll('li').length === 1"))
    stored = browser.popup("chrome.storage.session.get('inboxes')")["inboxes"]
    assert [one["site"] for one in stored] == ["shop.example"]
    site.mail(stored[0]["address"], f"Your code is {CODE}.\n")
    browser.says(CODE)
    browser.click("[data-key^='code ']")
    browser.says("It is not clear which field the code is for.")


def test_pages_cannot_load_or_frame_any_file_of_the_extension(browser, site):
    scheme = "moz-extension" if browser.name == "firefox" else "chrome-extension"
    base = f"{scheme}://{browser.host() if browser.name == 'firefox' else browser.id}"
    site.pages["/probe"] = "<!doctype html>probe"
    browser.open(site.url("/probe"))
    for name in ("popup.html", "options.html", "page.js", "icons/16.png", "manifest.json"):
        asked = f"fetch('{base}/{name}').then(() => 'loaded', () => 'refused')"
        assert browser.page(asked) == "refused", name
    for tag, name in {"img": "icons/16.png", "script": "page.js"}.items():
        asked = f"""new Promise((done) => {{
          const element = document.createElement("{tag}");
          element.onerror = () => done("refused"); element.onload = () => done("loaded"); element.src = "{base}/{name}";
          document.body.append(element); setTimeout(done, 2000, "nothing");
        }})"""
        assert browser.page(asked) == "refused", name
    framed = f"""new Promise((done) => {{
      const frame = document.createElement("iframe");
      frame.src = "{base}/popup.html";
      frame.onload = () => {{ try {{ done(frame.contentDocument?.title ?? "foreign"); }} catch {{ done("foreign"); }} }};
      document.body.append(frame); setTimeout(done, 3000, "never");
    }})"""
    assert browser.page(framed) in ("foreign", "never", "")


MARKUP = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


def test_a_hostile_message_is_shown_as_text(browser, site):
    address = waits(browser, site)
    html = (
        "<p>Your code is <b>481516</b></p><p>Confirm your address: "
        "<a href=\"javascript:document.title='owned'\">Confirm</a> "
        "<a href='https://shop.example@evil.example/confirm?token=12345678'>https://shop.example/confirm</a></p>"
    )
    site.mail(address, "x", f"{MARKUP} \u202egnp.exe \u2066Confirm", html)
    browser.says("481516")
    browser.says("Open evil.example")
    browser.says("The link leads to evil.example, but the address is for shop.example.")
    text = browser.popup_text()
    assert MARKUP.partition(" ")[0] in text
    assert not set("\u202e\u2066") & set(text)
    assert browser.popup("document.title") == "tmpmaild"
    assert browser.popup("document.querySelectorAll('#inboxes :is(img, script, a, iframe)').length") == 0
    site.mail(
        address, "x", "Confirm", "<a href='https://\u0455hop.example/confirm?token=1234567890'>Confirm your address</a>"
    )
    browser.says("Open xn--hop-ehd.example")


def test_a_code_for_a_different_site_is_marked(browser, site):
    signed_up(browser, site, "react")
    browser.open(site.url("/vue", "other.example"))
    browser.press_button()
    browser.says("This was sent to the address for shop.example, but you are on other.example.")
    browser.says("Fill in at other.example")
    assert browser.popup("document.querySelector('[data-key^=\"code \"]').className") == ""


# The second host belongs to the service, which the extension may always access.
@pytest.mark.parametrize("elsewhere", ["other.example", "127.0.0.1"])
@pytest.mark.parametrize("wish", ["#fill", "[data-key^='code ']"])
def test_a_page_that_has_navigated_meanwhile_is_not_filled(browser, site, wish, elsewhere):
    signed_up(browser, site, "react")
    browser.press_button()
    browser.says(CODE)
    browser.page(f"void (location.href = '{site.url('/plain', elsewhere)}')")
    until(lambda: browser.page("location.hostname + document.readyState") == f"{elsewhere}complete")
    browser.click(wish)
    browser.says("Nothing can be filled in on this page.")
    assert browser.page("[...document.querySelectorAll('input')].map(e => e.value).join('')") == ""


@pytest.mark.parametrize("elsewhere", ["shop.example", "other.example", "127.0.0.1"])
def test_a_page_that_navigates_while_the_address_is_created_is_not_filled(browser, site, proxy, elsewhere):
    proxy.delays["addresses"] = 3
    browser.open(site.url("/react"))
    browser.press_button()
    browser.page(f"void setTimeout(() => (location.href = '{site.url('/plain', elsewhere)}'), 1000)")
    browser.click("#fill")
    until(lambda: browser.page("location.pathname + document.readyState") == "/plaincomplete")
    browser.says("Nothing can be filled in on this page.")
    assert browser.page("[...document.querySelectorAll('input')].map(e => e.value).join('')") == ""


def test_a_honeypot_field_is_left_empty(browser, site):
    far = "position: absolute; left: -5000px"
    site.pages["/trap"] = (
        f"<!doctype html><form><p style='{far}'><input type=email name=trap></p><input type=email name=real></form>"
    )
    browser.open(site.url("/trap"))
    browser.fill_address()
    assert "@mail.example.com" in browser.page("document.querySelector('[name=real]').value")
    assert browser.page("document.querySelector('[name=trap]').value") == ""


def test_a_frame_from_another_site_over_the_form_gets_no_data(browser, site):
    site.pages["/over"] = (
        "<!doctype html><input type=email autofocus style='position: fixed; inset: 0; width: 100%; height: 90%'>"
        "<script>setInterval(() => parent.postMessage(document.querySelector('input').value, '*'), 50);"
        "addEventListener('message', ({ data }) => parent.postMessage('heard ' + data, '*'))</script>"
    )
    site.pages["/under"] = (
        "<!doctype html><input type=email><script>heard = new Set(); addEventListener('message', e => heard.add(e.data))</script>"
        f"<iframe src='{site.url('/over', 'frame.example')}' style='position: fixed; inset: 0; width: 100%; height: 100%'></iframe>"
    )
    browser.open(site.url("/under"))
    until(lambda: browser.page("heard.size > 0"))
    browser.fill_address()
    assert "@mail.example.com" in browser.page("document.querySelector('input').value")
    browser.page("new Promise(done => setTimeout(done, 300))")
    assert browser.page("[...heard].join()") == ""


# Invalid responses of a service, and the popup's message for each; no address is created. service.test.mjs covers more
# responses.
BAD_ANSWERS = {
    "a redirect": (302, {"Location": "/elsewhere"}, b"", "The service cannot be reached."),
    "ten megabytes": (201, {}, json.dumps({"address": "a" * 10_000_000}).encode(), "There is no tmpmaild"),
}


@pytest.mark.parametrize("kind", BAD_ANSWERS)
def test_an_invalid_response_of_the_service_is_reported(browser, site, proxy, kind):
    *proxy.answers["addresses"], said = BAD_ANSWERS[kind]
    browser.open(site.url("/react"))
    browser.press_button()
    browser.click("#fill")
    browser.says(said)
    assert "elsewhere" not in proxy.asked
    assert browser.popup("document.querySelectorAll('li').length") == 0
    assert browser.page("document.querySelector('input').value") == ""


def test_a_cookie_from_the_service_is_not_stored(browser, site, proxy):
    proxy.headers["Set-Cookie"] = "spy=1; Path=/"
    browser.open(site.url("/react"))
    browser.fill_address()
    proxy.headers.clear()
    browser.open(f"{proxy.url}/robots.txt")
    assert browser.page("document.cookie") == ""


def test_a_page_whose_elements_shadow_dom_properties_does_no_harm(browser, site):
    names = ("querySelectorAll", "activeElement", "forms", "body", "defaultView")
    clobbering = "".join(f"<img name={name}><form name={name}></form>" for name in names)
    site.pages["/names"] = f"<!doctype html>{clobbering}<input type=email>"
    browser.open(site.url("/names"))
    browser.fill_address()
    assert "@mail.example.com" in browser.page("document.getElementsByTagName('input')[0].value")


def test_many_messages_leave_the_rest_of_the_popup_reachable(browser, site):
    address = waits(browser, site)
    for number in range(100_000, 100_060):
        site.mail(address, f"Your code is {number}.\n")
    browser.says("100059")
    browser.click("[data-key^='delete ']")
    until(lambda: browser.popup("document.querySelectorAll('li').length") == 0)
