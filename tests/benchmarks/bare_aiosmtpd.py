"""The yardstick for SMTP: aiosmtpd as it comes, under uvloop, storing nothing."""

import asyncio
import logging
import socket
import sys

import uvloop
from aiosmtpd.smtp import SMTP


class Sink:
    async def handle_DATA(self, server, session, envelope):
        return "250 OK"


class Refuser(Sink):
    async def handle_RCPT(self, server, session, envelope, address, rcpt_options):
        return "550 5.1.1 No such address here"


async def main():
    loop = asyncio.get_running_loop()
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    handler = Refuser() if "refuses" in sys.argv else Sink()
    await loop.create_server(lambda: SMTP(handler, hostname="bare", loop=loop), sock=listener)
    print(listener.getsockname()[1], flush=True)
    await asyncio.Event().wait()


logging.getLogger("mail.log").setLevel(logging.WARNING)
uvloop.run(main())
