"""The values of the fixtures, with the daemon that the plugin starts."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.joinpath("suites/fixtures.py").read_text()


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.proof)])
def passed(request, run_in, tmp_path_factory):
    """Run the suite once per database.

    The machine's settings, such as a proxy or a configuration file, must have no effect.
    """
    variables = {"TMPMAILD_HTTP__LISTEN": "nonsense", "TMPMAILD_SMTP": "nonsense:1", "HTTP_PROXY": "http://127.0.0.1:9"}
    arguments = ("-rA", "-p", "anyio.pytest_plugin")
    folder = tmp_path_factory.mktemp("fixtures")
    ini = "anyio_mode = auto\n"
    if request.param == "postgresql":
        cluster = request.getfixturevalue("cluster")
        (folder / "mail.toml").write_text(f'[storage]\nurl = "{cluster.url(cluster.database())}"\n')
        ini += "tmpmaild_config = mail.toml\n"
    return run_in(folder, *arguments, tests=TESTS, ini=ini, **variables)


@pytest.mark.parametrize("name", re.findall(r"def (test_(?!a_failure)\w+)", TESTS))
def test_the_fixtures_return_the_documented_values(passed, name):
    assert re.search(rf"^PASSED test_it.py::{name}\b", passed.text, re.MULTILINE), passed.text


def test_nothing_else_fails_or_warns(passed):
    assert passed.status == 1
    assert re.search(r"=+ 1 failed, \d+ passed in", passed.text), passed.text


def test_a_daemon_that_does_not_start_reports_the_reason(run, tmp_path):
    (tmp_path / "aiosmtpd.py").write_text("raise SystemExit('broken on purpose')")
    tests = "def test_one(inbox): pass\ndef test_two(tmpmail_smtp): pass\ndef test_three(): pass\n"
    status, text = run(tests=tests, python_path=tmp_path)
    assert (status, "1 passed, 2 errors" in text) == (1, True), text
    assert "tmpmaild: the embedded daemon did not start (exit 1); its output:\nbroken on purpose" in text
    assert "another exception occurred" not in text


@pytest.mark.parametrize("fixture", ["inbox", "async_inbox"])
def test_without_the_extra_the_error_names_the_package_to_install(run, tmp_path, fixture):
    (tmp_path / "httpx2.py").write_text("raise ModuleNotFoundError('no httpx2')")
    status, text = run("--tmpmaild-url=http://127.0.0.1:9", tests=f"def test_it({fixture}): pass", python_path=tmp_path)
    assert (status, "the client needs httpx2: pip install httpx2" in text) == (1, True), text


@pytest.mark.proof
def test_under_xdist_each_worker_has_its_own_daemon_and_no_async_plugin_is_needed(run):
    tests = Path(__file__).parent.joinpath("suites/fixtures_xdist.py").read_text()
    status, text = run("-p", "xdist", "-n", "2", "--dist", "each", "--junitxml=report.xml", tests=tests)
    assert (status, "2 failed, 6 passed" in text) == (1, True), text
    assert text.count("- tmpmaild: messages of ") == 2


def test_under_pytest_asyncio_with_every_address_at_hand_and_a_name_used_twice(run):
    tests = Path(__file__).parent.joinpath("suites/fixtures_asyncio.py").read_text()
    ini = "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\ntmpmaild_accept_unknown = true\n"
    status, text = run("-p", "pytest_asyncio.plugin", tests=tests, ini=ini)
    assert (status, "3 passed" in text) == (0, True), text


def test_loading_the_plugin_loads_neither_the_client_nor_an_event_loop():
    heavy = ("httpx2", "asyncio", "anyio", "msgspec", "tmpmaild.client", "subprocess")
    script = f"""
import sys, pytest
before = set(sys.modules)
import tmpmaild.pytest_plugin
assert not (set(sys.modules) - before) & {set(heavy)}, sorted(set(sys.modules) - before)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
