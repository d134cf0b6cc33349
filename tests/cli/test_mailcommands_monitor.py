"""What a person is told of the connection, and how often."""

import httpx2

from tmpmaild.cli.mailcommands import ConnectionMonitor

STREAM = httpx2.Response(200, headers={"Content-Type": "text/event-stream; charset=utf-8"})
REFUSAL = httpx2.Response(429, headers={"Content-Type": "application/problem+json"})


async def told(*happened):
    """Return what is said while streams open (``STREAM``), answers come, and pauses (``None``) are made."""
    notes = []
    monitor = ConnectionMonitor(notes.append)
    for response in happened:
        await (monitor.pause(0) if response is None else monitor.answered(response))
    return notes


async def test_a_long_outage_is_told_once(anyio_backend):
    assert await told(STREAM, None, None, None, STREAM) == ["connection lost, reconnecting", "connected again"]


async def test_a_proxy_that_cuts_again_and_again_is_told_once(anyio_backend):
    assert await told(STREAM, None, STREAM, None, STREAM, None, STREAM) == [
        "connection lost, reconnecting",
        "connected again",
    ]


async def test_a_later_outage_is_told_when_one_attempt_does_not_mend_it(anyio_backend):
    assert len(await told(STREAM, None, STREAM, None, None, None, STREAM)) == 4


async def test_a_pause_for_the_rate_limit_is_told_as_what_it_is(anyio_backend):
    assert await told(REFUSAL, None, STREAM) == ["too many requests for the service; trying again in 0 s"]
