"""The client on whose behalf a task works. The resources that the task waits for are charged to this client."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_client: ContextVar[str] = ContextVar("client", default="")


@contextmanager
def on_behalf_of(client: str) -> Iterator[None]:
    """Set the client for this task, and for the tasks that it starts, until the block ends."""
    token = _client.set(client)
    try:
        yield
    finally:
        _client.reset(token)


def current_client() -> str:
    """Return the client on whose behalf this task works; "" outside ``on_behalf_of``."""
    return _client.get()
