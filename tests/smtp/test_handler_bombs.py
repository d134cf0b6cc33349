"""Mails made to overload their reader keep nobody from speaking; what they cost is in ``tests/mail/test_mime.py``."""

import asyncio

MIXED = "Content-Type: multipart/mixed; boundary=x\r\n\r\n"


async def test_bombs_at_once_keep_nobody_from_speaking(serve):
    async with serve() as house:
        clients = [await house.at_data() for _ in range(4)]
        other = await house.greeted()
        for client in clients:
            client.write((MIXED + "--x\r\n\r\na\r\n" * 100_000).encode() + b".\r\n")
        answers = [asyncio.ensure_future(client.reply()) for client in clients]
        answered = 0
        while not all(answer.done() for answer in answers):
            assert await other.say("NOOP") == ["250 2.0.0 Ok"]
            answered += 1
        assert answered > 20  # of several hundred; were a bomb read in the loop, there would be one or two between them
        assert all(answer.result().startswith("250 2.0.0 Ok: stored as ") for answer in answers)
