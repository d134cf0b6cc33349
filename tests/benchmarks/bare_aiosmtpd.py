"""The baseline for SMTP: unmodified aiosmtpd under uvloop, storing nothing."""

import asyncio
import logging
import socket

import uvloop
from aiosmtpd.smtp import SMTP


class Sink:
    async def handle_DATA(self, server, session, envelope):
        return "250 OK"


async def main():
    loop = asyncio.get_running_loop()
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    await loop.create_server(lambda: SMTP(Sink(), hostname="bare", loop=loop), sock=listener)
    print(listener.getsockname()[1], flush=True)
    await asyncio.Event().wait()


logging.getLogger("mail.log").setLevel(logging.WARNING)
uvloop.run(main())
