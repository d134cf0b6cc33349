"""An HTTP server that sends a test's own responses."""

import json
import socketserver
import threading
from itertools import takewhile


class Asked:
    """A request as the server received it."""

    def __init__(self, stream):
        head = b"".join(takewhile(bytes.strip, iter(stream.readline, b"")))
        first, *lines = head.decode("latin-1").splitlines()
        self.method, self.target, _ = first.split(" ")
        self.path, _, query = self.target.partition("?")
        self.query = dict(pair.split("=", 1) for pair in query.split("&") if pair)
        self.headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        self.body = stream.read(int(self.headers.get("content-length", 0)))


class Scripted:
    """A server that sends the bytes that ``answer`` returns for each request, and then closes the connection."""

    def __init__(self):
        self.asked = []
        self.answer = None
        script = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                asked = Asked(self.rfile)
                script.asked.append(asked)
                self.wfile.write(script.answer(asked))

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.005,))
        self._thread.start()

    def say(self, *answers):
        """Send these responses one after the other, then keep sending the last response."""
        left = list(answers)
        self.answer = lambda _asked: left.pop(0) if len(left) > 1 else left[0]

    @staticmethod
    def json(body, *headers, status="200 OK", kind="application/json"):
        head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", "Connection: close"]
        return "\r\n".join([*head, *headers, "", ""]).encode() + body

    @classmethod
    def problem(cls, status, code, *headers, members=b""):
        body = b'{"status": %d, "code": "%s", "detail": "No."%s}' % (status, code.encode(), members)
        return cls.json(body, *headers, status=f"{status} No", kind="application/problem+json")

    @classmethod
    def gateway(cls, status=504):
        return cls.json(b"<html>Gateway Time-out</html>", status=f"{status} Gateway", kind="text/html")

    @classmethod
    def messages(cls, *ids, headers=(), **members):
        given = [{"id": one, "received_at": "2026-11-21T03:00:00.000Z", **members} for one in ids]
        return cls.json(json.dumps({"messages": given}).encode(), *headers)

    @classmethod
    def address(cls, **members):
        return cls.json(json.dumps({"address": "x@a.test", "expires_at": "2026-11-21T04:00:00Z", **members}).encode())

    def close(self):
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()
