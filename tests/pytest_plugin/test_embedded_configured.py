"""The embedded daemon configured with ini keys and a file.

Mistakes in the configuration are reported, as are settings that slow down or break tests.
"""

import re
import socket
import sys
from pathlib import Path

import pytest

from tmpmaild.pytest_plugin import embedded

TESTS = Path(__file__).parent.joinpath("suites/embedded_configured.py").read_text()
FILE = Path(__file__).with_name("embedded-configured-file.txt").read_text()


@pytest.fixture(scope="module")
def configured(run_in, tmp_path_factory):
    """Run these tests once."""
    folder = tmp_path_factory.mktemp("configured")
    (folder / "mail.toml").write_text(FILE)
    keys = "tmpmaild_config = mail.toml\ntmpmaild_domain = mail.shop.example, second.example\ntmpmaild_tls = true\n"
    return run_in(folder, "-p", "anyio.pytest_plugin", tests=TESTS, ini=f"{keys}anyio_mode = auto\n")


def test_a_file_and_ini_keys_configure_the_daemon_and_the_first_refusal_for_the_rate_is_one_warning(configured):
    assert (configured.status, "3 passed, 1 warning" in configured.text) == (0, True), configured.text
    assert "limits the request rate of this machine (429), so tests wait. In its configuration, add" in configured.text
    assert "rate_limit.requests_per_minute = 0" in configured.text


def test_mistakes_in_a_file_and_in_ini_keys_are_reported_with_their_position(run, tmp_path):
    (tmp_path / "mail.toml").write_text('domians = []\n[smtp]\nlisten = "x"\nmax_message_bytes = "1 MB"\n')
    status, text = run(tests="def test_it(inbox): pass", ini="tmpmaild_config = mail.toml\ntmpmaild_domain = a_b..c\n")
    assert (status, "Traceback" in text) == (1, False), text
    for mistake in (
        f"tmpmaild: {tmp_path}/mail.toml: domians: unknown key, did you mean domains?",
        f"tmpmaild: {tmp_path}/mail.toml: smtp.listen: expected a list of at least one string, found 'x'",
        f"tmpmaild: {tmp_path}/mail.toml: smtp.max_message_bytes: expected ",
        f"tmpmaild: {tmp_path}/pytest.ini: tmpmaild_domain[0]: expected a domain name, found 'a_b..c'",
    ):
        assert mistake in text


def mistake(folder, **given):
    """Return the error for settings that prevent the daemon from starting."""
    with pytest.raises(embedded.NoService) as refused, embedded.daemon(folder, embedded.Wanted(**given)):
        pass
    return str(refused.value)


def test_a_file_that_cannot_be_used_is_named(tmp_path):
    nowhere = tmp_path / "nowhere.toml"
    assert f"{nowhere}: cannot be read: No such file or directory" in mistake(tmp_path, config_file=nowhere)
    only_unix = tmp_path / "unix.toml"
    only_unix.write_text('[http]\nlisten = ["unix:api.sock"]\n')
    told = f"{only_unix}: http.listen: the tests need a HOST:PORT, found only 'unix:api.sock'"
    assert mistake(tmp_path, config_file=only_unix) == told


def test_a_second_run_with_the_same_fixed_port_gets_an_error_that_names_the_port(tmp_path):
    file = tmp_path / "mail.toml"
    with socket.create_server(("127.0.0.1", 0)) as first_run:
        place = f"127.0.0.1:{first_run.getsockname()[1]}"
        file.write_text(f'[smtp]\nlisten = ["{place}"]\n')
        told = mistake(tmp_path, config_file=file)
    assert "the embedded daemon did not start" in told
    assert place in told


def test_two_certificates_are_refused_and_without_trustme_the_error_names_the_package_to_install(tmp_path, monkeypatch):
    file = tmp_path / "mail.toml"
    file.write_text('[smtp]\ntls_certificate = "mine.pem"\n')
    told = f"{file}: smtp.tls_certificate: tmpmaild_tls also creates a certificate; remove one of the two settings"
    assert mistake(tmp_path, config_file=file, has_tls=True) == told
    monkeypatch.setitem(sys.modules, "trustme", None)
    assert mistake(tmp_path, has_tls=True) == "tmpmaild_tls needs trustme: pip install trustme"


def test_a_file_may_name_a_database_server_but_no_other_file(tmp_path):
    for in_file, is_ours in [({"storage.url": "postgresql://a@b/c"}, False), ({"storage.path": "x"}, True), ({}, True)]:
        environment = embedded._environment(tmp_path, embedded.Wanted(), None, in_file, None)
        ours = {"TMPMAILD_STORAGE__PATH": str(tmp_path / "tmpmaild.db")} if is_ours else {}
        assert {name: value for name, value in environment.items() if "STORAGE" in name} == ours


KILLED = Path(__file__).parent.joinpath("suites/embedded_configured_killed.py").read_text()


@pytest.fixture(scope="module")
def killed(run_in, tmp_path_factory):
    """Run these tests once."""
    return run_in(tmp_path_factory.mktemp("killed"), tests=KILLED)


def test_a_dead_daemon_is_reported_by_the_test_and_later_tests_and_a_failed_deletion_is_a_warning(killed):
    assert (killed.status, "1 failed, 1 passed, 1 warning, 3 errors" in killed.text) == (1, True), killed.text
    assert killed.text.count("the embedded daemon stopped before the tests finished (exit -9)") >= 2
    told = r"UserWarning: tmpmaild: \S+@mail.example.com was not deleted: http://\S+: connection refused"
    assert re.search(told, killed.text), killed.text


@pytest.mark.parametrize("name", ["tmpmail_ca_file", "tmpmail_smtps"])
def test_fixtures_that_need_tls_state_the_key_to_set(killed, name):
    assert f"tmpmaild: {name} needs the embedded daemon and tmpmaild_tls = true" in killed.text
