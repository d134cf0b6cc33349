"""Addresses and their messages, using both clients with the real service, and the state of a closed client."""

import gc
import hashlib
import mailbox
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest

from daemons import wait_until
from tmpmaild import client as api
from tmpmaild.ratelimit import TokenBuckets

MIXED = Path(__file__).with_name("aio-inboxes-mixed.eml").read_bytes()


def test_an_address_is_created_with_a_token_that_controls_it(client, service):
    inbox = client.create()
    assert inbox.address.endswith("@mail.example.com")
    assert inbox.expires_at == datetime.fromtimestamp(service.clock() / 1000 + 3600, UTC)
    assert len(inbox.token) == 43
    assert inbox.messages() == []


def test_an_address_can_be_chosen_once(client, service):
    name = f"chosen.{uuid4()}"
    inbox = client.create(name, domain="second.test", expires_in_seconds=60)
    assert inbox.address == f"{name}@second.test"
    assert inbox.expires_at == datetime.fromtimestamp(service.clock() / 1000 + 60, UTC)
    with pytest.raises(api.AddressTaken) as refused:
        client.create(name, domain="second.test")
    assert (refused.value.status, refused.value.code) == (409, "address-taken")


def test_a_private_inbox_is_read_with_its_token_only(client, service):
    inbox = client.create(private=True)
    service.deliver(inbox.address)
    assert [mail.subject for mail in inbox.messages()] == ["hello"]
    assert [mail.subject for mail in client.inbox(inbox.address, inbox.token).messages()] == ["hello"]
    with pytest.raises(api.AddressNotFound):
        client.inbox(inbox.address)


def test_an_inbox_that_exists_can_be_read_but_not_changed_without_its_token(client, inbox, service):
    found = client.inbox(inbox.address.upper())
    assert (found.address, found.token, found.expires_at) == (inbox.address, None, inbox.expires_at)
    with pytest.raises(api.Unauthorized):
        found.delete()
    with pytest.raises(api.AddressNotFound):
        client.inbox(inbox.address, "f" * 64).delete()
    with pytest.raises(api.NotFound):
        client.inbox("../../domains?@mail.example.com")


def test_faults_are_set_and_the_remaining_faults_are_listed(client):
    greylisted = api.Fault("rcpt", "451 4.7.1 Greylisted", times=2)
    slow = api.Fault("end", delay_seconds=0.5)
    inbox = client.create(faults=[greylisted])
    assert inbox.faults() == [greylisted]
    inbox.set_faults([slow, greylisted])
    assert inbox.faults() == [slow, greylisted]
    with pytest.raises(api.InvalidRequest) as refused:
        inbox.set_faults([api.Fault("end", "250 Ok"), api.Fault("dot", "451 x", times=101)])
    assert {one.pointer for one in refused.value.errors} == {"/faults/0/reply", "/faults/1/at", "/faults/1/times"}
    inbox.set_faults([])
    assert inbox.faults() == []


def test_a_webhook_is_set_with_a_secret_and_removed(client):
    plain = api.Webhook("https://hooks.example.org/")
    inbox = client.create(private=True, webhook=plain)
    assert (inbox.webhook(), inbox.webhook_secret[:6]) == (plain, "whsec_")
    assert inbox.webhook_secret not in repr(inbox)
    assert client.inbox(inbox.address, inbox.token).webhook_secret is client.create().webhook_secret is None
    wanted = api.Webhook("https://hooks.example.org/", events=("message", "expired"), has=("code",))
    made = inbox.set_webhook(wanted)
    assert made.secret.startswith("whsec_")
    assert made.secret not in repr(made)
    assert (inbox.webhook(), inbox.webhook_secret) == (wanted, made.secret)
    assert inbox.set_webhook(inbox.webhook()).secret != made.secret
    with pytest.raises(api.InvalidRequest) as refused:
        inbox.set_webhook(api.Webhook("https://other.example/"))
    assert [one.pointer for one in refused.value.errors] == ["/webhook/url"]
    assert inbox.set_webhook(None) is None
    assert (inbox.webhook(), inbox.webhook_secret) == (None, None)


def test_a_message_is_read_by_its_id_with_its_complete_text(client, inbox, service):
    message_id = service.deliver(inbox.address, b"Subject: long\r\n\r\n" + 5000 * b"line\r\n")
    mail = inbox.message(message_id)
    assert (mail.id, mail.subject, mail.truncated, len(mail.text)) == (message_id, "long", False, 25_000)
    for unknown in ("msg_00000000000000000000000000", "msg_?x=1", "latest"):
        with pytest.raises(api.MessageNotFound):
            inbox.message(unknown)


