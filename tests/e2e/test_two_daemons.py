"""Two daemons on one PostgreSQL database: what comes in at one is seen at the other."""

import http.client
import json
import smtplib
import threading
import time

import pytest


@pytest.fixture(scope="module")
def pair(tmp_path_factory, start_in, cluster):
    settings = {"TMPMAILD_STORAGE__URL": cluster.url(cluster.database())}
    return [start_in(tmp_path_factory.mktemp(name), **settings) for name in ("first", "second")]


class Waiting(threading.Thread):
    """A request that waits for mail; ``answer`` is what it gets."""

    def __init__(self, daemon, path) -> None:
        super().__init__()
        self._connection = http.client.HTTPConnection("127.0.0.1", daemon.http_port, timeout=30)
        self._connection.request("GET", path)
        self.start()

    def run(self):
        with self._connection.getresponse() as response:
            self.answer = json.loads(response.read())
            self.answered_at = time.monotonic()
        self._connection.close()


def status_of_delete(daemon, address, token):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.http_port, timeout=30)
    connection.request("DELETE", f"/api/v1/addresses/{address}", headers={"Authorization": f"Bearer {token}"})
    with connection.getresponse() as response:
        response.read()
        status = response.status
    connection.close()
    return status


def test_a_client_that_waits_at_one_is_told_of_mail_at_the_other(pair):
    first, second = pair
    address = first.create()
    waiting = Waiting(second, f"/api/v1/addresses/{address}/messages?wait=20")
    first.deliver_octets(address, b"Subject: hello\r\n\r\n")
    waiting.join(20)
    assert [message["subject"] for message in waiting.answer["messages"]] == ["hello"]


def test_a_stream_at_one_has_what_both_store_in_order_and_ends_with_the_inbox(pair):
    first, second = pair
    created = first.request("/api/v1/addresses", "POST").json
    address, token = created["address"], created["token"]
    stream = http.client.HTTPConnection("127.0.0.1", second.http_port, timeout=30)
    stream.request("GET", f"/api/v1/addresses/{address}/events")
    response = stream.getresponse()
    for number in range(6):
        pair[number % 2].deliver_octets(address, b"Subject: %d\r\n\r\n" % number)
    text = ""
    while text.count("event: message") < 6 or not text.endswith("\n\n"):  # what is deleted is told of no more
        text += response.readline().decode()
    answer = status_of_delete(first, address, token)
    text += response.read().decode()
    stream.close()
    assert answer == 204
    with pytest.raises(smtplib.SMTPRecipientsRefused) as refusal:
        second.deliver_octets(address, b"")
    assert refusal.value.recipients[address][0] == 550
    subjects = [json.loads(line[6:])["subject"] for line in text.splitlines() if line.startswith('data: {"id"')]
    assert subjects == [str(number) for number in range(6)]
    assert [line for line in text.splitlines() if line.startswith("event:")][-1] == "event: deleted"
