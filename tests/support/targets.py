"""A webhook target on loopback in its own thread, for daemons in other processes."""

import http.server
import json
import threading
from typing import NamedTuple


class Told(NamedTuple):
    """A request and the status of the response."""

    path: str
    fields: dict
    document: dict
    status: int


def first_call_fails(chance, share=0.1):
    """Return a ``status`` function that fails some events, but only once, because a second retry takes minutes."""
    seen = set()

    def status(event_id):
        is_new = event_id not in seen
        seen.add(event_id)
        return 500 if is_new and chance.random() < share else 204

    return status


class Target:
    """The calls that a target has received; ``status`` takes an event's id and returns the response's status."""

    def __init__(self, status=lambda _: 204):
        self.told, self.status = [], status
        target = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers["Content-Length"])
                body = self.rfile.read(length)
                if len(body) < length:  # the caller disconnected early
                    self.close_connection = True
                    return
                status = target.status(self.headers["webhook-id"])
                target.told.append(Told(self.path, dict(self.headers), json.loads(body), status))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def taken(self):
        """The requests with a successful response."""
        return [one for one in self.told if one.status < 300]

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def inbox(self, daemon, **webhook):
        """Create an address with a webhook to this target; return the response."""
        webhook = {"url": f"http://127.0.0.1:{self.port}/in", **webhook}
        made = daemon.request("/api/v1/addresses", "POST", {"webhook": webhook})
        assert made.status == 201, made.json
        return made.json