def test_an_address_can_be_extended_and_shortened(client, inbox, service):
    now = datetime.fromtimestamp(service.clock() / 1000, UTC)
    assert (inbox.extend(7200) - now).total_seconds() == 7200
    assert (inbox.extend(60) - now).total_seconds() == 60
    assert (inbox.expires_at - now).total_seconds() == 60
    with pytest.raises(api.InvalidRequest):
        inbox.extend(10_000)


def test_one_request_deletes_all_messages_some_messages_or_all_up_to_a_message(inbox, service):
    ids = [service.deliver(inbox.address) for _ in range(6)]
    assert inbox.delete_messages(up_to=ids[1]) == 2
    mails = inbox.messages()
    assert inbox.delete_messages([mails[0], mails[1].id, ids[0]]) == 2
    assert inbox.delete_messages([]) == 0
    assert [mail.id for mail in inbox.messages()] == ids[3:1:-1]
    assert inbox.delete_messages(up_to=mails[-1]) == 1
    assert inbox.delete_messages() == 1
    assert inbox.messages() == []


def test_ambiguous_arguments_delete_nothing(inbox, service):
    mail_id = service.deliver(inbox.address)
    with pytest.raises(ValueError, match="delete either the given messages or all up to one, not both"):
        inbox.delete_messages([], up_to=mail_id)
    for which in ({"up_to": ""}, {"mails": [""]}):
        with pytest.raises(api.InvalidRequest):
            inbox.delete_messages(**which)
    assert len(inbox.messages()) == 1


def test_more_messages_than_one_request_allows_are_deleted_by_several(scripted_inbox, scripted):
    ids = [f"msg_{number:026}" for number in range(101)]
    scripted.say(scripted.json(b'{"deleted": 100}'), scripted.json(b'{"deleted": 1, "more": 2}'))
    assert scripted_inbox.delete_messages(ids) == 101
    assert [asked.target.count("id=") for asked in scripted.asked] == [100, 1]


def test_all_messages_are_saved_as_one_file(client, service, tmp_path):
    inbox = client.create(private=True)
    assert inbox.mbox() == b""
    service.deliver(inbox.address, b"Subject: first\r\n\r\nFrom here\r\n")
    service.deliver(inbox.address, MIXED)
    (tmp_path / "mbox").write_bytes(inbox.mbox())
    box = mailbox.mbox(tmp_path / "mbox", create=False)
    assert [mail["Subject"] for mail in box] == ["first", "Your order"]
    box.close()


def test_a_message_has_its_content(inbox, service):
    message_id = service.deliver(inbox.address, MIXED)
    (mail,) = inbox.messages()
    assert (mail.id, mail.sender) == (message_id, "shop@shop.example")
    assert (mail.sender_name, mail.subject) == ("The Shop", "Your order")
    assert (mail.recipient, mail.text, mail.has_html, mail.truncated) == (inbox.address, "Hello you", True, False)
    assert mail.received_at == datetime.fromtimestamp(service.clock() / 1000, UTC)
    assert mail.html == "<p>Hello <b>you</b></p>"
    assert mail.details().headers[1] == ("Subject", "Your order")
    assert mail.details().envelope.sender == "sender@example.org"
    assert mail.raw().endswith(MIXED)
    assert mail.size_bytes == len(MIXED)


