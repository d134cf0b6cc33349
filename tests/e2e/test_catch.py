"""``tmpmaild catch``: an application sends to any recipient, and a single list contains all messages."""

import http.client
import json
import re
import signal
import smtplib
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from os import EX_CONFIG
from urllib.parse import quote

import pytest

import warm
from daemons import FREE_PORTS, environment
from patience import PATIENCE_SECONDS
from tmpmaild.client import Client, WaitTimeout
from warm import Program

ANYBODY = [
    pytest.param("anna@shop.example", id="a plain address"),
    pytest.param("anna+newsletter@Shop.Example", id="a tag"),
    pytest.param("admin@shop.example", id="a reserved name"),
    pytest.param("noreply@shop.example", id="a name of mail systems"),
    pytest.param("postmaster@shop.example", id="postmaster of any domain"),
    pytest.param("postmaster", id="postmaster without a domain"),
    pytest.param("root", id="a name without a domain"),
    pytest.param("grüße@shop.example", id="UTF-8 without SMTPUTF8"),
    pytest.param("al@shop.example", id="a short name"),
    pytest.param("o'brien@shop.example", id="an apostrophe"),
    pytest.param('"a b"@shop.example', id="a quoted string"),
    pytest.param("root@[127.0.0.1]", id="an address literal"),
    pytest.param("a@localhost", id="a domain without a dot"),
    pytest.param("a@very.deep.below.shop.example", id="a subdomain"),
]


class Catcher:
    """A running ``tmpmaild catch``, and its API."""

    def __init__(self, program, http="127.0.0.1"):
        self.program = program
        self.host = http
        said = program.stdout.readline() + program.stdout.readline()
        assert "ctrl-C" in said, said
        self.smtp_port = int(re.search(r"SMTP on 127\.0\.0\.1:(\d+)", said)[1])
        self.http_port = int(re.search(rf"http://{re.escape(http)}:(\d+)/ ", said)[1])

    def connected(self):
        return closing(smtplib.SMTP("127.0.0.1", self.smtp_port, timeout=PATIENCE_SECONDS))

    def send(self, *recipients, subject="Welcome", text="Your code is 481516."):
        mail = f"From: app@shop.example\r\nTo: anna@shop.example\r\nSubject: {subject}\r\n\r\n{text}\r\n"
        with self.connected() as client:
            client.command_encoding = "utf-8"
            assert client.sendmail("app@shop.example", list(recipients), mail.encode()) == {}

    def request(self, method, path, *, host=None, **fields):
        url = f"http://{self.host}:{self.http_port}/api/v1{path}"
        fields |= {"Host": host} if host else {}
        request = urllib.request.Request(url, method=method, headers=fields)
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
def catching(folder, *options, http="127.0.0.1", **settings):
    arguments = ["catch", "--smtp", "127.0.0.1:0", "--http", "127.0.0.1:0", *options]
    program = Program(arguments, cwd=folder, env=environment(**settings), text=True)
    try:
        yield Catcher(program, http)
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
    """Return the catcher with all messages deleted."""
    assert catcher.request("DELETE", "/messages")[0] == 200
    return catcher


@pytest.mark.parametrize("recipient", ANYBODY)
def test_a_message_to_anybody_is_accepted_listed_and_in_the_inbox_of_its_recipient(empty, recipient):
    empty.send(recipient)
    (message,) = empty.messages()
    assert (message["to"], message["recipients"]) == (recipient, [recipient])
    assert [code["value"] for code in message["codes"]] == ["481516"]
    address = recipient if "@" in recipient else f"{recipient}@mail.example.com"
    (copy,) = empty.messages(f"/addresses/{quote(address)}/messages")
    assert copy["subject"] == "Welcome"
    assert "recipients" not in copy


def test_a_message_to_several_recipients_is_listed_once_with_its_bcc(empty):
    sent = ["anna@shop.example", "bob@other.example", "archive@company.example"]
    empty.send(*sent)
    (message,) = empty.messages()
    whole = empty.get(f"/messages/{message['id']}")
    assert message["recipients"] == whole["recipients"] == sent
    assert [one["address"] for one in whole["session"]["recipients"]] == sent
    (copy,) = empty.messages("/addresses/bob@other.example/messages")
    alone = empty.get(f"/addresses/bob@other.example/messages/{copy['id']}")
    assert [one["address"] for one in alone["session"]["recipients"]] == ["bob@other.example"]


