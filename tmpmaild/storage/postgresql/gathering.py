"""Puts questions together: those that come while one statement is under way are asked by the next one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from tmpmaild.errors import RequestError

Q = TypeVar("Q")
A = TypeVar("A")

_MOST: Final = 64


class Gatherer(Generic[Q, A]):
    """Calls ``ask`` with several questions, which returns the answers in order."""

    def __init__(self, ask: Callable[[Sequence[Q]], Awaitable[Sequence[A]]]) -> None:
        self._ask = ask
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._task: asyncio.Task[None] | None = None

    async def ask(self, question: Q) -> A:
        """Return the answer. Cancelling the caller does not affect others."""
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await future

    async def close(self) -> None:
        """Wait until all questions are answered."""
        if self._task is not None:
            await self._task

    async def _work(self) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
            try:
                answers = await self._ask([question for question, _ in asked])
            except Exception as error:  # noqa: BLE001 - those who asked fail with it, whatever it is
                _fail([future for _, future in asked], error)
                continue
            for (_, future), answer in zip(asked, answers, strict=True):
                if not future.done():
                    future.set_result(answer)


def _fail(futures: Sequence[asyncio.Future[A]], error: Exception) -> None:
    for future in futures:
        if not future.done():
            # One for each: a shared one, raised in several tasks, would collect all their tracebacks.
            future.set_exception(type(error)(*error.args) if isinstance(error, RequestError) else error)
