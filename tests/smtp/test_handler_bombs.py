"""Messages that overload a parser do not delay other sessions; ``tests/mail/test_mime.py`` measures their cost."""

import asyncio

MIXED = "Content-Type: multipart/mixed; boundary=x\r\n\r\n"


async def test_simultaneous_bombs_do_not_block_other_clients(serve):
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
        # Several hundred replies are usual. If bombs were parsed in the event loop, there would be only one or two.
        assert answered > 20
        assert all(answer.result().startswith("250 2.0.0 Ok: stored as ") for answer in answers)
