"""``tmpmaild catch``: an application sends to anybody, and all of it is in one list."""

import json
import re
import smtplib
import socket
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from urllib.parse import quote

import pytest

import warm
from daemons import environment
from patience import PATIENCE_SECONDS
from warm import Program

ANYBODY = [
    pytest.param("anna@shop.example", id="a plain address"),
    pytest.param("anna+newsletter@Shop.Example", id="a tag"),
    pytest.param("admin@shop.example", id="a reserved name"),
    pytest.param("noreply@shop.example", id="a name of mail systems"),
    pytest.param("postmaster@shop.example", id="postmaster of any domain"),
    pytest.param("postmaster", id="postmaster without a domain"),
    pytest.param("al@shop.example", id="a short name"),
    pytest.param("o'brien@shop.example", id="an apostrophe"),
    pytest.param('"a b"@shop.example', id="a quoted string"),
    pytest.param("root@[127.0.0.1]", id="an address literal"),
    pytest.param("a@localhost", id="a domain without a dot"),
    pytest.param("a@very.deep.below.shop.example", id="a subdomain"),
]


class Catcher:
    """A running ``tmpmaild catch``, and its API."""

    def __init__(self, program):
        self.program = program
        said = program.stdout.readline() + program.stdout.readline()
        assert "ctrl-C" in said, said
        self.smtp_port = int(re.search(r"SMTP on 127\.0\.0\.1:(\d+)", said)[1])
        self.http_port = int(re.search(r"http://127\.0\.0\.1:(\d+)/ ", said)[1])

    def connected(self):
        return closing(smtplib.SMTP("127.0.0.1", self.smtp_port, timeout=PATIENCE_SECONDS))

    def send(self, *recipients, subject="Welcome", text="Your code is 481516."):
        mail = f"From: app@shop.example\r\nTo: anna@shop.example\r\nSubject: {subject}\r\n\r\n{text}\r\n"
        with self.connected() as client:
            assert client.sendmail("app@shop.example", list(recipients), mail.encode()) == {}

    def request(self, method, path, *, host=None):
        url = f"http://127.0.0.1:{self.http_port}/api/v1{path}"
        request = urllib.request.Request(url, method=method, headers={"Host": host} if host else {})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def get(self, path):
        status, body = self.request("GET", path)
        assert status == 200, (path, body)
        return json.loads(body)

    def messages(self, path="/messages"):
        return self.get(path)["messages"]


@contextmanager
def catching(folder, *options, **settings):
    arguments = ["catch", "--smtp", "127.0.0.1:0", "--http", "127.0.0.1:0", *options]
    program = Program(arguments, cwd=folder, env=environment(**settings), text=True)
    try:
        yield Catcher(program)
    finally:
        program.terminate()
        assert program.wait(PATIENCE_SECONDS) == 0
        program.stdout.close()


@pytest.fixture(scope="module")
def catcher(tmp_path_factory):
    with catching(tmp_path_factory.mktemp("catch")) as running:
        yield running


@pytest.fixture
def empty(catcher):
    """Return the catcher, with all messages deleted."""
    assert catcher.request("DELETE", "/messages")[0] == 200
    return catcher


@pytest.mark.parametrize("recipient", ANYBODY)
def test_a_message_to_anybody_is_accepted_listed_and_in_the_inbox_of_its_recipient(empty, recipient):
    empty.send(recipient)
    (message,) = empty.messages()
    assert (message["to"], message["recipients"]) == (recipient, [recipient])
    assert [code["value"] for code in message["codes"]] == ["481516"]
    address = recipient if "@" in recipient else "postmaster@mail.example.com"
    (copy,) = empty.messages(f"/addresses/{quote(address)}/messages")
    assert copy["subject"] == "Welcome"
    assert "recipients" not in copy


def test_a_message_to_several_is_listed_once_with_its_bcc(empty):
    sent = ["anna@shop.example", "bob@other.example", "archive@company.example"]
    empty.send(*sent)
    (message,) = empty.messages()
    whole = empty.get(f"/messages/{message['id']}")
    assert message["recipients"] == whole["recipients"] == sent
    assert [one["address"] for one in whole["session"]["recipients"]] == sent
    (copy,) = empty.messages("/addresses/bob@other.example/messages")
    alone = empty.get(f"/addresses/bob@other.example/messages/{copy['id']}")
    assert [one["address"] for one in alone["session"]["recipients"]] == ["bob@other.example"]


def test_a_message_has_a_thousand_recipients_and_no_more(empty):
    sent = [f"user{number}@shop.example" for number in range(1000)]
    with empty.connected() as client:
        refused = client.sendmail(
            "app@shop.example", [*sent, "one-too-many@shop.example"], b"Subject: All\r\n\r\nHi\r\n"
        )
    assert {address: code for address, (code, _) in refused.items()} == {"one-too-many@shop.example": 452}
    (message,) = empty.messages()
    assert message["recipients"] == sent
    assert len(empty.messages("/addresses/user999@shop.example/messages")) == 1


