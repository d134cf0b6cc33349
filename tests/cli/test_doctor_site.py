"""``tmpmaild doctor --dns``: the site of ``http.public_url``, against real servers on this machine."""

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
    """Passes on nothing, but has statuses by path."""

    def do_GET(self):
        self.send_response({"/healthz": 200, "/below/healthz": 200}.get(self.path, 502))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, *_):
        """Say nothing of clients that end a handshake."""


@contextmanager
def serving(context):
    """Run a server, with TLS if there is a context; yields its port."""
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
    """Return a function that checks a path of localhost, with a certificate of an authority that this machine knows."""

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
        ({"path": "/elsewhere"}, "/elsewhere/healthz has the status 502"),
        ({"name": "tmp.example.org"}, "browsers refuse its certificate: Hostname mismatch"),
        ({"not_after": YESTERDAY}, "browsers refuse its certificate: certificate has expired"),
    ],
)
def test_a_certificate_that_browsers_refuse_and_a_proxy_that_passes_nothing_on_are_problems(found, options, said):
    result = found(**options)
    assert (result.level, said in result.text) == ("problem", True)


def test_a_certificate_of_an_authority_that_nobody_knows_is_a_problem(tmp_path):
    with serving(with_certificate(tmp_path, "localhost")) as port:
        (found,) = site.check(f"https://localhost:{port}")
    assert (found.level, "browsers refuse its certificate" in found.text) == ("problem", True)


def test_a_site_without_tls_is_a_problem_and_one_that_needs_none_is_not_asked():
    with serving(None) as port:
        (found,) = site.check(f"https://localhost:{port}")
        assert (found.level, "does not speak TLS" in found.text) == ("problem", True)
        assert [*site.check(f"http://localhost:{port}"), *site.check("")] == []


def test_a_site_that_cannot_be_reached_from_here_is_a_warning():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    (found,) = site.check(f"https://127.0.0.1:{port}")
    assert (found.level, "Connection refused" in found.text) == ("warning", True)


def test_a_server_that_accepts_and_says_nothing_holds_the_command_no_longer_than_given():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (found,) = site.check(f"https://127.0.0.1:{silent.getsockname()[1]}", seconds=0.1)
    assert (found.level, "no answer in time" in found.text) == ("warning", True)
