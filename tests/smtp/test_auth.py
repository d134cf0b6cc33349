"""Applications that are configured with a login: they can send messages, and their passwords are not stored."""

import asyncio
import base64
import logging
import smtplib

import aiosmtplib
import pytest

from patience import PATIENCE_SECONDS

USER, PASSWORD = "alice@example.com", "correct-horse"
RESPONSE = base64.b64encode(f"\0{USER}\0{PASSWORD}".encode()).decode()
MAIL = b"Subject: hello\r\n\r\nhello\r\n"


async def with_smtplib(port):
    def send():
        with smtplib.SMTP("127.0.0.1", port, local_hostname="client.example", timeout=PATIENCE_SECONDS) as client:
            client.login(USER, PASSWORD)
            client.sendmail(USER, ["abc@ours.test"], MAIL)

    await asyncio.to_thread(send)


async def with_aiosmtplib(port):
    login = {"username": USER, "password": PASSWORD, "start_tls": False}
    envelope = {"sender": USER, "recipients": ["abc@ours.test"]}
    await aiosmtplib.send(MAIL, **envelope, hostname="127.0.0.1", port=port, timeout=PATIENCE_SECONDS, **login)


@pytest.mark.parametrize("send", [with_smtplib, with_aiosmtplib])
async def test_a_library_that_logs_in_gets_its_mail_through(serve, send):
    async with serve(auth="any") as house:
        await send(house.address[1])
        assert len(await house.messages("abc")) == 1


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        pytest.param(
            "swaks",
            [
                "--server",
                "127.0.0.1:{port}",
                "--from",
                "alice@example.com",
                "--to",
                "abc@ours.test",
                "--auth",
                "PLAIN",
                "--auth-user",
                "alice@example.com",
                "--auth-password",
                "correct-horse",
                "--data",
                "-",
            ],
            id="swaks, PLAIN",
        ),
        pytest.param(
            "swaks",
            [
                "--server",
                "127.0.0.1:{port}",
                "--from",
                "alice@example.com",
                "--to",
                "abc@ours.test",
                "--auth",
                "LOGIN",
                "--auth-user",
                "alice@example.com",
                "--auth-password",
                "correct-horse",
                "--data",
                "-",
            ],
            id="swaks, LOGIN",
        ),
        pytest.param(
            "msmtp",
            [
                "--host=127.0.0.1",
                "--port={port}",
                "--auth=plain",
                "--user=alice@example.com",
                "--tls=off",
                "--passwordeval=echo correct-horse",
                "--from=alice@example.com",
                "abc@ours.test",
            ],
            id="msmtp, PLAIN",
        ),
        pytest.param(
            "msmtp",
            [
                "--host=127.0.0.1",
                "--port={port}",
                "--auth=login",
                "--user=alice@example.com",
                "--tls=off",
                "--passwordeval=echo correct-horse",
                "--from=alice@example.com",
                "abc@ours.test",
            ],
            id="msmtp, LOGIN",
        ),
        pytest.param(
            "curl",
            [
                "-sS",
                "smtp://127.0.0.1:{port}",
                "--user",
                "alice@example.com:correct-horse",
                "--mail-from",
                "alice@example.com",
                "--mail-rcpt",
                "abc@ours.test",
                "--upload-file",
                "-",
            ],
            id="curl",
        ),
        pytest.param(
            "curl",
            [
                "-sS",
                "smtp://127.0.0.1:{port}",
                "--user",
                "alice@example.com:correct-horse",
                "--mail-from",
                "alice@example.com",
                "--mail-rcpt",
                "abc@ours.test",
                "--upload-file",
                "-",
                "--login-options",
                "AUTH=LOGIN",
            ],
            id="curl, LOGIN",
        ),
        pytest.param(
            "curl",
            [
                "-sS",
                "smtp://127.0.0.1:{port}",
                "--user",
                "alice@example.com:correct-horse",
                "--mail-from",
                "alice@example.com",
                "--mail-rcpt",
                "abc@ours.test",
                "--upload-file",
                "-",
                "--sasl-ir",
            ],
            id="curl, initial response",
        ),
    ],
)
async def test_a_program_that_logs_in_gets_its_mail_through(serve, program, arguments):
    async with serve(auth="any") as house:
        await house.run(program, arguments, MAIL)
        assert len(await house.messages("abc")) == 1


async def test_credentials_are_neither_stored_nor_logged(talk, caplog):
    caplog.set_level(logging.DEBUG)
    user, password = (base64.b64encode(text.encode()).decode() for text in (USER, PASSWORD))
    async with talk(auth="any") as (house, client):
        assert (await client.say(f"AUTH PLAIN {RESPONSE}!", "AUTH LOGIN", user, password + "!"))[3][:9] == "501 5.5.2"
        # The AUTH exchange has ended, so this line is an unknown command.
        assert (await client.say(password))[0].startswith("500 5.5.2")
        assert (await client.say(f"AUTH PLAIN {RESPONSE}"))[0].startswith("235 2.7.0")
        assert (await client.deliver("abc")).startswith("250 ")
        stored = b"".join(path.read_bytes() for path in house.store.path.parent.glob("mail.db*"))
        assert b"Subject: x" in stored
    said = caplog.text.encode()
    assert b"SMTP from 127.0.0.1 refused: 501 5.5.2" in said
    for text in (USER, PASSWORD, user, password, RESPONSE):
        assert text.encode() not in stored + said
