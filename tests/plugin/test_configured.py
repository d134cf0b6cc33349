"""The embedded daemon as ini keys and a file configure it; their mistakes; what slows tests down or ends them."""

import socket

import pytest

from tmpmaild.pytest_plugin import embedded, services

TESTS = """
import smtplib, ssl

def test_domains(tmpmail, inbox):
    assert tmpmail.domains() == ["mail.shop.example", "second.example"]
    assert inbox.address.endswith("@mail.shop.example")

def test_smtp(inbox, tmpmail_smtp, tmpmail_smtps, tmpmail_ca_file):
    assert tmpmail_smtp.host == "127.0.0.1"
    context = ssl.create_default_context(cafile=tmpmail_ca_file)
    with smtplib.SMTP("localhost", tmpmail_smtp.port, local_hostname="localhost") as client:
        client.ehlo()
        assert client.esmtp_features["size"] == "2048"
        client.starttls(context=context)
        client.login("any", "thing")
        client.sendmail("a@shop.example", [inbox.address], "Subject: hello\\r\\n\\r\\n")
    with smtplib.SMTP_SSL("localhost", tmpmail_smtps.port, local_hostname="localhost", context=context) as client:
        client.sendmail("a@shop.example", [inbox.address], "Subject: again\\r\\n\\r\\n")
    assert [mail.subject for mail in inbox.wait_for_messages(2, timeout=10)] == ["hello", "again"]
"""
FILE = """
domains = ["not.this.example"]
[http]
listen = ["unix:api.sock", "127.0.0.1:0"]
[smtp]
listen = ["0.0.0.0:0", "127.0.0.1:0"]
max_message_bytes = 2048
[storage]
path = "/nowhere/tmpmaild.db"
"""


def test_a_file_and_ini_keys_configure_the_embedded_daemon(run, tmp_path):
    pytest.importorskip("trustme", reason="needs the Python package trustme")
    (tmp_path / "mail.toml").write_text(FILE)
    keys = "tmpmaild_config = mail.toml\ntmpmaild_domain = mail.shop.example, second.example\ntmpmaild_tls = true\n"
    status, text = run(tests=TESTS, ini=keys)
    assert (status, "2 passed" in text) == (0, True), text


def test_the_mistakes_of_a_file_and_of_ini_keys_are_told_with_their_place(run, tmp_path):
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
    """Return what is said of settings with which no daemon starts."""
    with pytest.raises(services.NoService) as refused, embedded.daemon(folder, embedded.Wanted(**given)):
        pass
    return str(refused.value)


def test_a_file_that_cannot_be_used_is_named(tmp_path):
    nowhere = tmp_path / "nowhere.toml"
    assert f"{nowhere}: cannot be read: No such file or directory" in mistake(tmp_path, config_file=nowhere)
    only_unix = tmp_path / "unix.toml"
    only_unix.write_text('[http]\nlisten = ["unix:api.sock"]\n')
    told = f"{only_unix}: http.listen: the tests need a HOST:PORT, found only 'unix:api.sock'"
    assert mistake(tmp_path, config_file=only_unix) == told


def test_a_second_run_with_the_same_fixed_port_is_told_which_one(tmp_path):
    file = tmp_path / "mail.toml"
    with socket.create_server(("127.0.0.1", 0)) as first_run:
        place = f"127.0.0.1:{first_run.getsockname()[1]}"
        file.write_text(f'[smtp]\nlisten = ["{place}"]\n')
        told = mistake(tmp_path, config_file=file)
    assert "the embedded daemon did not start" in told
    assert place in told


def test_what_only_tls_has_says_what_to_set(run):
    tests = "def test_one(tmpmail_ca_file): pass\ndef test_two(tmpmail_smtps): pass"
    status, text = run("--tmpmaild-url=http://127.0.0.1:9", tests=tests)
    assert (status, "2 errors" in text) == (1, True), text
    for name in ("tmpmail_ca_file", "tmpmail_smtps"):
        assert f"tmpmaild: {name} needs the embedded daemon and tmpmaild_tls = true" in text


def test_two_certificates_are_one_too_many(tmp_path):
    file = tmp_path / "mail.toml"
    file.write_text('[smtp]\ntls_certificate = "mine.pem"\n')
    told = f"{file}: smtp.tls_certificate: tmpmaild_tls makes one too; remove one of the two"
    assert mistake(tmp_path, config_file=file, has_tls=True) == told


def test_without_trustme_tls_says_what_to_install(run, tmp_path):
    (tmp_path / "trustme.py").write_text("raise ImportError")
    tests = "def test_it(inbox): pass"
    status, text = run(tests=tests, ini="tmpmaild_tls = true\n", python_path=tmp_path)
    assert (status, 'tmpmaild_tls needs trustme: pip install "tmpmaild[tls]"' in text) == (1, True), text


def test_the_first_refusal_for_the_rate_is_one_warning_that_says_what_to_set(run, tmp_path):
    (tmp_path / "mail.toml").write_text("[rate_limit]\nrequests_per_minute = 120\nburst = 2\n[limits]\nexempt = []\n")
    tests = """
async def test_it(async_inbox, inbox):
    assert await async_inbox.messages() == []
    assert inbox.messages() == []
"""
    ini = "tmpmaild_config = mail.toml\nanyio_mode = auto\n"
    status, text = run("-p", "anyio", tests=tests, ini=ini)
    assert (status, "1 passed, 1 warning" in text) == (0, True), text
    assert "limits how often this machine may ask (429), so tests wait. In its configuration, add" in text
    assert "rate_limit.requests_per_minute = 0" in text


KILLED = """
import os, signal, threading

def test_that_passes(inbox):
    with open(f"/proc/self/task/{threading.get_native_id()}/children") as children:
        daemon = int(children.read())
    os.kill(daemon, signal.SIGKILL)
    os.waitid(os.P_PID, daemon, os.WEXITED | os.WNOWAIT)

def test_the_next(inbox):
    pass

def test_without(tmpmail_smtp):
    pass
"""


def test_a_daemon_that_dies_is_named_by_the_test_and_by_those_after_it(run):
    status, text = run(tests=KILLED.replace("WNOWAIT)", "WNOWAIT)\n    inbox.messages()"))
    assert (status, "1 failed, 1 passed, 1 warning, 1 error" in text) == (1, True), text
    assert text.count("the embedded daemon ended before the tests did (exit -9)") >= 2
    assert "was not deleted: http://" in text


def test_a_test_that_passes_without_its_daemon_only_warns(run):
    status, text = run("-k", "passes", tests=KILLED)
    assert (status, "1 passed, 2 deselected, 1 warning" in text) == (0, True), text
    assert "UserWarning: tmpmaild: " in text
    assert "was not deleted: http://" in text