def test_a_message_may_have_a_thousand_recipients_and_no_more(empty):
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


def test_a_recipient_at_an_internationalised_domain_is_found_and_counted_in_both_forms(empty):
    empty.send("anna@bücher.example", subject="in UTF-8")
    empty.send("Anna@xn--bcher-kva.example", subject="in ASCII")
    for recipient in ("anna@BÜCHER.example", "anna@xn--bcher-kva.example"):
        query = f"?to={quote(recipient)}"
        assert [one["subject"] for one in empty.messages(f"/messages{query}")] == ["in ASCII", "in UTF-8"]
        assert empty.request("GET", f"/messages.mbox{query}")[1].count(b"\nSubject: ") == 2
    (counted,) = empty.get("/recipients")["recipients"]
    assert counted == {"address": "Anna@xn--bcher-kva.example", "message_count": 2}
    assert json.loads(empty.request("DELETE", f"/messages?to={quote('anna@bücher.example')}")[1]) == {"deleted": 2}


def test_recipients_are_listed_with_their_message_counts_latest_first(empty):
    assert empty.get("/recipients") == {"message_count": 0, "recipients": []}
    empty.send("anna+1@shop.example", "bob@shop.example", "Bob@Shop.example")
    for _ in range(250):  # more messages than a single query reads
        empty.send("Carol@shop.example")
    empty.send("ANNA+1@shop.example", "anna@shop.example")
    found = empty.get("/recipients")
    assert found["message_count"] == 252
    counts = {"ANNA+1@shop.example": 2, "anna@shop.example": 1, "Carol@shop.example": 250, "bob@shop.example": 1}
    numbers = {one["address"]: one["message_count"] for one in found["recipients"]}
    assert [address.casefold() for address in numbers] == [address.casefold() for address in counts]
    assert list(numbers.values()) == list(counts.values())
    for address, count in numbers.items():
        assert len(empty.messages(f"/messages?to={quote(address)}&limit=100")) == min(count, 100)


def test_a_thousand_recipients_are_listed_however_many_there_were(empty):
    for part in range(3):
        empty.send(*(f"user{part}-{number}@shop.example" for number in range(600)))
    found = empty.get("/recipients")
    assert found["message_count"] == 3
    assert [one["message_count"] for one in found["recipients"]] == [1] * 1000
    assert found["recipients"][0]["address"].startswith("user2-")


def test_the_pages_of_a_filtered_list_keep_the_filter(empty):
    for number in range(3):
        empty.send("anna@shop.example", subject=str(number))
        empty.send("bob@shop.example", subject="other")
    url = f"http://127.0.0.1:{empty.http_port}/api/v1/messages?to=anna@shop.example&limit=2"
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as response:
        assert [one["subject"] for one in json.load(response)["messages"]] == ["2", "1"]
        following = re.match(r'<(/api/v1)(/messages\?[^>]+)>; rel="next"', response.headers["Link"])
    assert [one["subject"] for one in empty.messages(following[2])] == ["0"]


def test_a_deleted_message_and_only_that_message_disappears_from_the_inboxes_of_all_recipients(empty):
    empty.send("anna@shop.example", "bob@shop.example", subject="stays")
    empty.send("anna@shop.example", "bob@shop.example", subject="goes")
    goes, _ = empty.messages()
    assert empty.request("DELETE", f"/messages/{goes['id']}") == (204, b"")
    assert empty.request("DELETE", f"/messages/{goes['id']}")[0] == 404
    for path in ("/messages", "/addresses/anna@shop.example/messages", "/addresses/bob@shop.example/messages"):
        assert [one["subject"] for one in empty.messages(path)] == ["stays"]


