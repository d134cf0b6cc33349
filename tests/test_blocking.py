"""Nothing blocks the event loop while messages arrive, are read, and are swept."""

import asyncio

import pytest
from blockbuster import blockbuster_ctx
from services import service_over

from tmpmaild.host.sockets import bind_all
from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.inboxes.expiry import Cleaner
from tmpmaild.model import Page
from tmpmaild.smtp.server import SmtpServer
from tmpmaild.smtp.settings import SmtpSettings
from tmpmaild.storage.engines import SqliteSettings
from tmpmaild.storage.sqlite.engine import open_storage


async def send(port, address, body):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"HELO x\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<%b>\r\nDATA\r\n" % address.encode())
    writer.write(b"Subject: x\r\n\r\n" + body + b"\r\n.\r\nQUIT\r\n")
    replies = (await reader.read()).splitlines()
    writer.close()
    await writer.wait_closed()
    return replies


@pytest.mark.both_loops
async def test_no_call_blocks_the_loop(tmp_path, clock):
    settings = SqliteSettings(max_bytes=2**30, reserve_bytes=2**21, path=tmp_path / "mail.db")
    async with open_storage(settings, clock) as storage:
        service = service_over(storage, domains=("ours.test",), lifetime_seconds=1)
        smtp = SmtpServer(
            service,
            SmtpSettings(
                hostname="mx.ours.test",
                max_message_bytes=2**24,
                max_connections=0,
                max_connections_per_client=0,
                max_inflight_bytes=2**26,
            ),
            None,
            clock,
        )
        (listener,) = bind_all(["127.0.0.1:0"])
        await smtp.start([listener])
        with blockbuster_ctx("tmpmaild"):
            inbox, _ = await service.inboxes.create(NewAddress(), "192.0.2.1")
            for body in (b"small", b"large " * 100_000):
                replies = await send(listener.getsockname()[1], inbox.address, body)
                assert replies[-2].startswith(b"250 2.0.0 Ok: stored as msg_")
            assert len((await service.mail.list(inbox.address, Page())).messages) == 2
            clock.advance(seconds=2)
            await Cleaner(storage, interval_seconds=1).sweep()
        await smtp.stop(1)
