"""A reload applies either the whole configuration (domains, limits, certificates, log settings) or no part of it."""

import re
import signal
import ssl
import time
from pathlib import Path

import pytest

import certificates
from daemons import NO_LIMITS

OURS = "one.test"
BOTH = 'domains = ["one.test", "two.test"]\n'
ONE = 'domains = ["one.test"]\n'
CHANGED = Path(__file__).with_name("reload-changed.toml").read_text()

READ = "tmpmaild: configuration: tmpmaild.toml\n"


@pytest.fixture
def write(tmp_path):
    """Return a function that writes the configuration."""
    return (tmp_path / "tmpmaild.toml").write_text


def until(daemon, text, *, times=1):
    """Wait until the log contains a text."""
    while daemon.log().count(text) < times:
        assert daemon.process.poll() is None
        time.sleep(0.01)


def reload(daemon, text):
    """Send SIGHUP, and wait for one more log line with this text."""
    times = daemon.log().count(text) + 1
    daemon.process.send_signal(signal.SIGHUP)
    until(daemon, text, times=times)


def said(daemon, *commands):
    with daemon.smtp() as client:
        return [client.docmd(command) for command in ("EHLO localhost", *commands)]


def answer_to(daemon, recipient):
    return said(daemon, "MAIL FROM:<a@example.com>", f"RCPT TO:<{recipient}>")[-1]


def create(daemon, domain, name="alice"):
    return daemon.request("/api/v1/addresses", "POST", {"domain": domain, "local_part": name})


