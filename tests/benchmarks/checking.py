"""What checking senders costs those who deliver, at its worst: mail at full speed, and a resolver that never answers."""

import asyncio
import os
import socket
import statistics
import time

from servers import MAIL_BYTES, Tmpmaild, compared

MAILS = int(os.environ.get("MAILS", "40000"))
ROUNDS = 20
SENDERS = 16
WANTED = {"p99": 1.1, "mib": 10}
MAIL = b"From: Shop <a@shop%d.example>\r\nSubject: x\r\n\r\n" + b"x" * MAIL_BYTES + b"\r\n.\r\n"


def speak_of_senders(folder):
    """Deliver to a daemon that checks and to one that does not, in turns."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as dead:
        dead.bind(("127.0.0.1", 0))
        resolver = f"127.0.0.1:{dead.getsockname()[1]}"
        with (
            Tmpmaild(folder / "checking", TMPMAILD_SENDERS__RESOLVER=resolver) as checking,
            Tmpmaild(folder / "not-checking") as other,
        ):
            for server in (checking, other):
                asyncio.run(_seconds(server))
            before = [server.resident_mib() for server in (checking, other)]
            pairs = [(_p99_ms(checking), _p99_ms(other)) for _ in range(ROUNDS)]
            more, as_much = (server.resident_mib() - mib for server, mib in zip((checking, other), before, strict=True))
    ratios, mine, theirs = compared(pairs)
    print(
        f"p99 of the 250, dead resolver / senders off    {ratios}; {mine:.1f} against {theirs:.1f} ms; wanted {WANTED['p99']} ×)",
        flush=True,
    )
    print(
        f"memory after {MAILS:,} mails: {more:.1f} MiB more than after {MAILS // ROUNDS:,} with a dead resolver, "
        f"{as_much:.1f} with senders off (wanted at most {WANTED['mib']} between the two)",
        flush=True,
    )


def _p99_ms(server):
    return statistics.quantiles(asyncio.run(_seconds(server)), n=100)[-1] * 1000


async def _seconds(server):
    """Return the time from the dot to the 250 of each mail of a round."""
    counts = [MAILS // ROUNDS // SENDERS] * SENDERS
    return [one for found in await asyncio.gather(*(_sender(server, count) for count in counts)) for one in found]


async def _sender(server, count):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.smtp_port)
    await reader.readline()

    async def say(octets, code):
        writer.write(octets)
        assert (await reader.readline()).startswith(code)

    await say(b"HELO localhost\r\n", b"250")
    found = []
    for number in range(count):
        await say(b"MAIL FROM:<a@shop%d.example>\r\n" % number, b"250")
        await say(f"RCPT TO:<{server.recipient}>\r\n".encode(), b"250")
        await say(b"DATA\r\n", b"354")
        began = time.perf_counter()
        await say(MAIL % number, b"250")
        found.append(time.perf_counter() - began)
    writer.close()
    return found