def test_a_copy_is_deleted_however_its_recipient_was_written(empty):
    empty.send(
        "postmaster", "root", '"a b"@shop.example', "<@relay.example:carol@shop.example>", "Dora+tag@SHOP.example"
    )
    (message,) = empty.messages()
    assert len(message["recipients"]) == 5
    inboxes = (
        "postmaster@mail.example.com",
        "root@mail.example.com",
        '"a b"@shop.example',
        "carol@shop.example",
        "dora@shop.example",
    )
    paths = [f"/addresses/{quote(address)}/messages" for address in inboxes]
    assert [len(empty.messages(path)) for path in paths] == [1] * 5
    assert empty.request("DELETE", f"/messages/{message['id']}") == (204, b"")
    assert [len(empty.messages(path)) for path in paths] == [0] * 5


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


def test_messages_to_a_recipient_are_deleted(empty):
    empty.send("anna+1@shop.example", "bob@shop.example", subject="to both")
    empty.send("anna+1@shop.example", subject="older")
    empty.send("anna+2@shop.example", subject="a different tag")
    empty.send("anna+1@shop.example", subject="newer")
    (until,) = empty.messages(f"/messages?to={quote('anna+2@shop.example')}")

    def deleted(query):
        return json.loads(empty.request("DELETE", f"/messages?{query}")[1]), [
            one["subject"] for one in empty.messages()
        ]

    to_anna = f"to={quote('ANNA+1@shop.example')}"
    assert deleted("to=anna@shop.example") == ({"deleted": 0}, ["newer", "a different tag", "older", "to both"])
    assert deleted(f"{to_anna}&up_to={until['id']}") == ({"deleted": 2}, ["newer", "a different tag"])
    assert empty.messages("/addresses/bob@shop.example/messages") == []
    assert deleted(to_anna) == ({"deleted": 1}, ["a different tag"])
    assert [one["subject"] for one in empty.messages("/addresses/anna@shop.example/messages")] == ["a different tag"]


@pytest.mark.parametrize(
    ("query", "pointer", "detail"),
    [
        ("to=anna@shop.example&id={id}", "to", "expected only one of id and to"),
        ("to=anna@shop.example&up_to={id}&id={id}", "up_to", "expected only one of id and up_to"),
        ("to=", "to", "expected a recipient's address"),
        ("too=anna@shop.example", "too", "expected only id, up_to and to"),
    ],
)
def test_an_unclear_deletion_deletes_nothing_and_the_response_names_the_parameter(empty, query, pointer, detail):
    empty.send("anna@shop.example")
    (message,) = empty.messages()
    status, body = empty.request("DELETE", f"/messages?{query.format(id=message['id'])}")
    assert (status, json.loads(body)["errors"][0]) == (422, {"pointer": pointer, "detail": detail})
    assert empty.messages() == [message]


def test_source_attachments_views_and_the_mbox_are_the_same_as_in_an_inbox(empty):
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


def test_a_wait_for_a_different_recipient_lists_the_recipients_of_the_messages_that_arrived(empty):
    empty.send("anna@shop.example", "bob@shop.example")
    with Client(f"http://127.0.0.1:{empty.http_port}") as client, pytest.raises(WaitTimeout) as late:
        client.all_mail().wait_for(to="anna", timeout=0)
    assert str(late.value).startswith("no message with recipient 'anna' arrived at ")
    assert str(late.value).splitlines()[2:] == [
        "    lacks recipient 'anna'",
        "    recipients: anna@shop.example, bob@shop.example",
    ]


def test_a_wait_in_an_empty_inbox_names_the_recipients_of_the_newest_messages(empty):
    path = "/addresses/ann@shop.example/messages?wait=1&explain=true"
    assert empty.get(path)["reason"].endswith(f"does your application send to SMTP on 127.0.0.1:{empty.smtp_port}?")
    empty.send("anna@shop.example", "bob@shop.example")
    empty.send("bob@shop.example", "carol@shop.example", "dora@shop.example")
    assert empty.get(path) == {
        "messages": [],
        "reason": "no message arrived; the newest messages went to bob@shop.example, carol@shop.example, dora@shop.example",
    }


def test_a_wait_names_only_what_a_message_lacks_if_its_internationalised_domain_is_written_differently(empty):
    empty.send("anna@bücher.example", subject="Hello")
    with Client(f"http://127.0.0.1:{empty.http_port}") as client, pytest.raises(WaitTimeout) as late:
        client.all_mail().wait_for(to="Anna@xn--bcher-kva.example", subject="Bye", timeout=0)
    assert str(late.value).splitlines()[2:] == ["    lacks subject 'Bye'"]


