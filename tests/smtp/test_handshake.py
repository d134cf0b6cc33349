"""Mail over TLS: commands sent in clear text after STARTTLS have no effect; a failed handshake leaves no session."""

import asyncio
import gc
import socket

import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.smtp import replies

pytestmark = pytest.mark.both_loops

MAIL = ("MAIL FROM:<a@example.com>", "RCPT TO:<abc@ours.test>", "DATA")


async def test_mail_in_clear_text_after_starttls_gets_no_reply_and_is_not_stored(talk, certificate):
    ours, theirs = certificate
    async with talk(tls=ours) as (house, client):
        client.send("STARTTLS", "EHLO mallory.example", *MAIL, "Subject: injected", ".", "QUIT")
        assert await client.reply() == "220 2.0.0 Ready to start TLS"
        await client.start_tls(theirs)
        # Replies to injected commands would arrive before these replies.
        assert await client.say("NOOP", *MAIL) == ["250 2.0.0 Ok", *["503 5.5.1 Bad sequence of commands"] * 3]
        (session,) = house.server.connections.open
        assert session.conversation.helo == ""
        assert house.sources() == []


async def test_commands_in_clear_text_between_the_reply_and_the_hello_end_the_session(talk, certificate):
    ours, theirs = certificate
    async with talk(tls=ours) as (house, client):
        assert await client.say("STARTTLS") == ["220 2.0.0 Ready to start TLS"]
        client.send("EHLO mallory.example", *MAIL, "Subject: injected", ".")
        with pytest.raises((OSError, asyncio.IncompleteReadError)):  # OSError includes ssl.SSLError
            await client.start_tls(theirs)
        await house.until(lambda: not house.server.connections.open and not house.server.connections.tasks)
        assert house.sources() == []


async def test_a_cleartext_transaction_does_not_continue_under_tls(talk, certificate):
    ours, theirs = certificate
    async with talk(tls=ours, names=("abc", "def")) as (house, client):
        await client.say(*MAIL[:2])
        assert await client.say("STARTTLS") == ["220 2.0.0 Ready to start TLS"]
        await client.start_tls(theirs)
        said = await client.say(
            "HELO sealed.example", MAIL[1], "DATA", "MAIL FROM:<>", "RCPT TO:<def@ours.test>", "DATA", "."
        )
        assert [reply[:9] for reply in said] == [
            *("250 mx.ou", "503 5.5.1", "554 5.5.1"),
            *("250 2.1.0", "250 2.1.5", "354 End d", "250 2.0.0"),
        ]
        assert house.read("SELECT envelope_from, helo, tls FROM content") == [("", "sealed.example", 1)]
        assert await house.messages("abc") == ()


async def test_a_session_that_was_offered_starttls_can_use_it_after_it_was_turned_off(talk, certificate):
    async with talk(tls=certificate[0]) as (house, client):
        house.server.change_settings(house.server.connections.settings, None)
        await client.say("STARTTLS")
        await client.start_tls(certificate[1])
        assert await client.say("NOOP") == ["250 2.0.0 Ok"]
        assert await (await house.greeted()).say("STARTTLS") == ["502 5.5.1 Command not implemented"]


@pytest.mark.parametrize("how", ["garbage", "reset", "half-close"])
async def test_a_failed_handshake_leaves_nothing_behind(serve, certificate, how, caplog):
    async with serve(tls=certificate[0]) as house:
        client = await house.connect()
        await client.reply()
        assert await client.say("STARTTLS") == [str(replies.READY_FOR_TLS)]
        if how == "garbage":
            client.send("EHLO this is no handshake", "x" * 1000)
        elif how == "reset":
            client.reset()
        else:
            client.writer.write_eof()
        await house.until(lambda: not house.server.connections.open)
        assert not house.server.connections.per_client
        assert "Traceback" not in caplog.text


async def test_a_stop_during_a_handshake_leaves_nothing_behind(serve, certificate):
    async with serve(tls=certificate[0]) as house:
        client = await house.connect()
        await client.reply()
        assert await client.say("STARTTLS") == [str(replies.READY_FOR_TLS)]
        # The server does not wait for the grace period, which applies only to open messages.
        async with asyncio.timeout(PATIENCE_SECONDS):
            await house.server.stop(60)
        await house.until(lambda: not house.server.connections.open and not house.server.connections.tasks)


# When a handshake fails, the event loops leave parts of the transport to the garbage collector, and warn about it.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_clients_that_disconnect_after_starttls_leave_nothing_behind(serve, certificate):
    def come_and_go(address):
        with socket.create_connection(address) as client:
            client.recv(1000)  # After the greeting, the server has a session for this client.
            # Close with a RST, so that no reply is delivered.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.sendall(b"EHLO client.example\r\nSTARTTLS\r\n")

    async with serve(tls=certificate[0]) as house:
        for _ in range(30):
            await asyncio.to_thread(come_and_go, house.address)
        await house.until(lambda: not house.server.connections.open and not house.server.connections.tasks)
        assert not house.server.connections.per_client
    gc.collect()


@pytest.mark.parametrize("tls_first", [False, True])
@pytest.mark.parametrize(("version", "alert"), [(b"\3\2", b"\x15\3\2\0\2\2\x46"), (b"\3\1", b"\x15\3\1\0\2\2\x46")])
async def test_an_outdated_client_gets_an_alert(serve, certificate, tls_first, version, alert):
    """RFC 5246 §7.2.2, protocol_version. Current clients can no longer send such a hello."""
    hello = b"\x16\3\1\0\x2d\1\0\0\x29" + version + bytes(32) + b"\0\0\2\0\x2f\1\0"
    async with serve(tls=certificate[0], tls_first=tls_first) as house:
        reader, writer = await asyncio.open_connection(*house.address)
        if not tls_first:
            await reader.readline()
            writer.write(b"STARTTLS\r\n")
            assert (await reader.readline()).startswith(b"220")
        for octet in hello:
            writer.write(bytes([octet]))
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await reader.read() == alert
        writer.close()
        await house.until(lambda: not house.server.connections.open and not house.server.connections.tasks)