def presented(daemon):
    """Return the certificate that STARTTLS presents."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with daemon.smtp() as client:
        client.starttls(context=context)
        return client.sock.getpeercert(binary_form=True)


def test_a_new_certificate_is_used_but_a_broken_certificate_is_not(start, write, tmp_path):
    certificates.make(tmp_path, "one")
    tls = f'[smtp]\ntls_certificate = "{tmp_path}/cert.pem"\ntls_key = "{tmp_path}/key.pem"\n'
    write(ONE + tls)
    daemon = start()
    first = presented(daemon)
    certificates.make(tmp_path, "two")
    assert presented(daemon) == first
    reload(daemon, "reloaded: ")
    second = presented(daemon)
    assert second != first
    reload(daemon, " tmpmaild.host.process: the certificate is unchanged, valid until ")
    (tmp_path / "cert.pem").write_text("no certificate")
    write(BOTH + tls)
    stays = "the configuration is unchanged"
    reload(daemon, f"{stays}: smtp.tls_certificate {tmp_path}/cert.pem: expected a certificate in PEM")
    assert presented(daemon) == second
    assert daemon.request("/api/v1/domains").json["domains"] == [OURS]
    write(ONE)
    reload(daemon, "reloaded: ")
    assert b"STARTTLS" not in said(daemon)[0][1]
    assert daemon.stop() == 0


def test_a_retired_domain_accepts_no_new_addresses_and_its_live_ones_continue(start, write):
    write(BOTH)
    daemon = start(**NO_LIMITS)
    address = create(daemon, "two.test").json
    write(ONE)
    reload(daemon, "INFO tmpmaild.daemon: two.test accepts no new addresses; it is kept until 20")
    until(daemon, "INFO tmpmaild.host.process: reloaded: ")
    for _ in range(2):
        assert daemon.request("/api/v1/domains").json["domains"] == [OURS]
        assert create(daemon, "two.test", name="bob").status == 422
        daemon.deliver_raw("Alice+tag@two.test", b"Subject: hello\r\n\r\n")
        assert len(daemon.messages("alice@two.test")) >= 1
        assert answer_to(daemon, "bob@two.test") == (550, b"5.1.1 No such address here")
        assert answer_to(daemon, "postmaster@two.test")[0] == 250
        assert answer_to(daemon, "alice@three.test") == (550, b"5.7.1 Relaying denied")
        daemon.restart()
    token = {"Authorization": f"Bearer {address['token']}"}
    assert daemon.request("/api/v1/addresses/alice@two.test", "PATCH", {"expires_in_seconds": 1}, token).status == 200
    write(BOTH)
    reload(daemon, "reloaded: ")
    assert create(daemon, "two.test", name="bob").status == 201
    assert daemon.stop() == 0


def test_limits_and_the_api_description_change_immediately(start, write, command):
    write(ONE)
    daemon = start()
    with daemon.smtp() as open_session:
        open_session.ehlo()
        write(CHANGED)
        done = command("reload")
        assert (done.returncode, done.stdout, done.stderr) == (0, "reloaded\n", READ)
        assert open_session.docmd("MAIL FROM:<a@example.com> SIZE=5000")[0] == 250
    greeting = said(daemon)[0][1].decode()
    assert greeting.startswith("mx.two.test\n")
    assert "SIZE 2048" in greeting
    domains = daemon.request("/api/v1/domains")
    assert domains.headers["ratelimit-policy"] == '"default";q=600;w=60'
    assert domains.json["domains"] == ["two.test"]
    assert domains.json["lifetime_seconds"] == 60
    assert "@two.test" in str(daemon.request("/api/v1/openapi.json").json)
    assert daemon.request("/api/v1/domains", headers={"Host": "elsewhere.example"}).status == 400
    answer = daemon.request("/api/v1/domains", headers={"Origin": "https://app.example"})
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert create(daemon, "two.test").status == 201
    daemon.deliver_raw("alice@two.test", b"Subject: one\r\n\r\n")
    assert answer_to(daemon, "alice@two.test")[0] == 452
    until(daemon, '"logger":"tmpmaild.access","message":"127.0.0.1 GET /api/v1/domains 400')
    until(daemon, '"level":"debug"')
    assert daemon.stop() == 0


def test_a_mistake_changes_nothing_and_is_reported_as_at_startup(start, write, command):
    write(BOTH)
    daemon = start()
    broken = '[http]\nrequire_token = true\n[smtp]\nmax_message_bytes = "10M"\n[log]\nlevel = "loud"\n'
    write(ONE + broken)
    mistakes = command("check-config").stderr.removesuffix("\n").split("\n")
    assert len(mistakes) == 2
    for mistake in mistakes:
        reload(daemon, "the configuration is unchanged: " + mistake.removeprefix("tmpmaild: "))
    assert command("reload").stderr.removeprefix(READ).removesuffix("\n").split("\n") == mistakes
    write("domains = [")
    reload(daemon, "the configuration is unchanged: tmpmaild.toml: is not TOML: ")
    assert daemon.request("/api/v1/domains").json["domains"] == ["one.test", "two.test"]
    assert b"SIZE 10485760" in said(daemon)[0][1]
    address = create(daemon, OURS).json["address"]
    assert daemon.messages(address) == []  # require_token was not applied
    assert daemon.stop() == 0


def test_keys_that_need_a_restart_are_reported(start, write, command):
    write(ONE)
    daemon = start()
    metrics = '[metrics]\nlisten = "127.0.0.1:9"\n'
    write(BOTH + metrics)
    for _ in range(2):
        assert command("reload").stdout == "reloaded\nchanged, but takes effect only after a restart: metrics.listen\n"
    until(daemon, "changed, but takes effect only after a restart: metrics.listen\n", times=2)
    assert (
        len(re.findall(r"WARNING .*: changed, but takes effect only after a restart: metrics\.listen\n", daemon.log()))
        == 2
    )
    assert daemon.request("/api/v1/domains").json["domains"] == ["one.test", "two.test"]
    write(BOTH)
    assert command("reload").stdout == "reloaded\n"
    assert daemon.stop() == 0


BROKEN = [ONE + '[smtp]\nmax_connections = "many"\n', "domains = [", "[storage]\npath = 7\n"]


@pytest.mark.parametrize("broken", BROKEN)
def test_with_a_broken_file_commands_still_use_the_running_service(start, write, command, tmp_path, broken):
    write(ONE)
    daemon = start()
    address = daemon.create()
    write(broken)
    for arguments in (["status"], ["inboxes"], ["block", "--name", "x"], ["backup", "copy.db"], ["purge", address]):
        done = command(*arguments)
        assert done.returncode == 0, done.stderr
        assert "tmpmaild.toml: " in done.stderr
        assert "tmpmaild: the service continues to run with its previous configuration\n" in done.stderr
    assert (tmp_path / "copy.db").stat().st_size > 0
    assert command("reload").returncode == 78
    daemon.stop()
    assert [command(name).returncode for name in ("status", "inboxes")] == [78, 78]
