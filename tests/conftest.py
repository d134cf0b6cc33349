"""What every test may use: both event loops, a clock that stands still until it is moved."""

import pytest

LOOPS = [
    pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
    pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
]


@pytest.fixture(params=LOOPS)
def anyio_backend(request):
    return request.param


class Clock:
    """Unix milliseconds that pass only when told to."""

    def __init__(self, now_ms: int = 1_790_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, *, ms: int = 0, seconds: int = 0) -> None:
        self.now_ms += ms + seconds * 1000


@pytest.fixture
def clock():
    return Clock()
