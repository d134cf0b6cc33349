"""``tmpmaild doctor --dns``: checks the site of ``http.public_url`` on real servers on this machine."""

import datetime as dt
import socket
import ssl
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import certificates
from tmpmaild.cli.doctor import site

YESTERDAY = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)


class Proxy(BaseHTTPRequestHandler):
    """A proxy that forwards no requests, but responds with a status that depends on the path."""

    def do_GET(self):
        self.send_response({"/healthz": 200, "/below/healthz": 200}.get(self.path, 502))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *_):
        """Ignore clients that abort a handshake."""


@contextmanager
def serving(context):
    """Run a server that uses TLS if there is a context, and yield its port."""
    with Server(("127.0.0.1", 0), Proxy) as server:
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def with_certificate(folder, name, **options):
    certificates.make(folder, name, **options)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


@pytest.fixture
def found(tmp_path, monkeypatch):
    """Return a function that checks a path on localhost; the issuer of the server's certificate is trusted."""

    def found(path="", name="localhost", **options):
        context = with_certificate(tmp_path, name, **options)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        with serving(context) as port:
            (result,) = site.check(f"https://localhost:{port}{path}")
        return result

    return found


@pytest.mark.parametrize("path", ["", "/below"])
def test_a_site_with_a_certificate_is_fine(found, path):
    result = found(path)
    assert (result.check, result.level) == ("site", "ok")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": "/elsewhere"}, "/elsewhere/healthz returns status 502"),
        ({"name": "tmp.example.org"}, "browsers reject its certificate: Hostname mismatch"),
        ({"not_after": YESTERDAY}, "browsers reject its certificate: certificate has expired"),
    ],
)
def test_a_certificate_that_browsers_refuse_and_a_proxy_that_forwards_no_requests_are_problems(found, options, said):
    result = found(**options)
    assert (result.level, said in result.text) == ("problem", True)


def test_an_untrusted_certificate_is_a_problem(tmp_path):
    with serving(with_certificate(tmp_path, "localhost")) as port:
        (found,) = site.check(f"https://localhost:{port}")
    assert (found.level, "browsers reject its certificate" in found.text) == ("problem", True)


def test_a_site_without_tls_is_a_problem_unless_none_is_needed():
    with serving(None) as port:
        (found,) = site.check(f"https://localhost:{port}")
        assert (found.level, "the TLS handshake fails" in found.text) == ("problem", True)
        assert [*site.check(f"http://localhost:{port}"), *site.check("")] == []


def test_a_site_that_cannot_be_reached_from_here_is_a_warning():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    (found,) = site.check(f"https://127.0.0.1:{port}")
    assert (found.level, "Connection refused" in found.text) == ("warning", True)


def test_a_server_that_never_responds_delays_the_command_only_for_the_given_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (found,) = site.check(f"https://127.0.0.1:{silent.getsockname()[1]}", seconds=0.1)
    assert (found.level, "no response in time" in found.text) == ("warning", True)
