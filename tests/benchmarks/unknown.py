"""What a crowd costs that names addresses which are gone: the CPU of a refusal, and what mail has to wait for it."""

import asyncio
import itertools
import statistics
import time

from servers import BareAiosmtpd, Tmpmaild

CONNECTIONS = 16
REFUSALS = 16_000
RECIPIENTS_PER_CONNECTION = 80  # the service closes after a hundred
ROUNDS = 5
MAILS_PER_SECOND = 100
REFUSALS_PER_SECOND = 900
SECONDS = 5
TARGETS = {"refusal": 0.8, "p99": 2}

_names = itertools.count(1)


class Client:
    """An SMTP client that waits for each reply."""

    @classmethod
    async def connect(cls, server):
        client = cls()
        client.reader, client.writer = await asyncio.open_connection("127.0.0.1", int(server.smtp_port))
        await client.reader.readline()
        await client.say("EHLO bench")
        return client

    async def say(self, command):
        self.writer.write(command.encode() + b"\r\n")
        while (line := await self.reader.readline())[3:4] == b"-":
            pass
        return line[:3]

    async def refused(self):
        address = f"gone{next(_names):x}@mail.example.com"
        assert await self.say(f"RCPT TO:<{address}>") == b"550"

    async def close(self):
        await self.say("QUIT")
        self.writer.close()


async def name_the_unknown(server, count):
    """Name so many addresses on some connections at once, each closed before it has named too many."""

    async def one_client(of_client):
        for start in range(0, of_client, RECIPIENTS_PER_CONNECTION):
            client = await Client.connect(server)
            await client.say("MAIL FROM:<a@example.org>")
            for _ in range(min(RECIPIENTS_PER_CONNECTION, of_client - start)):
                await client.refused()
            await client.close()

    await asyncio.gather(*[one_client(count // CONNECTIONS) for _ in range(CONNECTIONS)])


def cpu_per_refusal(server):
    before = server.cpu_seconds()
    asyncio.run(name_the_unknown(server, REFUSALS))
    return (server.cpu_seconds() - before) / REFUSALS


async def paced(per_second, act):
    """Act so many times a second, also while earlier acts are not done."""
    begun, tasks = time.perf_counter(), []
    for number in range(per_second * SECONDS):
        await asyncio.sleep(begun + number / per_second - time.perf_counter())
        tasks.append(asyncio.create_task(act()))
    await asyncio.gather(*tasks)


async def seconds_of_mails(server, *, crowd):
    """Return how long each mail took from MAIL to its 250, alone or with nine refusals for each."""
    seconds = []
    idle = [await Client.connect(server) for _ in range(64)]

    async def mail():
        client = idle.pop()
        begun = time.perf_counter()
        for command in ("MAIL FROM:<a@example.org>", f"RCPT TO:<{server.recipient}>", "DATA"):
            await client.say(command)
        assert await client.say("Subject: x\r\n\r\n" + "x" * 2048 + "\r\n.") == b"250"
        seconds.append(time.perf_counter() - begun)
        idle.append(client)

    together = [paced(MAILS_PER_SECOND, mail)]
    if crowd:
        together.append(name_at_a_pace(server))
    await asyncio.gather(*together)
    for client in idle:
        await client.close()
    return seconds


async def name_at_a_pace(server):
    clients = [await Client.connect(server) for _ in range(CONNECTIONS)]
    for client in clients:
        await client.say("MAIL FROM:<a@example.org>")
    named = [0] * CONNECTIONS
    turns = asyncio.Queue()
    for place in range(CONNECTIONS):
        turns.put_nowait(place)

    async def name():
        place = await turns.get()
        if named[place] == RECIPIENTS_PER_CONNECTION:
            await clients[place].close()
            clients[place], named[place] = await Client.connect(server), 0
            await clients[place].say("MAIL FROM:<a@example.org>")
        named[place] += 1
        await clients[place].refused()
        turns.put_nowait(place)

    await paced(REFUSALS_PER_SECOND, name)
    for client in clients:
        await client.close()


def p99_ms(server, *, crowd):
    return statistics.quantiles(asyncio.run(seconds_of_mails(server, crowd=crowd)), n=100)[98] * 1000


def speak_of_the_unknown(folder):
    limits = {"TMPMAILD_SMTP__MAX_CONNECTIONS": "0"}
    with Tmpmaild(folder / "unknown", **limits) as ours, BareAiosmtpd(refuses=True) as yardstick:
        asyncio.run(name_the_unknown(ours, REFUSALS))
        before_mib = ours.resident_mib()
        pairs = [(cpu_per_refusal(ours), cpu_per_refusal(yardstick)) for _ in range(ROUNDS)]
        more_mib = ours.resident_mib() - before_mib
        alone, crowded = (
            statistics.median(p99_ms(ours, crowd=crowd) for _ in range(ROUNDS)) for crowd in (False, True)
        )
    mine, theirs = (statistics.median(column) * 1e6 for column in zip(*pairs, strict=True))
    ratio = statistics.median(ours / bare for ours, bare in pairs)
    print(
        f"CPU a refused recipient / bare aiosmtpd: {ratio:.2f} × ({mine:.0f} against {theirs:.0f} µs; "
        f"wanted at most {TARGETS['refusal']} ×); {ROUNDS * REFUSALS:,} of them took {more_mib:.1f} MiB",
        flush=True,
    )
    print(
        f"mail among nine refusals each, p99: {crowded:.1f} ms, alone {alone:.1f} ms: {crowded / alone:.2f} × "
        f"(wanted at most {TARGETS['p99']} ×)",
        flush=True,
    )