def test_an_attachment_is_fetched_on_demand(inbox, service):
    service.deliver(inbox.address, MIXED)
    (mail,) = inbox.messages()
    (attachment,) = mail.attachments
    assert (attachment.filename, attachment.content_type) == ("terms.pdf", "application/pdf")
    assert not attachment.is_inline
    content = attachment.content()
    assert content == b"%PDF-1"
    assert (attachment.size_bytes, attachment.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    mail.delete()
    with pytest.raises(api.MessageNotFound):
        attachment.content()


def test_a_text_that_is_truncated_in_a_list_is_complete_in_the_details(inbox, service):
    texts = [f"{number}".encode() * 3 * 1024 * 1024 for number in range(2)]
    for text in texts:
        service.deliver(inbox.address, b"Subject: long\r\n\r\n" + b"\r\n".join([text[:998]] * 2500) + b"\r\n")
    _, first = inbox.messages()
    assert first.truncated
    assert len(first.text) <= 1024
    first.details()
    assert not first.truncated
    assert len(first.text) > 2_000_000


def test_messages_are_listed_newest_first_over_several_pages(inbox, service):
    sent = [service.deliver(inbox.address) for _ in range(103)]
    assert [mail.id for mail in inbox.messages()] == sent[::-1]
    assert [mail.id for mail in inbox.messages(limit=101)] == sent[:1:-1]
    assert [mail.id for mail in inbox.messages(limit=2)] == sent[:100:-1]
    assert inbox.messages(limit=0) == []


def test_pages_are_found_below_a_path_that_the_server_does_not_know(connect, service):
    with service.served(public_url="https://mail.example/inbox") as url:
        inbox = connect(url).create()
        sent = [service.deliver(inbox.address) for _ in range(101)]
        assert len(inbox.messages()) == len(sent)


def test_an_empty_page_leads_to_the_next_page_if_there_is_one(scripted_inbox, scripted):
    links = [f'Link: </api/v1/addresses/x@a.test/messages?before=msg_{number}>; rel="next"' for number in (5, 3)]
    scripted.say(*[scripted.messages(headers=[link]) for link in links], scripted.messages("msg_2"))
    assert [mail.id for mail in scripted_inbox.messages()] == ["msg_2"]


@pytest.mark.parametrize(
    ("position", "ids"), [("before=msg_2", ["msg_3", "msg_2"]), ("before=msg_2", []), ("limit=100", [])]
)
def test_reading_endless_pages_stops(scripted_inbox, scripted, position, ids):
    link = f'Link: </api/v1/addresses/x@a.test/messages?{position}>; rel="next"'
    scripted.say(scripted.messages(*ids, headers=[link]))
    with pytest.raises(api.NotTmpmaild):
        scripted_inbox.messages()


def test_messages_are_filtered_by_codes_and_links(inbox, service):
    service.deliver(inbox.address)
    mixed = service.deliver(inbox.address, MIXED)
    code = service.deliver(inbox.address, b"Subject: Your code is 481516\r\n\r\n")
    assert [mail.id for mail in inbox.messages(has="attachment")] == [mixed]
    assert [mail.id for mail in inbox.messages(has=["code"])] == [code]
    assert inbox.messages(has=["code", "attachment"]) == []
    assert inbox.wait_for(has="code", timeout=5).id == code
    with pytest.raises(ValueError, match="has may contain code, link, attachment, verdict, not 'codes'"):
        inbox.messages(has="codes")
    with pytest.raises(api.WaitTimeout, match="no message with a link and an attachment arrived"):
        inbox.wait_for(has=["link", "attachment"], timeout=0)


def test_messages_are_filtered_by_sender_subject_text_and_position(inbox, service):
    first = service.deliver(inbox.address, b"From: A <a@shop.example>\r\nSubject: Welcome\r\n\r\ntext\r\n")
    second = service.deliver(inbox.address, b"From: b@bank.example\r\nSubject: Your & code\r\n\r\nlorem ipsum\r\n")
    for criteria, ids in [
        ({"sender": "SHOP"}, [first]),
        ({"subject": "r & C"}, [second]),
        ({"text": "ipsum"}, [second]),
        ({"after": first}, [second]),
        ({"sender": "shop", "subject": "code"}, []),
    ]:
        assert [mail.id for mail in inbox.messages(**criteria)] == ids
    (newest, oldest) = inbox.messages()
    assert [mail.id for mail in inbox.messages(after=oldest)] == [newest.id]


def test_a_path_before_the_api_is_part_of_the_url(connect, scripted):
    scripted.say(scripted.json(b'{"domains": ["a.test"]}'))
    assert connect(f"{scripted.url}/mail/").domains() == ["a.test"]
    assert scripted.asked[0].target == "/mail/api/v1/domains"


def test_the_url_comes_from_the_environment_or_is_the_default(connect, monkeypatch):
    monkeypatch.setenv("TMPMAILD_URL", "https://mail.example/x/")
    assert connect().url == "https://mail.example/x"
    monkeypatch.delenv("TMPMAILD_URL")
    assert connect().url == "http://127.0.0.1:8025"


@pytest.mark.parametrize(
    "url",
    [
        *("localhost:8025", "ftp://x", "http://", "http://x:port", "http://a:b@x", "http://x/?q", "http://[::1"),
        *("http://127.0.0.1:99999", "http://x:0", "http://x:-1", "http://a:b@x:port", "http://x/\ud800"),
    ],
)
def test_an_invalid_url_of_a_service_is_refused_immediately(connect, url):
    with pytest.raises(ValueError, match="URL") as refused:
        connect(url)
    assert "a:b" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["subject", "sender", "text", "after"])