def test_an_mbox_file_can_be_limited_to_one_recipient(empty):
    empty.send("anna@shop.example", "bob@shop.example", subject="to both")
    empty.send("bob@shop.example", subject="to bob")
    empty.send("anna+1@shop.example", subject="to a tag")

    def subjects(query):
        status, mbox = empty.request("GET", f"/messages.mbox{query}")
        return status, re.findall(rb"^Subject: (.*)$", mbox, re.MULTILINE)

    assert subjects("?to=Anna@shop.example") == (200, [b"to both"])
    assert subjects("?to=anna%2B1@shop.example") == (200, [b"to a tag"])
    assert subjects("?to=bob@shop.example") == (200, [b"to both", b"to bob"])
    assert subjects("?to=nobody@shop.example") == (200, [])
    assert subjects("?to=") == (200, [b"to both", b"to bob", b"to a tag"])


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


def test_the_api_reports_that_all_mail_is_caught(empty):
    assert empty.get("/domains")["catch_all"] is True


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example"])
def test_a_page_of_another_name_for_this_machine_reads_nothing(empty, host):
    status, body = empty.request("GET", "/messages", host=host)
    assert (status, json.loads(body)["code"]) == (400, "bad-host")


FROM_ELSEWHERE = [
    pytest.param({"Host": "evil.example"}, (400, "bad-host"), id="a name that its owner points to this machine"),
    pytest.param({"Sec-Fetch-Site": "cross-site"}, (403, "cross-site"), id="a page of another site"),
    pytest.param({"Sec-Fetch-Site": "same-site"}, (403, "cross-site"), id="a page of another port of this machine"),
    pytest.param(
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
        (403, "cross-site"),
        id="a frame of another site",
    ),
]


def every_operation(running):
    """Yield the method and path of every operation, with the values of an existing message."""
    (message,) = running.messages()
    values = {"address": "anna@shop.example", "id": message["id"], "index": "0", "secret": "x"}
    for path, item in running.get("/openapi.json")["paths"].items():
        for method in item.keys() & {"get", "post", "patch", "delete"}:
            yield method.upper(), path.removeprefix("/api/v1").format_map(values)


@pytest.mark.parametrize(("fields", "refusal"), FROM_ELSEWHERE)
def test_no_page_of_another_site_reads_changes_or_deletes_anything(empty, fields, refusal):
    empty.send("anna@shop.example")
    operations = list(every_operation(empty))
    assert ("DELETE", "/messages") in operations
    for method, path in operations:
        status, body = empty.request(method, path, **fields)
        assert (method, path, status, json.loads(body)["code"]) == (method, path, *refusal)
    assert len(empty.messages()) == len(empty.messages("/addresses/anna@shop.example/messages")) == 1


def test_a_page_of_another_site_changes_nothing_where_browsers_do_not_name_the_site(empty):
    """Over plain HTTP to a ``--host`` name, browsers do not report the site, and a GET has no Origin either."""
    empty.send("anna@shop.example")
    for method, path in every_operation(empty):
        if method != "GET":
            for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
                status, body = empty.request(method, path, Origin=origin)
                assert (method, path, status, json.loads(body)["code"]) == (method, path, 403, "cross-site")
    assert len(empty.messages()) == 1


def test_a_form_that_a_browser_posts_to_the_smtp_port_sends_no_message(empty):
    form = (
        b"EHLO x\r\nMAIL FROM:<a@b.example>\r\nRCPT TO:<anna@shop.example>\r\nDATA\r\nSubject: x\r\n\r\n.\r\nQUIT\r\n"
    )
    fields = {"Origin": "http://evil.example", "Content-Type": "text/plain"}
    with closing(http.client.HTTPConnection("127.0.0.1", empty.smtp_port, timeout=PATIENCE_SECONDS)) as browser:
        browser.request("POST", "/", form, fields)
        with pytest.raises((http.client.BadStatusLine, ConnectionError)):
            browser.getresponse()
    assert empty.messages() == []


