"""Refusals recorded for testers: each contains the command and the reply, or describes how the client disconnected."""

import asyncio
import smtplib
import ssl

import pytest

from patience import PATIENCE_SECONDS


def kept(house):
    return [(one.command, one.reason) for one in house.service.refusals.newest()]


def distrust(address, tls_first):
    """Connect like an application that does not trust the certificate's issuer."""
    context = ssl.create_default_context()
    if tls_first:
        smtplib.SMTP_SSL(*address, local_hostname="localhost", context=context, timeout=PATIENCE_SECONDS)
    else:
        with smtplib.SMTP(*address, local_hostname="localhost", timeout=PATIENCE_SECONDS) as client:
            client.starttls(context=context)


async def ended(house):
    await house.until(lambda: not house.server.connections.open)


async def test_a_refused_recipient_is_recorded_as_it_was_written(talk, clock):
    async with talk(keep_refusals=True) as (house, client):
        await client.say(
            "MAIL FROM:<a@example.com>", "RCPT TO:<No.One@ours.test>", "RCPT TO:<abc@other.test>", "RCPT TO:<>"
        )
        await client.say("rcpt to:<abc@ours.test>", "DATA", "Subject: x\r\n\r\nhello\r\n.")
        assert kept(house) == [
            ("RCPT TO:<No.One@ours.test>", "550 5.1.1 No such address here"),
            ("RCPT TO:<abc@other.test>", "550 5.7.1 Relaying denied"),
            ("RCPT TO:<>", "501 5.1.3 Bad recipient address syntax"),
        ]
        newest = house.service.refusals.newest()[-1]
        assert (newest.client, newest.at_ms) == ("127.0.0.1", clock())


async def test_the_refusal_of_a_message_that_is_too_large_is_recorded(serve):
    async with serve(keep_refusals=True, max_message_bytes=1024) as house:
        client = await house.at_data()
        await client.say("x" * 900 + "\r\n" + "x" * 900 + "\r\n.")
        assert kept(house) == [("the end of the mail", "552 5.3.4 Message too big")]


async def test_no_secret_is_recorded_and_at_most_a_hundred_refusals_are_kept(talk):
    async with talk(keep_refusals=True) as (house, client):
        await client.say("AUTH PLAIN c2VjcmV0", "c2VjcmV0", "MAIL FROM:<a@example.com>")
        secretless = [("AUTH", "502 5.5.1 Command not implemented"), ("", "500 5.5.2 Command not recognized")]
        assert kept(house) == secretless
        await client.say(*["RCPT TO:<no-one@ours.test>"] * 99)
        assert kept(house) == secretless[1:] + [("RCPT TO:<no-one@ours.test>", "550 5.1.1 No such address here")] * 99


async def test_a_client_that_disconnects_without_a_message_is_recorded(talk):
    async with talk(keep_refusals=True) as (house, client):
        await client.say("QUIT")
        await ended(house)
        text = "the client disconnected without sending a message; it was offered no AUTH and no STARTTLS"
        assert kept(house) == [("EHLO", text)]


async def test_a_client_that_disconnects_during_its_message_but_not_after_it_is_recorded(talk):
    async with talk(keep_refusals=True) as (house, client):
        await client.deliver("abc")
        await client.say("QUIT")
        await ended(house)
        (await house.at_data()).close()
        await ended(house)
        assert kept(house) == [("DATA", "the client disconnected before its message was complete")]


@pytest.mark.parametrize("tls_first", [False, True], ids=["starttls", "tls first"])
async def test_a_client_that_does_not_trust_the_certificate_is_recorded(serve, certificate, tls_first):
    async with serve(keep_refusals=True, tls=certificate[0], tls_first=tls_first) as house:
        with pytest.raises(ssl.SSLError):
            await asyncio.to_thread(distrust, house.address, tls_first)
        await ended(house)
        assert not house.server.connections.per_client
        ((command, reason),) = kept(house)
        assert command == "the TLS handshake"
        assert reason.endswith("UNKNOWN_CA: the client does not trust the certificate")


async def test_a_client_that_disconnects_right_after_the_handshake_is_recorded(serve, certificate):
    ours, theirs = certificate
    async with serve(keep_refusals=True, tls=ours, tls_first=True) as house:
        client = await house.connect(ssl=theirs, server_hostname="localhost")
        await client.reply()
        client.close()
        await ended(house)
        assert kept(house) == [
            ("the TLS handshake", "the client disconnected after the handshake; does it trust the certificate?")
        ]


async def test_refusals_are_kept_only_while_the_setting_is_on(talk):
    async with talk() as (house, client):
        for wanted in (False, True):
            house.service.refusals.want(wanted=wanted)
            await client.say("FROB")
            assert len(kept(house)) == wanted
        house.service.refusals.want(wanted=False)
        assert kept(house) == []
