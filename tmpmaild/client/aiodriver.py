"""The I/O for code with ``await``: sends what the core asks for over httpx2 and decides nothing itself."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import httpx2

from tmpmaild.client import transport
from tmpmaild.client.errors import TmpmaildError
from tmpmaild.client.transport import Action, Ask, OpenStream, ReadStream, Reply, Request, Sleep, Steps

T = TypeVar("T")


class Driver:
    """Runs steps of the core; holds the one stream they may open."""

    def __init__(self, http: httpx2.AsyncClient, sleep: Callable[[float], Awaitable[None]]) -> None:
        self._http = http
        self._sleep = sleep
        self._stream: httpx2.Response | None = None
        self._pieces: AsyncGenerator[bytes, None] | None = None

    def for_stream(self) -> "Driver":
        """Return a driver for steps that open a stream."""
        return Driver(self._http, self._sleep)

    async def run(self, steps: Steps[T]) -> T:
        """Carry out the steps and return their result."""
        try:
            action = next(steps)
            while True:
                try:
                    result = await self._carry_out(action)
                except TmpmaildError as error:
                    action = steps.throw(error)
                else:
                    action = steps.send(result)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """Close the stream."""
        if self._pieces is not None:
            await self._pieces.aclose()  # the garbage collector may do it too late
            self._pieces = None
        if self._stream is not None:
            await self._stream.aclose()
            self._stream = None

    async def _carry_out(self, action: Action) -> Any:
        match action:
            case Ask(request):
                return await self._ask(request)
            case OpenStream(request):
                return await self._open(request)
            case ReadStream(request):
                return await self._read(request)
            case Sleep(seconds):
                return await self._sleep(seconds)

    async def _ask(self, request: Request) -> Reply:
        try:
            response = await self._send(request)
            async with aclosing(response):
                return transport.reply(request, response, await response.aread())
        except transport.HTTP_ERRORS as error:
            raise transport.translated(request, error) from error

    async def _open(self, request: Request) -> Reply:
        await self.aclose()
        try:
            response = self._stream = await self._send(request)
            if response.status_code == httpx2.codes.OK:
                self._pieces = transport.async_pieces(response)
                return transport.reply(request, response, b"")
            return transport.reply(request, response, await response.aread())
        except transport.HTTP_ERRORS as error:
            raise transport.translated(request, error) from error

    async def _read(self, request: Request) -> bytes:
        try:
            assert self._pieces is not None
            return await anext(self._pieces, b"")
        except transport.HTTP_ERRORS as error:
            raise transport.translated(request, error) from error

    async def _send(self, request: Request) -> httpx2.Response:
        prepared = self._http.build_request(**transport.arguments(request))
        return await self._http.send(prepared, stream=True, follow_redirects=False)
