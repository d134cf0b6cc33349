"""Applications that are configured with a login: they send their mail, and nothing of their password stays here."""

import asyncio
import base64
import logging
import smtplib
import subprocess
import time

import aiosmtplib
import pytest

from tmpmaild.smtp.conversation import Conversation

USER, PASSWORD = "alice@example.com", "correct-horse"
RESPONSE = base64.b64encode(f"\0{USER}\0{PASSWORD}".encode()).decode()
MAIL = b"Subject: hello\r\n\r\nhello\r\n"


def command(name, *arguments):
    """Return a coroutine function that sends ``MAIL`` with a program, which gets the port as ``{port}``."""

    def run(port):
        texts = [argument.format(port=port) for argument in arguments]
        return subprocess.run([name, *texts], input=MAIL, capture_output=True, timeout=30, check=False)

    async def send(port):
        done = await asyncio.to_thread(run, port)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()

    return send


def swaks(mechanism):
    options = ["--server", "127.0.0.1:{port}", "--from", USER, "--to", "abc@ours.test", "--auth", mechanism]
    return command("swaks", *options, "--auth-user", USER, "--auth-password", PASSWORD, "--data", "-")


def msmtp(mechanism):
    options = ["--host=127.0.0.1", "--port={port}", f"--auth={mechanism}", f"--user={USER}", "--tls=off"]
    return command("msmtp", *options, f"--passwordeval=echo {PASSWORD}", f"--from={USER}", "abc@ours.test")


def curl(*options):
    envelope = ["--mail-from", USER, "--mail-rcpt", "abc@ours.test", "--upload-file", "-"]
    return command("curl", "-sS", "smtp://127.0.0.1:{port}", "--user", f"{USER}:{PASSWORD}", *envelope, *options)


async def with_smtplib(port):
    def send():
        with smtplib.SMTP("127.0.0.1", port, local_hostname="client.example", timeout=30) as client:
            client.login(USER, PASSWORD)
            client.sendmail(USER, ["abc@ours.test"], MAIL)

    await asyncio.to_thread(send)


async def with_aiosmtplib(port):
    login = {"username": USER, "password": PASSWORD, "start_tls": False}
    envelope = {"sender": USER, "recipients": ["abc@ours.test"]}
    await aiosmtplib.send(MAIL, **envelope, hostname="127.0.0.1", port=port, timeout=30, **login)


SENDERS = {
    "python": [with_smtplib, with_aiosmtplib],
    "swaks": [swaks("PLAIN"), swaks("LOGIN")],
    "msmtp": [msmtp("plain"), msmtp("login")],
    "curl": [curl(), curl("--login-options", "AUTH=LOGIN"), curl("--sasl-ir")],
}


@pytest.mark.parametrize("name", SENDERS)
async def test_who_logs_in_gets_its_mail_through(serve, name):
    async with serve(auth="any") as house:
        await asyncio.gather(*(send(house.address[1]) for send in SENDERS[name]))
        assert len(await house.messages("abc")) == len(SENDERS[name])


async def test_nothing_of_the_credentials_is_stored_or_logged(talk, caplog):
    caplog.set_level(logging.DEBUG)
    user, password = (base64.b64encode(text.encode()).decode() for text in (USER, PASSWORD))
    async with talk(auth="any") as (house, client):
        assert (await client.say(f"AUTH PLAIN {RESPONSE}!", "AUTH LOGIN", user, password + "!"))[3][:9] == "501 5.5.2"
        assert (await client.say(password))[0].startswith("500 5.5.2")  # the exchange has ended
        assert (await client.say(f"AUTH PLAIN {RESPONSE}"))[0].startswith("235 2.7.0")
        assert (await client.deliver("abc")).startswith("250 ")
        stored = b"".join(path.read_bytes() for path in house.store.path.parent.glob("mail.db*"))
        assert b"Subject: x" in stored
    said = caplog.text.encode()
    assert b"SMTP from 127.0.0.1 refused: 501 5.5.2" in said
    for text in (USER, PASSWORD, user, password, RESPONSE):
        assert text.encode() not in stored + said


@pytest.mark.parametrize(
    ("piece", "last"),
    [
        (b"A" * 12_288, b"421 4.7.0 Line without end, closing"),
        (b"AUTH PLAIN " + b"A" * 12_268 + b"\r\n", b"421 4.7.0 Too many errors, closing"),
        (b"AUTH LOGIN\r\n" + b"A" * 12_276 + b"!\r\n", b"421 4.7.0 Too many errors, closing"),
        (b"AUTH LOGIN\r\n" + b"A" * 12_276 + b"\r\n*\r\n", b"501 5.7.0 Authentication cancelled"),
    ],
    ids=["without end", "after success", "malformed", "cancelled each time"],
)
def test_ten_megabytes_of_base64_cost_little(piece, last):
    conversation = Conversation("mx.ours.test", max_message_bytes=2000, offers_auth=True)
    conversation.input.append(b"HELO client.example\r\nAUTH LOGIN\r\n" + b"*\r\n" * (b"\r" in piece))
    begun = time.thread_time()
    for _ in range(10 * 1024 * 1024 // len(piece)):
        conversation.output.clear()
        conversation.input.append(piece)
        while (request := conversation.next_request()) is not None:
            conversation.answer(request.reply)  # each is one that is delayed
        if conversation.closed:
            break
    assert time.thread_time() - begun < 10
    assert conversation.output.splitlines()[-1] == last
    assert conversation.input.waiting_bytes <= len(piece)