def test_the_list_is_filtered_by_a_whole_recipient_in_any_case(empty):
    empty.send("anna+1@shop.example", "bob@shop.example", subject="first")
    empty.send("anna+2@shop.example", subject="second")

    def subjects(recipient):
        return [one["subject"] for one in empty.messages(f"/messages?to={quote(recipient)}")]

    assert subjects("ANNA+1@shop.example") == ["first"]
    assert subjects("anna+2@shop.example") == ["second"]
    assert subjects("anna@shop.example") == []
    assert len(empty.messages("/addresses/anna@shop.example/messages")) == 2


def test_the_pages_of_a_filtered_list_keep_the_filter(empty):
    for number in range(3):
        empty.send("anna@shop.example", subject=str(number))
        empty.send("bob@shop.example", subject="other")
    url = f"http://127.0.0.1:{empty.http_port}/api/v1/messages?to=anna@shop.example&limit=2"
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as response:
        assert [one["subject"] for one in json.load(response)["messages"]] == ["2", "1"]
        following = re.match(r'<(/api/v1)(/messages\?[^>]+)>; rel="next"', response.headers["Link"])
    assert [one["subject"] for one in empty.messages(following[2])] == ["0"]


def test_a_deleted_message_is_gone_from_the_inboxes_of_all_recipients_and_nothing_else_is(empty):
    empty.send("anna@shop.example", "bob@shop.example", subject="stays")
    empty.send("anna@shop.example", "bob@shop.example", subject="goes")
    goes, _ = empty.messages()
    assert empty.request("DELETE", f"/messages/{goes['id']}") == (204, b"")
    assert empty.request("DELETE", f"/messages/{goes['id']}")[0] == 404
    for path in ("/messages", "/addresses/anna@shop.example/messages", "/addresses/bob@shop.example/messages"):
        assert [one["subject"] for one in empty.messages(path)] == ["stays"]


def test_a_copy_is_deleted_however_its_recipient_was_written(empty):
    empty.send("postmaster", '"a b"@shop.example', "<@relay.example:carol@shop.example>", "Dora+tag@SHOP.example")
    (message,) = empty.messages()
    assert len(message["recipients"]) == 4
    inboxes = ("postmaster@mail.example.com", '"a b"@shop.example', "carol@shop.example", "dora@shop.example")
    paths = [f"/addresses/{quote(address)}/messages" for address in inboxes]
    assert [len(empty.messages(path)) for path in paths] == [1, 1, 1, 1]
    assert empty.request("DELETE", f"/messages/{message['id']}") == (204, b"")
    assert [len(empty.messages(path)) for path in paths] == [0, 0, 0, 0]


def test_messages_are_deleted_by_id_up_to_one_and_all(empty):
    for number in range(5):
        empty.send("anna@shop.example", subject=str(number))
    fourth, third, _, first, _ = empty.messages()

    def deleted(query):
        return json.loads(empty.request("DELETE", f"/messages{query}")[1]), [one["subject"] for one in empty.messages()]

    assert deleted(f"?id={third['id']}&id={third['id']}") == ({"deleted": 1}, ["4", "2", "1", "0"])
    assert deleted(f"?up_to={first['id']}") == ({"deleted": 2}, ["4", "2"])
    assert empty.request("DELETE", f"/messages?upto={fourth['id']}")[0] == 422
    assert deleted("") == ({"deleted": 2}, [])
    assert empty.messages("/addresses/anna@shop.example/messages") == []


def test_source_attachments_views_and_the_mbox_are_those_of_an_inbox(empty):
    mail = (
        b'Subject: Files\r\nContent-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n'
        b"<p>Hello <b>Anna</b></p>\r\n--b\r\nContent-Type: text/plain\r\nContent-Disposition: attachment; filename=a.txt"
        b"\r\n\r\ncontent\r\n--b--\r\n"
    )
    with empty.connected() as client:
        client.sendmail("app@shop.example", ["anna@shop.example", "bob@shop.example"], mail)
    (message,) = empty.messages()
    path = f"/messages/{message['id']}"
    assert empty.get(path)["raw_url"] == f"/api/v1{path}/raw"
    assert empty.request("GET", f"{path}/raw")[1].endswith(mail)
    (attachment,) = message["attachments"]
    assert empty.request("GET", attachment["url"].removeprefix("/api/v1")) == (200, b"content")
    status, view = empty.request("POST", f"{path}/view")
    assert (status, view.startswith(b'{"url":"/view/')) == (201, True)
    assert empty.request("GET", "/messages.mbox")[1].count(b"\nSubject: Files\n") == 1


def test_the_first_message_of_an_address_can_be_waited_for(empty):
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(empty.messages, "/addresses/nobody-yet@shop.example/messages?wait=50")
        everything = threads.submit(empty.messages, "/messages?wait=50&subject=first")
        empty.send("nobody-yet@shop.example", subject="the first")
        assert [one["subject"] for one in waiting.result()] == ["the first"]
        assert [one["subject"] for one in everything.result()] == ["the first"]


