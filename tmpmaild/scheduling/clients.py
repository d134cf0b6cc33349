"""The client on whose behalf a task works, so that what it waits for can be charged to that client."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_client: ContextVar[str] = ContextVar("client", default="")


@contextmanager
def on_behalf_of(client: str) -> Iterator[None]:
    """Within this block, this task and the tasks that it starts work on behalf of a client."""
    token = _client.set(client)
    try:
        yield
    finally:
        _client.reset(token)


def current_client() -> str:
    """Return the client on whose behalf this task works; "" outside of ``on_behalf_of``."""
    return _client.get()
