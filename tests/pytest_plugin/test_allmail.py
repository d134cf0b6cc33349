"""The ``all_mail`` fixture, which contains every message that an application sends, regardless of the recipient."""

import inspect
import json
import time
from pathlib import Path

import pytest

from daemons import environment
from patience import PATIENCE_SECONDS
from tmpmaild.client import AllMail
from tmpmaild.client.remote import RemoteService
from tmpmaild.pytest_plugin.inboxes import SharedAllMail, SharedAsyncAllMail
from warm import Program

TESTS = Path(__file__).with_name("suites").joinpath("all_mail.py").read_text(encoding="utf-8")
CATCHING = "tmpmaild_catch_all = true\n"


@pytest.fixture
def catching_service(tmp_path):
    """Return the options for a running service that catches all mail."""
    program = Program(["serve", "--for-tests", "--catch-all", "--stay"], cwd=tmp_path, env=environment(), text=True)
    places = json.loads(program.stdout.readline())
    yield f"--tmpmaild-url={places['http']}", f"--tmpmaild-smtp={places['smtp']}"
    program.terminate()
    assert program.wait(PATIENCE_SECONDS) == 0
    program.stdout.close()


def test_the_tests_of_an_application_find_all_of_its_mail(run):
    status, text = run("-p", "anyio.pytest_plugin", tests=TESTS, ini=f"{CATCHING}anyio_mode = auto\n")
    assert (status, "7 passed" in text) == (0, True), text


def test_without_the_key_it_says_what_is_missing(run):
    status, text = run(tests="def test_it(all_mail): pass\n")
    assert status == 1, text
    assert "all_mail needs a service that catches all mail: tmpmaild_catch_all = true" in text
    assert "another exception occurred" not in text


def test_in_parallel_on_one_service_each_call_needs_a_recipient(run, catching_service):
    tests = (
        "import smtplib\n"
        "def test_it(all_mail, tmpmail_smtp):\n"
        "    with smtplib.SMTP(*tmpmail_smtp) as server:\n"
        "        server.sendmail('a@b.example', ['anna@shop.example'], b'Subject: Hello\\r\\n\\r\\nHi\\r\\n')\n"
        "    assert all_mail.wait_for(to='anna@shop.example', timeout=30).subject == 'Hello'\n"
        "    all_mail.latest()\n"
    )
    status, text = run("-p", "xdist", "-n", "1", *catching_service, tests=tests)
    assert status == 1, text
    assert "all_mail needs to= here: tests in parallel use one service" in text


FILTERED = [
    name for name, call in inspect.getmembers(AllMail, inspect.isfunction) if "filters" in str(inspect.signature(call))
]
NAMES = [*(one for one in FILTERED if not one.startswith("_")), "clear"]


@pytest.mark.parametrize("kind", [SharedAllMail, SharedAsyncAllMail])
@pytest.mark.parametrize("name", NAMES)
async def test_no_call_of_a_shared_list_goes_without_a_recipient(kind, name):
    remote = RemoteService("http://127.0.0.1:8025", clock=time.monotonic, wait_out_rate_limit=False)
    call = getattr(kind(remote.all_mail(), None), name)
    needed = {one: 1 for one in ("count", "within") if one in inspect.signature(call).parameters}

    async def answered():
        result = call(**needed)
        return await result if inspect.isawaitable(result) else result

    with pytest.raises(pytest.fail.Exception, match="all_mail needs to= here"):
        await answered()
