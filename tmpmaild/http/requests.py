"""Determines a request's client and token, and reads its body within memory and time limits."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from tmpmaild.errors import Unauthorized
from tmpmaild.http.problems import BadRequest

R = TypeVar("R")
MAX_BODY_BYTES = 64 * 1024
BODY_SECONDS = 10
"""Shortened by tests."""
_FREE_BODY_BYTES = 4 * 1024
_MAX_BODIES_BYTES = 16 * 1024 * 1024
_MAX_BODIES_BYTES_OF_CLIENT = 2 * 1024 * 1024


class Client(NamedTuple):
    """The client of a request: the name to which its limits apply, and whether the client is exempt from limits."""

    name: str
    exempt: bool
    ip: str = ""


def client(request: Request) -> Client:
    """Return the client of a request, as the middleware determined it."""
    found: Client = request.scope["tmpmaild.client"]
    return found


async def take_token(request: Request) -> bool:
    """Take another token from the client's bucket, in addition to the request's own token.

    Return False if the bucket is empty.
    """
    take: Callable[[], Awaitable[bool]] = request.scope["tmpmaild.take_token"]
    return await take()


def token(request: Request) -> str | None:
    """Return the bearer token (RFC 6750 §2.1), or None."""
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" and text.strip() else None


def required_token(request: Request) -> str:
    """Return the bearer token of a modifying request. Raises ``Unauthorized``."""
    found = token(request)
    if found is None:
        raise Unauthorized("every modification requires the token")
    return found


class BodyMemory:
    """Counts the bytes of request bodies that are still being received, except the first few KiB of each body."""

    def __init__(self) -> None:
        self._of_client: Counter[str] = Counter()
        self._all_bytes = 0

    def take(self, client: Client, more_bytes: int) -> None:
        """Add bytes. Raises ``BadRequest`` ("busy") if there would be too many bytes from this client or in total."""
        client_bytes = self._of_client[client.name] + more_bytes
        if self._all_bytes + more_bytes > _MAX_BODIES_BYTES or (
            client_bytes > _MAX_BODIES_BYTES_OF_CLIENT and not client.exempt
        ):
            raise BadRequest("busy", "Too many large request bodies are being received; send this request again.")
        self._of_client[client.name] = client_bytes
        self._all_bytes += more_bytes

    def release(self, client: Client, size_bytes: int) -> None:
        """Subtract bytes that were added."""
        self._all_bytes -= size_bytes
        self._of_client[client.name] -= size_bytes
        if not self._of_client[client.name]:
            del self._of_client[client.name]


async def read_body(request: Request) -> bytes:
    """Read a body of at most 64 KiB, within ten seconds. Raises ``BadRequest``."""
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise BadRequest("unsupported-media-type", "Send the request body without a Content-Encoding.")
    body = bytearray()
    memory: BodyMemory = request.scope["tmpmaild.bodies"]
    sender, taken_bytes = client(request), 0
    try:
        with anyio.fail_after(BODY_SECONDS):
            async for chunk in request.stream():
                if len(body) + len(chunk) > MAX_BODY_BYTES:
                    raise BadRequest("body-too-large")
                if len(body) + len(chunk) > _FREE_BODY_BYTES:
                    memory.take(sender, len(chunk))
                    taken_bytes += len(chunk)
                body += chunk
    except TimeoutError:
        raise BadRequest("request-timeout") from None
    except ClientDisconnect:
        raise BadRequest("malformed-request", "The body ended early.") from None
    finally:
        memory.release(sender, taken_bytes)
    return bytes(body)


async def until_disconnect(receive: Receive, work: Callable[[], Awaitable[R]]) -> R | None:
    """Return the result of ``work``, or cancel it and return None if the client disconnects."""
    outcome: list[R] = []
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_at_disconnect, receive, tasks.cancel_scope)
        try:
            outcome.append(await work())
        except Exception as error:  # noqa: BLE001 - a task group would wrap the exception
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return outcome[0] if outcome else None


async def _cancel_at_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # this part of the body is not needed
    scope.cancel()
