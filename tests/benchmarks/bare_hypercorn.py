"""The baseline for HTTP: unmodified Hypercorn under uvloop, with a minimal ASGI function."""

import asyncio
import socket

import uvloop
from hypercorn.asyncio import serve
from hypercorn.config import Config


async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


async def main():
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.accesslog = None
    config.loglevel = "WARNING"
    with socket.socket(fileno=int(config.bind[0][5:])) as bound:
        print(bound.getsockname()[1], flush=True)
        bound.detach()
    await serve(app, config, shutdown_trigger=asyncio.Event().wait)


uvloop.run(main())
