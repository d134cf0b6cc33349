"""The fixture ``all_mail``: every message that an application sends, whoever it is for."""

import json
from pathlib import Path

import pytest

from daemons import environment
from patience import PATIENCE_SECONDS
from warm import Program

TESTS = Path(__file__).with_name("suites").joinpath("all_mail.py").read_text(encoding="utf-8")
CATCHING = "tmpmaild_catch_all = true\n"


@pytest.fixture
def catching_service(tmp_path):
    """Return the options for a service that catches all mail and runs already."""
    program = Program(["serve", "--for-tests", "--catch-all", "--stay"], cwd=tmp_path, env=environment(), text=True)
    places = json.loads(program.stdout.readline())
    yield f"--tmpmaild-url={places['http']}", f"--tmpmaild-smtp={places['smtp']}"
    program.terminate()
    assert program.wait(PATIENCE_SECONDS) == 0
    program.stdout.close()


def test_the_tests_of_an_application_find_all_of_its_mail(run):
    status, text = run(tests=TESTS, ini=CATCHING)
    assert (status, "5 passed" in text) == (0, True), text


def test_without_the_key_it_says_what_is_missing(run):
    status, text = run(tests="def test_it(all_mail): pass\n")
    assert status == 1, text
    assert "all_mail needs a service that catches all mail: tmpmaild_catch_all = true" in text


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