def test_the_stream_has_each_message_once(empty):
    url = f"http://127.0.0.1:{empty.http_port}/api/v1/events"
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as stream:
        empty.send("anna@shop.example", "bob@shop.example", subject="one")
        empty.send("bob@shop.example", subject="two")
        events = (json.loads(line[6:]) for line in stream if line.startswith(b"data: {"))
        found = [next(events) for _ in range(2)]
    assert [(one["subject"], len(one["recipients"])) for one in found] == [("one", 2), ("two", 1)]


def test_a_deleted_address_is_free_at_once(empty):
    def create():
        body = b'{"local_part": "chosen-name"}'
        request = urllib.request.Request(f"http://127.0.0.1:{empty.http_port}/api/v1/addresses", data=body)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
            return json.load(response)

    created = create()
    request = urllib.request.Request(
        f"http://127.0.0.1:{empty.http_port}/api/v1/addresses/{created['address']}", method="DELETE"
    )
    request.add_header("Authorization", f"Bearer {created['token']}")
    urllib.request.urlopen(request, timeout=PATIENCE_SECONDS).close()
    assert create()["address"] == created["address"]


def test_the_api_says_that_all_mail_is_caught(empty):
    assert empty.get("/domains")["catch_all"] is True


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example"])
def test_a_page_of_another_name_for_this_machine_reads_nothing(empty, host):
    status, body = empty.request("GET", "/messages", host=host)
    assert (status, json.loads(body)["code"]) == (400, "bad-host")


@pytest.mark.parametrize("host", ["localhost", "localhost:8025", "127.0.0.1", "[::1]:8025"])
def test_this_machine_is_reached_by_its_usual_names(empty, host):
    assert empty.request("GET", "/messages", host=host)[0] == 200


def test_auth_is_not_offered(empty):
    with empty.connected() as client:
        client.ehlo()
        assert "auth" not in client.esmtp_features


def test_options_offer_auth_allow_a_name_and_keep_the_messages(tmp_path):
    options = ("--auth", "--host", "mail", "--keep", "all.db")
    with catching(tmp_path, *options) as running:
        with running.connected() as client:
            client.login("anybody", "anything")
        running.send("anna@shop.example")
        assert running.request("GET", "/messages", host="mail:8025")[0] == 200
    with catching(tmp_path, *options) as again:
        assert [one["subject"] for one in again.messages()] == ["Welcome"]


def test_without_keep_nothing_is_left(tmp_path):
    with catching(tmp_path, TMPDIR=str(tmp_path)) as running:
        running.send("anna@shop.example")
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        done = warm.run(["catch", "--smtp", place, "--http", "127.0.0.1:0"], cwd=tmp_path, env=environment())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"tmpmaild: cannot listen on {place}: Address already in use\n"


def test_whoever_reaches_another_address_than_loopback_reads_everything_and_the_log_says_so(tmp_path):
    with (tmp_path / "stderr.txt").open("wb") as stderr:
        arguments = ["catch", "--smtp", "127.0.0.1:0", "--http", "0.0.0.0:0"]
        program = Program(arguments, cwd=tmp_path, env=environment(), text=True, stderr=stderr.fileno())
    with closing(program.stdout):
        assert "catches all mail" in program.stdout.readline()
        program.terminate()
        assert program.wait(PATIENCE_SECONDS) == 0
    log = (tmp_path / "stderr.txt").read_text(encoding="utf-8")
    assert "every recipient is accepted, and everybody who reaches HTTP on 0.0.0.0:" in log


def test_a_service_for_tests_catches_all_when_asked_to(tmp_path):
    program = Program(["serve", "--for-tests", "--catch-all", "--stay"], cwd=tmp_path, env=environment(), text=True)
    with closing(program.stdout):
        places = json.loads(program.stdout.readline())
        host, port = places["smtp"].split(":")
        with closing(smtplib.SMTP(host, int(port), timeout=PATIENCE_SECONDS)) as client:
            client.sendmail("app@shop.example", ["admin@anywhere.example"], b"Subject: Hello\r\n\r\nHi\r\n")
        with urllib.request.urlopen(f"{places['http']}/api/v1/messages", timeout=PATIENCE_SECONDS) as response:
            assert [one["recipients"] for one in json.load(response)["messages"]] == [["admin@anywhere.example"]]
        program.terminate()
        assert program.wait(PATIENCE_SECONDS) == 0


def test_catch_all_without_for_tests_is_refused(tmp_path):
    done = warm.run(["serve", "--catch-all"], cwd=tmp_path, env=environment())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "tmpmaild: --catch-all needs --for-tests; at your desk use tmpmaild catch\n"


def test_a_service_for_tests_without_standard_input_says_what_to_do(tmp_path):
    done = warm.run(["serve", "--for-tests"], cwd=tmp_path, env=environment())
    assert (done.returncode, done.stdout) == (1, "")
    assert "standard input has ended already" in done.stderr
    assert "--stay" in done.stderr