@pytest.mark.parametrize("host", ["localhost", "localhost:8025", "127.0.0.1", "[::1]:8025"])
def test_this_machine_can_be_reached_by_its_usual_names(empty, host):
    assert empty.request("GET", "/messages", host=host)[0] == 200


def test_the_address_that_it_listens_on_is_accepted_as_a_host(tmp_path):
    with catching(tmp_path, "--http", "127.0.0.2:0", http="127.0.0.2") as running:
        assert running.request("GET", "/messages")[0] == 200
        assert running.request("GET", "/messages", host="127.0.0.3")[0] == 400
    with catching(tmp_path, "--http", "0.0.0.0:0") as running:
        assert running.request("GET", "/messages", host="0.0.0.0")[0] == 400


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


def test_without_keep_no_file_is_left(tmp_path):
    with catching(tmp_path, TMPDIR=str(tmp_path)) as running:
        running.send("anna@shop.example")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["catch"], ["serve"], ["serve", "--for-tests", "--stay"]], ids=" ".join)
@pytest.mark.parametrize("key", ["SMTP__LISTEN", "HTTP__LISTEN"])
def test_a_second_service_on_a_port_is_reported_in_one_line(tmp_path, command, key):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = environment(**FREE_PORTS | {f"TMPMAILD_{key}": place}, TMPDIR=str(tmp_path))
        done = warm.run(command, cwd=tmp_path, env=settings)
    assert (done.returncode, done.stdout) == (1, "")
    advice = "; choose a different port with --smtp or --http" if command == ["catch"] else ""
    name = key.lower().replace("__", ".")
    assert done.stderr == f"tmpmaild: {name}: cannot listen on {place}: Address already in use{advice}\n"
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("command", [["catch"], ["serve"], ["serve", "--for-tests", "--stay"]], ids=" ".join)
def test_a_second_service_on_a_database_is_reported_in_one_line(tmp_path, command):
    with catching(tmp_path, "--keep", "all.db") as running:
        settings = environment(**FREE_PORTS, TMPMAILD_STORAGE__PATH="all.db")
        done = warm.run(command, cwd=tmp_path, env=settings)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
        assert done.stderr.startswith("tmpmaild: all.db: ")
        running.send("anna@shop.example")
        assert len(running.messages()) == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--http", "8025x"], "--http: http.listen[0]: expected host:port, [IPv6]:port or unix:PATH, found '8025x'"),
        (["--smtp", "0.0.0.0"], "--smtp: smtp.listen[0]: expected host:port or [IPv6]:port, found '0.0.0.0'"),
        (["--smtp", ""], "--smtp: smtp.listen[0]: expected host:port or [IPv6]:port, found ''"),
        (["--keep", ""], "--keep: storage.path: expected the path of a file, found '.'"),
        (["--host", "a b"], "--host: http.allowed_hosts[3]: expected a host name or an IP address, without port"),
    ],
)
def test_a_wrong_option_is_reported_in_one_line_with_its_name(tmp_path, arguments, complaint):
    done = warm.run(["catch", *arguments], cwd=tmp_path, env=environment())
    assert (done.returncode, done.stdout) == (EX_CONFIG, "")
    assert done.stderr.startswith(f"tmpmaild: {complaint}")
    assert done.stderr.count("\n") == 1


def test_a_unix_socket_is_announced_as_it_is_and_opened_in_no_browser(tmp_path):
    arguments = ["catch", "--smtp", "0", "--http", f"unix:{tmp_path}/http.sock", "--open"]
    program = Program(arguments, cwd=tmp_path, env=environment(BROWSER="/bin/false"), text=True, stderr=subprocess.PIPE)
    with closing(program.stdout), closing(program.stderr):
        assert "send it to SMTP on 127.0.0.1:" in program.stdout.readline()
        assert program.stdout.readline() == f"  HTTP on unix:{tmp_path}/http.sock; ctrl-C stops it\n"
        program.terminate()
        assert program.wait(PATIENCE_SECONDS) == 0
        assert program.stderr.read() == ""


