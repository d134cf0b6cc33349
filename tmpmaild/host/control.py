"""The control socket: takes an operator's commands from other processes, one on each connection.

A request is one line of JSON, ``{"command": "status", "arguments": {}}``. The answer is lines of JSON, each an object;
one with ``octets`` is followed by that many raw octets. The last line is ``{"done": true}`` or ``{"error": "…"}``.
Where the socket is: ``controlsocket.py``. What the commands do is decided by who gives them to the server.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping
from contextlib import aclosing

import msgspec
from msgspec import Raw, Struct

from tmpmaild import __version__
from tmpmaild.commands import Command
from tmpmaild.errors import CommandError, RequestError, StartError
from tmpmaild.host import controlsocket

MAX_REQUEST_BYTES = 64 * 1024
_MAX_CONNECTIONS = 16
_REQUEST_SECONDS = 10.0
_DRAIN_SECONDS = 600.0  # a person may be reading a list in a pager

log = logging.getLogger(__name__)


class _Request(Struct, forbid_unknown_fields=True):
    command: str
    arguments: Raw = Raw(b"{}")


class _Done(Struct):
    done: bool = True


class _Failed(Struct):
    error: str


class ControlServer:
    """Answers on the control socket; only processes of root and of our own user are answered."""

    def __init__(self, commands: Mapping[str, Command], *, drain_seconds: float = _DRAIN_SECONDS) -> None:
        self._commands = commands
        self._drain_seconds = drain_seconds
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, listener: socket.socket | None) -> None:
        """Accept connections on a socket that is bound already; None: nowhere."""
        if listener is not None:
            self._server = await asyncio.start_unix_server(self._accept, sock=listener, limit=MAX_REQUEST_BYTES)

    async def stop(self) -> None:
        """Accept no connections, and end the commands that are being done."""
        if self._server is not None:
            self._server.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # a transport ends in the next turn of the loop

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Not in the task: one that is cancelled before it begins does nothing at all.
        task.add_done_callback(lambda _: _close(writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(0)  # so that drain waits until the client has all, the end included
        try:
            await self._answer(reader, writer)
        except (ConnectionError, TimeoutError):
            log.debug("a client of the control socket has gone")

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self._admit(writer)
            command, arguments = await self._read(reader)
            async with aclosing(command.answer(arguments)) as answer:
                async for part in answer:
                    await self._write(writer, part)
            last: Struct = _Done()
        except (CommandError, StartError, RequestError) as error:
            last = _Failed(str(error))
        except (ConnectionError, TimeoutError):
            raise
        except Exception:
            log.exception("a command on the control socket failed")
            last = _Failed("a fault of the service; its log has the cause")
        await self._write(writer, last)

    def _admit(self, writer: asyncio.StreamWriter) -> None:
        uid = controlsocket.peer(writer.get_extra_info("socket")).uid
        if uid not in (0, os.geteuid()):
            log.warning("control socket: user %d refused", uid)
            raise CommandError(f"commands are taken from root and from user {os.geteuid()}, not from user {uid}")
        if len(self._tasks) > _MAX_CONNECTIONS:
            raise CommandError(f"{_MAX_CONNECTIONS} commands are being done; try again later")

    async def _read(self, reader: asyncio.StreamReader) -> tuple[Command, Struct]:
        """Read a request; return the command and its arguments."""
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("no request") from error
        except asyncio.LimitOverrunError as error:
            raise CommandError(f"a request is one line of at most {MAX_REQUEST_BYTES} octets") from error
        try:
            request = msgspec.json.decode(line, type=_Request)
            command = self._commands.get(request.command)
            if command is None:
                raise CommandError(f"this service is tmpmaild {__version__}, which does not know this command")
            return command, msgspec.json.decode(request.arguments, type=command.arguments)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CommandError(f"a request of another version than tmpmaild {__version__}? {error}") from error

    async def _write(self, writer: asyncio.StreamWriter, part: Struct | bytes) -> None:
        writer.write(part if isinstance(part, bytes) else msgspec.json.encode(part) + b"\n")
        async with asyncio.timeout(self._drain_seconds):
            await writer.drain()


def _close(writer: asyncio.StreamWriter) -> None:
    if writer.transport.get_write_buffer_size():
        writer.transport.abort()  # the client has not read for too long, or the service stops
    else:
        writer.close()
