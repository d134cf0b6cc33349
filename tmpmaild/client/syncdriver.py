# Made from aiodriver.py by tools/sync_client.py: change that one, then run `make client`.
"""The I/O for code without ``await``: sends what the core asks for over httpx2 and decides nothing itself."""

from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any, TypeVar

import httpx2

from tmpmaild.client import transport
from tmpmaild.client.errors import TmpmaildError
from tmpmaild.client.transport import Action, Ask, OpenStream, ReadStream, Reply, Request, Sleep, Steps

T = TypeVar("T")


class Driver:
    """Runs steps of the core; holds the one stream they may open."""

    def __init__(self, http: httpx2.Client, sleep: Callable[[float], None]) -> None:
        self._http = http
        self._sleep = sleep
        self._stream: httpx2.Response | None = None
        self._pieces: Generator[bytes, None, None] | None = None

    def for_stream(self) -> "Driver":
        """Return a driver for steps that open a stream."""
        return Driver(self._http, self._sleep)

    def run(self, steps: Steps[T]) -> T:
        """Carry out the steps and return their result."""
        try:
            action = next(steps)
            while True:
                try:
                    result = self._carry_out(action)
                except TmpmaildError as error:
                    action = steps.throw(error)
                else:
                    action = steps.send(result)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]

    def close(self) -> None:
        """Close the stream."""
        if self._pieces is not None:
            self._pieces.close()  # the garbage collector may do it too late
            self._pieces = None
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _carry_out(self, action: Action) -> Any:
        match action:
            case Ask(request):
                return self._ask(request)
            case OpenStream(request):
                return self._open(request)
            case ReadStream(request):
                return self._read(request)
            case Sleep(seconds):
                return self._sleep(seconds)

    def _ask(self, request: Request) -> Reply:
        try:
            response = self._send(request)
            with closing(response):
                return transport.reply(request, response, response.read())
        except transport.HTTP_ERRORS as error:
            raise transport.translated(request, error) from error

    def _open(self, request: Request) -> Reply:
        self.close()
        try:
            response = self._stream = self._send(request)
            if response.status_code == httpx2.codes.OK:
                self._pieces = transport.pieces(response)
                return transport.reply(request, response, b"")
            return transport.reply(request, response, response.read())
        except transport.HTTP_ERRORS as error:
            raise transport.translated(request, error) from error

    def _read(self, request: Request) -> bytes:
        try:
            assert self._pieces is not None
            return next(self._pieces, b"")
        except transport.HTTP_ERRORS as error:
            raise transport.translated(request, error) from error

    def _send(self, request: Request) -> httpx2.Response:
        prepared = self._http.build_request(**transport.arguments(request))
        return self._http.send(prepared, stream=True, follow_redirects=False)