def test_a_port_without_a_host_is_on_loopback(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = warm.run(["catch", "--smtp", str(port), "--http", "0"], cwd=tmp_path, env=environment())
    assert done.stderr.startswith(f"tmpmaild: smtp.listen: cannot listen on 127.0.0.1:{port}: Address already in use; ")


def test_a_database_that_a_variable_names_is_kept(tmp_path):
    settings = {"TMPMAILD_STORAGE__PATH": "all.db"}
    with catching(tmp_path, **settings) as running:
        running.send("anna@shop.example")
    with catching(tmp_path, **settings) as again:
        assert [one["subject"] for one in again.messages()] == ["Welcome"]


@pytest.mark.parametrize("command", [["catch"], ["serve", "--for-tests", "--stay"]], ids=" ".join)
def test_a_missing_folder_for_a_temporary_database_is_reported_in_one_line(tmp_path, command):
    """In a container with a read-only root, the standard library finds no folder for temporary files."""
    script = (
        "import sys, tempfile; from tmpmaild.cli.main import main\n"
        "tempfile._candidate_tempdir_list = lambda: ['/proc/nowhere']\n"
        "main(sys.argv[1:])"
    )
    program = [sys.executable, "-c", script, *command]
    done = subprocess.run(program, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(
        "tmpmaild: there is no folder for a temporary database: No usable temporary directory"
    )
    assert done.stderr.endswith("; set TMPDIR, or name a file: TMPMAILD_STORAGE__PATH\n")


def test_the_catcher_stops_when_its_terminal_is_closed_and_leaves_nothing_behind(tmp_path):
    arguments = ["catch", "--smtp", "0", "--http", "0"]
    program = Program(arguments, cwd=tmp_path, env=environment(TMPDIR=str(tmp_path)), text=True)
    with closing(program.stdout):
        Catcher(program)
        program.send_signal(signal.SIGHUP)
        assert program.wait(PATIENCE_SECONDS) == 0
    assert list(tmp_path.iterdir()) == []


def test_the_catcher_started_by_nohup_outlives_its_terminal(tmp_path):
    command = ["nohup", sys.executable, "-m", "tmpmaild", "catch", "--smtp", "0", "--http", "0"]
    program = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with program:
        running = Catcher(program)
        program.send_signal(signal.SIGHUP)
        running.send("anna@shop.example")
        assert len(running.messages()) == 1
        program.terminate()
    assert program.returncode == 0


def test_everyone_who_reaches_a_public_address_can_read_everything_and_the_log_warns(tmp_path):
    with (tmp_path / "stderr.txt").open("wb") as stderr:
        arguments = ["catch", "--smtp", "127.0.0.1:0", "--http", "0.0.0.0:0"]
        program = Program(arguments, cwd=tmp_path, env=environment(), text=True, stderr=stderr.fileno())
    with closing(program.stdout):
        assert "catches all mail" in program.stdout.readline()
        program.terminate()
        assert program.wait(PATIENCE_SECONDS) == 0
    log = (tmp_path / "stderr.txt").read_text(encoding="utf-8")
    assert "every recipient is accepted, and anyone who can reach HTTP on 0.0.0.0:" in log


def test_a_service_for_tests_catches_all_mail_on_request(tmp_path):
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


@pytest.mark.parametrize("option", [["--auth"], ["--host", "mail"]])
def test_options_of_the_catcher_are_refused_without_it(tmp_path, option):
    done = warm.run(["serve", "--for-tests", "--stay", *option], cwd=tmp_path, env=environment())
    assert (done.returncode, done.stderr) == (1, "tmpmaild: --host and --auth need --catch-all\n")


def test_catch_all_without_for_tests_is_refused(tmp_path):
    done = warm.run(["serve", "--catch-all"], cwd=tmp_path, env=environment())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "tmpmaild: --catch-all needs --for-tests; for interactive use, run tmpmaild catch\n"


def test_a_service_for_tests_without_standard_input_explains_what_to_do(tmp_path):
    done = warm.run(["serve", "--for-tests"], cwd=tmp_path, env=environment())
    assert (done.returncode, done.stdout) == (1, "")
    assert "standard input has already ended" in done.stderr
    assert "--stay" in done.stderr
