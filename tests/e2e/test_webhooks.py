"""Webhooks of the real daemon: set over HTTP, called for SMTP messages, listed and stopped by the operator."""

import json

import pytest
from targets import Target

from daemons import wait_until


@pytest.fixture
def target():
    target = Target()
    yield target
    target.close()


def test_a_target_is_called_for_messages_and_the_expiry_and_the_owner_sees_the_results(start, target):
    daemon = start(TMPMAILD_WEBHOOKS__ALLOW=f"127.0.0.1:{target.port}")
    made = target.inbox(daemon, events=["message", "expired"])
    daemon.deliver_raw(made["address"], b"Subject: code\r\n\r\nYour code is 481516\r\n")
    wait_until(lambda: target.told)
    path, fields, document, _ = target.told[0]
    assert (path, document["type"]) == ("/in", "message.received")
    assert document["data"]["codes"][0]["value"] == "481516"
    assert fields["webhook-signature"].startswith("v1,")
    token = {"Authorization": f"Bearer {made['token']}"}
    where = f"/api/v1/addresses/{made['address']}"
    wait_until(lambda: daemon.request(where, headers=token).json["webhook"]["last_call"])
    shown = daemon.request(where, headers=token).json["webhook"]
    assert (shown["last_call"]["result"], shown["failures"], shown["next_call_at"]) == ("204", 0, None)
    daemon.request(where, "DELETE", headers=token)
    wait_until(lambda: len(target.told) == 2)
    assert target.told[1].document["data"] == {"address": made["address"]}


def test_the_operator_sees_pauses_and_forgets_hosts(start, command, target):
    daemon = start(TMPMAILD_WEBHOOKS__ALLOW=f"127.0.0.1:{target.port}")

    def run(*arguments):
        done = command("webhooks", *arguments, TMPMAILD_STORAGE__PATH=str(daemon.database))
        assert done.stderr == ""
        return done.stdout

    def entry():
        return json.loads(run("--json"))

    target.status = lambda _: 500
    made = target.inbox(daemon)
    daemon.deliver_raw(made["address"], b"Subject: one\r\n\r\n")
    wait_until(lambda: entry()["failing"] == 1)
    found = [entry()[name] for name in ("host", "webhooks", "waiting", "last_result")]
    assert found == ["127.0.0.1", 1, 1, "500"]
    assert run("--pause", "127.0.0.1", "--for", "1h") == "paused\n"
    assert run().splitlines()[1].split()[:3] == ["1", "1", "1"]
    assert run().splitlines()[1].endswith("127.0.0.1  paused")
    assert command("blocks", TMPMAILD_STORAGE__PATH=str(daemon.database)).stdout.startswith("target  127.0.0.1  until ")
    assert run("--pause", "127.0.0.1", "--for", "0") == "paused\n"
    assert command("blocks", TMPMAILD_STORAGE__PATH=str(daemon.database)).stdout == "target  127.0.0.1\n"
    assert run("--resume", "127.0.0.1") == "resumed\n"
    again = command("webhooks", "--resume", "127.0.0.1", TMPMAILD_STORAGE__PATH=str(daemon.database))
    assert (again.returncode, again.stderr) == (1, "tmpmaild: this host was not paused\n")
    assert run("--forget", "127.0.0.1") == "1 removed\n"
    assert run("--json") == ""
    assert "secret" not in daemon.log()


def test_a_reloaded_daemon_applies_the_new_rules(start, command, target, tmp_path):
    (tmp_path / "tmpmaild.toml").write_text("[webhooks]\nallow = []\n")
    daemon = start()
    wanted = {"webhook": {"url": "https://hooks.example.org/"}}
    refused = daemon.request("/api/v1/addresses", "POST", wanted)
    assert (refused.status, refused.json["code"]) == (403, "webhooks-off")
    (tmp_path / "tmpmaild.toml").write_text(f'[webhooks]\nallow = ["127.0.0.1:{target.port}"]\n')
    assert command("reload").returncode == 0
    daemon.deliver_raw(target.inbox(daemon)["address"], b"Subject: one\r\n\r\n")
    wait_until(lambda: target.told)
