"""Two daemons on one PostgreSQL database: messages that arrive at one daemon are visible at both."""

import http.client
import json
import re
import smtplib
from contextlib import closing

import pytest

from daemons import wait_until
from patience import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def pair(tmp_path_factory, start_in, cluster):
    settings = {"TMPMAILD_STORAGE__URL": cluster.url(cluster.database())}
    return [start_in(tmp_path_factory.mktemp(name), **settings) for name in ("first", "second")]


def asking(daemon, path):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.http_port, timeout=PATIENCE_SECONDS)
    connection.request("GET", path)
    return closing(connection)


def test_a_client_waiting_at_one_daemon_receives_messages_from_the_other_daemon(pair):
    first, second = pair
    address = first.create()
    with asking(second, f"/api/v1/addresses/{address}/messages?wait=20") as waiting:
        first.deliver_raw(address, b"Subject: hello\r\n\r\n")
        answer = json.loads(waiting.getresponse().read())
    assert [message["subject"] for message in answer["messages"]] == ["hello"]


def test_a_stream_at_one_daemon_has_the_messages_of_both_in_order_and_ends_with_the_inbox(pair):
    first, second = pair
    created = first.request("/api/v1/addresses", "POST").json
    address, token = created["address"], {"Authorization": f"Bearer {created['token']}"}
    with asking(second, f"/api/v1/addresses/{address}/events") as stream:
        response = stream.getresponse()
        for number in range(6):
            pair[number % 2].deliver_raw(address, b"Subject: %d\r\n\r\n" % number)
        text = ""
        # Wait for all messages before deleting, because a stream omits deleted messages.
        while text.count("event: message") < 6 or not text.endswith("\n\n"):
            text += response.readline().decode()
        assert first.request(f"/api/v1/addresses/{address}", "DELETE", headers=token).status == 204
        text += response.read().decode()
    with pytest.raises(smtplib.SMTPRecipientsRefused) as refusal:
        second.deliver_raw(address, b"")
    assert refusal.value.recipients[address][0] == 550
    subjects = [json.loads(line[6:])["subject"] for line in text.splitlines() if line.startswith('data: {"id"')]
    assert subjects == [str(number) for number in range(6)]
    assert [line for line in text.splitlines() if line.startswith("event:")][-1] == "event: deleted"


def two_audit_lines(daemons):
    lines = [line for daemon in daemons for line in daemon.log().splitlines() if "tmpmaild.audit" in line]
    return lines if len(lines) == 2 else None


def test_both_daemons_log_the_same_hash_of_an_address_but_a_different_database_has_a_different_hash(
    command, cluster, start_in, tmp_path
):
    hashes = []
    for database, names in ((cluster.database(), "ab"), (cluster.database(), "c")):
        url = {"TMPMAILD_STORAGE__URL": cluster.url(database)}
        folders = [tmp_path / name for name in names]
        for folder in folders:
            folder.mkdir()
        daemons = [start_in(folder, **url, TMPMAILD_LOG__AUDIT="true") for folder in folders]
        created = daemons[0].request("/api/v1/addresses", "POST", {"local_part": "ada-in-the-audit"})
        address = created.json["address"]
        daemons[-1].deliver_raw(address, b"Subject: hello\r\n\r\n")
        lines = wait_until(lambda daemons=daemons: two_audit_lines(daemons))  # a separate thread writes the log
        (found,) = {line.rpartition(" ")[2] for line in lines}
        day = lines[0].split(" tmpmaild.audit: ")[1][:10]
        assert command("audit", address, "--day", day, **url).stdout == f"{found}\n"
        assert not any(re.search("ada-in", daemon.log()) for daemon in daemons)
        hashes.append(found)
    assert hashes[0] != hashes[1]
