"""The pages docs/testing.md and docs/testing/* show the examples exactly as they run here, or link to them."""

import inspect
import os
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

import daemons
import peers
from daemons import finished
from tmpmaild import pytest_plugin
from tmpmaild.client import Inbox, Mail

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "tests/examples"
PAGES = {path.stem: path.read_text() for path in [ROOT / "docs/testing.md", *(ROOT / "docs/testing").glob("*.md")]}
FILES = sorted(path for path in EXAMPLES.glob("*/*") if path.suffix != ".pyc" and path.is_file())
FENCED = re.compile(r"^```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [block for text in PAGES.values() for block in FENCED.findall(text)]


@pytest.fixture
def example(tmp_path):
    """Return a function that copies examples to the test's folder."""

    def copy(*names):
        for name in names:
            shutil.copy(EXAMPLES / name, tmp_path)

    return copy


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_example_is_in_the_guide_unchanged_or_linked(path):
    link = f"](../../{path.relative_to(ROOT)})"
    assert path.read_text() in BLOCKS or any(link in text for text in PAGES.values())


def test_no_code_is_in_the_guide_twice():
    parts = [part for block in BLOCKS for part in re.split(r"\n{2,}", block.strip()) if part.count("\n") >= 4]
    assert [part for part, times in Counter(parts).items() if times > 1] == []


def test_every_page_is_in_the_list_of_pages():
    assert [name for name in PAGES if name != "testing" and f"](testing/{name}.md)" not in PAGES["testing"]] == []


def test_every_fixture_option_and_ini_key_is_in_the_guide():
    source = Path(pytest_plugin.__file__).read_text(encoding="utf-8")
    fixtures = re.findall(r"^@pytest\.fixture.*\ndef ([a-z]\w+)", source, re.MULTILINE)
    options = re.findall(r'add(?:option|ini)\("([\w-]+)"', source)
    assert (len(fixtures), len(options)) == (9, 10)
    assert [name for name in fixtures + options if f"`{name}`" not in PAGES["pytest"]] == []


def test_every_method_of_an_inbox_and_of_a_message_is_in_the_guide():
    calls = [name for kind in (Inbox, Mail) for name, value in vars(kind).items() if inspect.isfunction(value)]
    public = [name for name in calls if not name.startswith("_")]
    assert len(public) > 12
    assert [name for name in public if not re.search(rf"\b(?:inbox|mail)\.{name}\b", PAGES["pytest"])] == []


@pytest.mark.proof
def test_plain_pytest_a_flask_application_and_tests_in_parallel_need_nothing_but_the_plugin(example, run, service):
    example("pytest/test_welcome.py", "pytest/test_await.py")
    example("flask/shop.py", "flask/test_shop.py", "flask/test_parallel.py", "faults/test_outbox.py")
    status, text = run(*service, "-p", "xdist", "-n", "2", "-p", "anyio.pytest_plugin", ini="pythonpath = .\n")
    assert (status, "15 passed" in text) == (0, True), text


@pytest.mark.proof
def test_unittest_starts_a_daemon_for_a_class_of_tests(example, tmp_path):
    example("unittest/test_sign_up.py")
    done = finished([sys.executable, "-W", "error", "-m", "unittest"], cwd=tmp_path, env=daemons.environment())
    assert (done.returncode, "Ran 1 test" in done.stderr) == (0, True), done.stderr


@pytest.mark.proof
def test_real_applications_with_django_allauth_fastapi_users_and_flask_security_sign_users_up(example, run, service):
    example("django/shop_settings.py", "django/shop_urls.py", "django/test_allauth.py")
    example("fastapi/api.py", "fastapi/test_users.py", "flask_security/accounts.py", "flask_security/test_accounts.py")
    ini = "pythonpath = .\nDJANGO_SETTINGS_MODULE = shop_settings\n"
    status, text = run(*service, "--nomigrations", "-p", "pytest_django.plugin", "-p", "anyio.pytest_plugin", ini=ini)
    assert (status, "3 passed" in text) == (0, True), text


@pytest.mark.proof
def test_a_django_backend_signs_mail_and_without_the_signature_mail_is_not_authentic(example, run, tmp_path):
    names = ("signed_mail.py", "signed_settings.py", "test_signed_mail.py")
    example(*[f"django_signed/{name}" for name in names])
    zones = re.search(r"```text\n(shop\.example.*?)```", PAGES["senders"], re.DOTALL)[1]
    (tmp_path / "zones.txt").write_text(zones)
    (tmp_path / "test_unsigned.py").write_text(
        (tmp_path / names[-1])
        .read_text()
        .replace("signed_mail.EmailBackend", "django.core.mail.backends.smtp.EmailBackend")
    )
    ini = "pythonpath = .\ntmpmaild_dns = zones.txt\nDJANGO_SETTINGS_MODULE = signed_settings\n"
    status, text = run("-p", "pytest_django.plugin", ini=ini)
    assert (status, "1 failed, 1 passed" in text, "DKIM: no signature" in text) == (1, True, True), text


@pytest.mark.proof
@pytest.mark.needs("chromium")
def test_a_browser_signs_up_with_the_code_in_the_message_and_shows_the_message(example, run, service, tmp_path):
    example("flask/shop.py", "playwright/test_sign_up.py", "playwright/test_mail.py")
    # The headless shell starts in half the time.
    (tmp_path / "chromium").symlink_to(peers.which("chromium-headless-shell"))
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    status, text = run(*service, "-p", "anyio.pytest_plugin", ini="pythonpath = .\n", PATH=path)
    assert (status, "2 passed" in text) == (0, True), text