@pytest.mark.parametrize("call", ["wait_for", "messages"])
def test_a_filter_that_a_request_cannot_carry_is_refused(inbox, call, name):
    with pytest.raises(ValueError, match=rf"^{name} is not valid text: '.ud800' has a lone surrogate$"):
        getattr(inbox, call)(**{name: "\ud800"})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sbject", ", did you mean subject?"),
        ("timout", ", did you mean timeout?"),
        ("foo", "; the filters are subject, sender, text, has, after, verdict, to"),
    ],
)
@pytest.mark.parametrize("call", ["wait_for", "messages", "wait_for_code"])
def test_an_unknown_argument_is_reported_with_a_similar_argument(inbox, call, name, hint):
    with pytest.raises(TypeError) as refused:
        getattr(inbox, call)(**{name: "x"})
    assert str(refused.value) == f"unexpected argument {name}{hint}"


def test_a_url_with_a_wrong_path_is_named(connect, url):
    with pytest.raises(
        api.NotFound, match=r"nothing at this path; is the path of http.*/inbox right\? \(404 not-found\)$"
    ):
        connect(f"{url}/inbox").create()


def test_an_inbox_has_no_other_recipients_to_filter_by(inbox):
    with pytest.raises(TypeError, match="to= is a filter for the list of all messages"):
        inbox.messages(to="anna@shop.example")


def test_an_address_that_a_request_cannot_carry_is_refused(client):
    with pytest.raises(ValueError, match=r"^local_part is not valid text"):
        client.create("\ud800")
    with pytest.raises(ValueError, match=r"^domain is not valid text"):
        client.create(domain="\ud800")
    with pytest.raises(ValueError, match=r"^address is not valid text"):
        client.inbox("\ud800@mail.example.com")


def test_a_rate_limit_error_says_how_long_to_wait(connect, service):
    with service.served(TokenBuckets(10, 1)) as url:
        client = connect(url)
        client.domains()
        with pytest.raises(api.RateLimited) as refused:
            client.domains()
        assert refused.value.retry_after_seconds == 6


def test_a_patient_client_waits_as_long_as_the_server_says_but_at_most_a_minute(connect, scripted, fake_time):
    client = connect(scripted.url, time=fake_time, wait_out_rate_limit=True)
    scripted.say(*[scripted.problem(429, "rate-limited", "Retry-After: 6")] * 2, scripted.json(b'{"domains": []}'))
    assert client.domains() == []
    scripted.say(scripted.problem(429, "rate-limited", "Retry-After: 25"))
    with pytest.raises(api.RateLimited):
        client.domains()
    assert fake_time.slept == [6, 6, 25, 25]


def test_a_client_closes_its_own_connections(url, portal):
    with api.Client(url) as client:
        assert client.domains()
    with pytest.raises(RuntimeError, match="closed"):
        client.domains()

    async def main():
        async with api.AsyncClient(url) as client:
            assert await client.domains()
        with pytest.raises(RuntimeError, match="closed"):
            await client.domains()

    portal.call(main)


def test_a_client_does_not_close_a_given_connection_pool_and_can_be_closed_twice(url, http):
    for client in (api.Client(url, http=http), api.Client(url)):
        client.close()
        client.close()
    assert not http.is_closed


def test_an_abandoned_stream_is_closed(connect_async, url, service, portal):
    async def main():
        inbox = await connect_async(url).create()
        await portal_deliver(inbox.address)
        async for event in inbox.follow():
            assert event.mail.subject == "hello"
            break

    async def portal_deliver(address):
        await service._deliver(address, b"Subject: hello\r\n\r\n", "a@b.test")

    before = service.listeners()
    portal.call(main)
    gc.collect()
    wait_until(lambda: service.listeners() == before)


def test_httpx2_options_are_passed_on(scripted):
    scripted.say(scripted.json(b'{"domains": []}'))
    with httpx2.Client(headers={"X-Team": "blue"}) as http:
        api.Client(scripted.url, http=http).domains()
    assert scripted.asked[0].headers["x-team"] == "blue"
