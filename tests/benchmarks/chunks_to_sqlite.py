"""The yardstick for large mail: aiosmtpd under uvloop, DATA read by the chunk, each mail a row with a commit and fsync."""

import asyncio
import logging
import os
import socket
import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor

import uvloop
from aiosmtpd.smtp import SMTP

writer = ThreadPoolExecutor(1)


class Chunked(SMTP):
    async def smtp_DATA(self, arg):
        await self.push("354 go on")
        chunks, tail = [], b"\r\n"
        while not tail.endswith(b"\r\n.\r\n"):
            chunk = await self._reader.read(65536)
            if not chunk:
                return
            chunks.append(chunk)
            tail = (tail + chunk)[-5:]
        await asyncio.get_running_loop().run_in_executor(writer, store, b"".join(chunks))
        self._set_post_data_state()
        await self.push("250 OK")


def store(mail):
    connection.execute("INSERT INTO mail VALUES (?)", (mail,))


async def main():
    loop = asyncio.get_running_loop()
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    await loop.create_server(lambda: Chunked(object(), hostname="bare", loop=loop), sock=listener)
    print(listener.getsockname()[1], flush=True)
    await asyncio.Event().wait()


logging.getLogger("mail.log").setLevel(logging.WARNING)
with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
    connection = sqlite3.connect(f"{folder}/mail.db", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE mail (source BLOB)")
    uvloop.run(main())
