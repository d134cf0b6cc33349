"""A reverse proxy that forwards requests, except for some paths to which it responds itself or does not respond."""

import http.client
import threading
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from patience import PATIENCE_SECONDS

HELD = None
"""The answer for a path whose response is held back."""


class Proxy:
    """``answers`` maps the last part of a path to a response (status, headers, body), and ``delays`` to seconds.

    ``headers`` are added to the service's own responses; ``asked`` lists the requested paths.
    """

    def __init__(self, service):
        self.answers, self.asked, self.delays, self.headers = {}, [], {}, {}
        self._ended = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, urlsplit(service).netloc))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer_to(self, path):
        """Return a response to send instead of the service's response, or False to forward the request."""
        name = urlsplit(path).path.rpartition("/")[2]
        self.asked.append(name)
        self._ended.wait(self.delays.get(name, 0))
        answer = self.answers.get(name, False)
        if answer is HELD:
            self._ended.wait(PATIENCE_SECONDS)
        return answer

    def close(self):
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()


def _handler(proxy, service):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = proxy.answer_to(self.path)
            if answer is HELD:
                self.close_connection = True
                return
            with suppress(OSError, ValueError, http.client.HTTPException):
                self._say(*(answer or self._passed_on(body)))

        def _passed_on(self, body):
            with closing(http.client.HTTPConnection(service, timeout=PATIENCE_SECONDS)) as connection:
                connection.request(self.command, self.path, body, dict(self.headers.items()))
                with connection.getresponse() as answer:
                    return answer.status, {**dict(answer.getheaders()), **proxy.headers}, answer.read()

        def _say(self, status, headers, octets):
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(octets)))
            self.end_headers()
            self.wfile.write(octets)

        def log_message(self, *_):
            pass

    for method in ("GET", "POST", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler._answer)
    return Handler
