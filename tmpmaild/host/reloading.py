"""Reloads the configuration when SIGHUP or a command asks for it: one reload at a time, and its outcome in the log.

What a reload changes is in ``daemon.py``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from msgspec import Struct

from tmpmaild.commands import Answer, Command, NoArguments
from tmpmaild.errors import RequestError, StartError

_PAUSE_SECONDS = 0.5

log = logging.getLogger(__name__)


class Reloaded(Struct, frozen=True):
    """The answer to the command ``reload``."""

    needs_restart: list[str]


class Outcome(NamedTuple):
    """What is served after a reload, as text, and the keys that were changed and need a restart."""

    served: str
    needs_restart: list[str]


class Reloading:
    """Calls ``reload``, which raises ``StartError`` or ``RequestError`` when everything stays as it was."""

    def __init__(self, reload: Callable[[], Awaitable[Outcome]]) -> None:
        self._reload = reload
        self._turn = asyncio.Lock()
        self._count = 0

    def commands(self) -> dict[str, Command]:
        """Return the commands to the running service by their names."""
        return {"reload": Command(NoArguments, self._answer)}

    async def reload_when(self, wanted: asyncio.Event) -> None:
        """Reload whenever it is wanted: one reload answers all signals that came before it began."""
        while True:
            await wanted.wait()
            wanted.clear()
            try:
                await self._logged()
            except (StartError, RequestError):
                pass  # it is in the log
            except Exception:
                log.exception("reloading failed")
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _answer(self, _: NoArguments) -> Answer:
        yield Reloaded(await self._logged())

    async def _logged(self) -> list[str]:
        self._count += 1  # for the log: no reload is a repetition of another
        about = self._count
        try:
            async with self._turn:
                outcome = await self._reload()
        except (StartError, RequestError) as error:
            for line in str(error).splitlines():
                log.error(  # noqa: TRY400 - the operator's mistake
                    "the configuration stays as it was: %s", line, extra={"about": (about, line)}
                )
            raise
        log.info("reloaded: %s", outcome.served, extra={"about": about})
        if outcome.needs_restart:
            keys = ", ".join(outcome.needs_restart)
            log.warning("changed, and needs a restart: %s", keys, extra={"about": about})
        return outcome.needs_restart
