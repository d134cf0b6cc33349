"""Sender authentication through the whole daemon, with our own resolver."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from daemons import FREE_PORTS, environment, finished, wait_until
from patience import PATIENCE_SECONDS
from signing import RAW, Signer
from tmpmaild.client import Client, InvalidRequest, NotAuthenticated
from zones import Zones, text_record

DMARC = text_record("_dmarc.shop.example", "v=DMARC1; p=reject")
NOT_PROVEN = Path(__file__).with_name("senders-not-proven.txt").read_text()
FORGED = b"Authentication-Results: (ours) MX.mail.example.com;\r\n dmarc=pass header.from=bank.example\r\n"


@pytest.fixture
def zones():
    with Zones(DMARC + text_record("shop.example", "v=spf1 ip4:127.0.0.1 -all")) as served:
        yield served


@pytest.fixture
def checking(start, zones):
    """Return a function that starts a daemon with this resolver, unless its settings specify a different resolver."""

    def started(**settings):
        settings = {"TMPMAILD_SENDERS__RESOLVER": zones.place, **settings}
        return start(
            TMPMAILD_SMTP__HOSTNAME="mx.mail.example.com", TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE="0", **settings
        )

    return started


def verdict(daemon, address):
    """Return the newest message once its sender has been checked."""

    def found():
        newest = daemon.messages(address)[0]
        message = daemon.request(f"/api/v1/addresses/{address}/messages/{newest['id']}").json
        return message if message["authentication"] else None

    return wait_until(found)


def source(daemon, message):
    with urllib.request.urlopen(daemon.url + message["raw_url"], timeout=PATIENCE_SECONDS) as answer:
        return answer.read()


@pytest.mark.both_engines
def test_a_signed_message_is_authenticated_and_a_forged_result_is_ignored(checking, zones):
    signer = Signer()
    zones.set(DMARC + signer.zone)
    daemon = checking()
    address = daemon.create()
    daemon.deliver_raw(address, FORGED + signer.sign(), sender="bounce@shop.example")
    message = verdict(daemon, address)
    (listed,) = daemon.messages(address)
    assert listed["authenticated"] == message["authenticated"] == "shop.example"
    assert listed["dmarc"] == message["dmarc"] == "pass"
    found = message["authentication"]
    assert found["spf"] == {"result": "none", "domain": "shop.example", "reason": ""}
    assert found["dkim"] == [
        {"result": "pass", "domain": "shop.example", "selector": "s1", "reason": "", "unsigned": []}
    ]
    assert found["dmarc"] == {
        "result": "pass",
        "policy": "reject",
        "domain": "shop.example",
        "reason": "",
        "unsigned": [],
    }
    assert found["arc"] == {"result": "none", "reason": ""}
    assert found["dns"][-1] == {"name": "_dmarc.shop.example", "type": "TXT", "answer": "v=DMARC1; p=reject"}
    raw = source(daemon, message)
    assert raw.startswith(
        b"Authentication-Results: mx.mail.example.com;\r\n\tspf=none smtp.mailfrom=shop.example;\r\n"
        b"\tdkim=pass header.d=shop.example header.s=s1;\r\n\tdmarc=pass header.from=shop.example;\r\n\tarc=none\r\nReturn-Path: "
    )
    assert b"X-Claimed-" + FORGED in raw
    assert daemon.errors() == ""


def test_the_stream_reports_the_verdict_and_mail_from_before_a_restart_is_checked_on_the_first_read(checking, zones):
    daemon = checking(TMPMAILD_SENDERS__TIMEOUT_SECONDS="60")
    address = daemon.create()
    zones.spoil = lambda _: None
    daemon.deliver_raw(address, RAW, sender="bounce@shop.example")
    assert daemon.messages(address)[0]["authenticated"] is None
    daemon.restart()
    zones.spoil = lambda wire: wire
    with urllib.request.urlopen(f"{daemon.url}/api/v1/addresses/{address}/events", timeout=PATIENCE_SECONDS) as stream:
        read = []
        while "event: verdict\n" not in read:
            read.append(stream.readline().decode())
        told = json.loads(stream.readline().decode().removeprefix("data: "))
    message = verdict(daemon, address)
    assert told == {"id": message["id"], "dmarc": "pass", "authenticated": message["authenticated"]}
    assert message["authenticated"] == "shop.example"


def test_without_a_resolver_nothing_is_checked_queried_or_imported(checking, zones):
    daemon = checking(TMPMAILD_SENDERS__RESOLVER="")
    address = daemon.create()
    daemon.deliver_raw(address, FORGED + RAW, sender="bounce@shop.example")
    (listed,) = daemon.messages(address)
    message = daemon.request(f"/api/v1/addresses/{address}/messages/{listed['id']}").json
    assert (listed["authenticated"], listed["dmarc"], message["authentication"], zones.asked) == (None, None, None, [])
    assert source(daemon, message).endswith(FORGED + RAW)
    code = "import tmpmaild.cli.main, tmpmaild.daemon, sys; print({'dns', 'dkim', 'spf', 'tmpmaild.senders.checker'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_a_missing_extra_is_reported_with_the_package_to_install(tmp_path):
    code = "import sys; sys.modules['spf'] = None; from tmpmaild.cli.main import main; main(['serve', '--temporary'])"
    env = environment(**FREE_PORTS, TMPMAILD_SENDERS__RESOLVER="system")
    done = finished([sys.executable, "-c", code], cwd=tmp_path, env=env)
    assert done.returncode != 0
    install = f"{sys.executable} -m pip install 'dkimpy[ed25519]' dnspython publicsuffixlist pyspf"
    assert f"senders.resolver needs additional packages (spf is missing): {install}" in done.stderr


def test_the_client_waits_for_the_verdict_and_a_failed_claim_shows_the_dns_records(checking, command):
    daemon = checking()
    address = daemon.create()
    daemon.deliver_raw(address, RAW, sender="bounce@shop.example")
    with Client(daemon.url) as client:
        mail = client.inbox(address).wait_for(verdict=True, timeout=PATIENCE_SECONDS)
        mail.assert_authenticated("Shop.example")
        with pytest.raises(NotAuthenticated) as caught:
            mail.assert_authenticated("bank.example")
        assert f"{caught.value}\n" == NOT_PROVEN
    done = command("wait", address, "--verdict", "--json", "--server", daemon.url)
    assert json.loads(done.stdout)["authenticated"] == mail.authenticated == "shop.example"


def test_the_client_explains_what_is_needed_if_senders_are_not_checked(checking):
    daemon = checking(TMPMAILD_SENDERS__RESOLVER="")
    address = daemon.create()
    daemon.deliver_raw(address, RAW)
    with Client(daemon.url) as client:
        (mail,) = client.inbox(address).messages()
        with pytest.raises(NotAuthenticated, match=r"the service needs senders\.resolver"):
            mail.assert_authenticated("shop.example")
        with pytest.raises(InvalidRequest):
            client.inbox(address).wait_for(verdict=True, timeout=PATIENCE_SECONDS)
