import shutil
import threading

import pytest
from playwright.sync_api import expect, sync_playwright
from shop import create_app
from werkzeug.serving import make_server


@pytest.fixture
def shop_url(tmpmail_smtp):
    server = make_server("127.0.0.1", 0, create_app(*tmpmail_smtp), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def page():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser.new_page()
        browser.close()


def test_a_customer_signs_up_with_the_code_in_the_message(page, shop_url, inbox):
    page.goto(shop_url)
    page.get_by_label("E-mail").fill(inbox.address)
    page.get_by_role("button", name="Sign up").click()
    mail = inbox.wait_for(subject="confirm", timeout=10)
    page.get_by_label("Code").fill(mail.get_code())
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text("You are in.")).to_be_visible()

    mail.open(page)
    expect(page.get_by_text("Your verification code is")).to_be_visible()
