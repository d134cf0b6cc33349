"""What a fault that was ordered does to a delivery: a delay that ends with the session, then a reply."""

import asyncio

from tmpmaild.inboxes.faults import Fault
from tmpmaild.smtp import replies
from tmpmaild.smtp.replies import Reply


class Delay:
    """The delay of one transaction; there is at most one at a time."""

    def __init__(self) -> None:
        self._ended: asyncio.Future[Reply] | None = None

    async def wait(self, seconds: float) -> Reply | None:
        """Return None after so many seconds, or the reply with which ``end`` was called before."""
        self._ended = asyncio.get_running_loop().create_future()
        try:
            return await asyncio.wait_for(self._ended, seconds)
        except TimeoutError:
            return None
        finally:
            self._ended = None

    def end(self, reply: Reply) -> None:
        """End the delay, if there is one, with a reply that is sent if the client still reads."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(reply)


async def suffer(fault: Fault | None, delay: Delay) -> Reply | None:
    """Wait as long as the fault says; return its reply, None where the delivery goes on."""
    if fault is None:
        return None
    ended = await delay.wait(fault.delay_seconds) if fault.delay_seconds else None
    if ended is not None or fault.reply is None:
        return ended
    return replies.ordered(fault.reply)
