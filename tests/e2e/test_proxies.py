"""The proxy configurations in docs/proxy, unchanged except for ports and certificates, in front of a real daemon."""

import contextlib
import http.client
import json
import re
import signal
import socket
import ssl
from contextlib import closing

import pytest

import certificates
from patience import PATIENCE_SECONDS
from proxies import PROXY, changed, free_port, running

FORGED = {"X-Forwarded-For": "192.0.2.1"}
MAIN = "daemon off; error_log stderr; pid {0}/pid; events {{}} http {{ {1} include {0}/site.conf; }}"
FOLDERS = " ".join(f"{kind}_temp_path {{0}}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))


@pytest.fixture(params=["nginx", "caddy"])
def proxy(request, tmp_path, start):
    """Yield a daemon and the port of a proxy in front of it."""
    certificates.make(tmp_path, "tmp.example.org", certificate="fullchain.pem", key="privkey.pem")
    daemon = start(TMPMAILD_HTTP__TRUSTED_PROXIES="127.0.0.1/32", TMPMAILD_HTTP__PUBLIC_URL="https://tmp.example.org")
    port = free_port()
    arrange = {"nginx": nginx, "caddy": caddy}[request.param]
    # After SIGTERM, Caddy waits for its event streams; after SIGKILL, nginx's workers keep running.
    ended_by = signal.SIGTERM if request.param == "nginx" else signal.SIGKILL
    command = [request.param, *arrange(tmp_path, daemon.http_port, port)]
    with (tmp_path / "output").open("w") as output, running(command, tmp_path, port, ended_by, log=output):
        yield daemon, port


def nginx(folder, daemon_port, port):
    site = changed(
        re.sub(r"\n    listen \[::\].*", "", (PROXY / "nginx.conf").read_text()),
        {
            "listen 80;": f"listen 127.0.0.1:{free_port()};",
            "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
            "127.0.0.1:8025": f"127.0.0.1:{daemon_port}",
            "/etc/letsencrypt/live/tmp.example.org": str(folder),
            "/var/log/nginx": str(folder),
        },
    )
    (folder / "site.conf").write_text(site)
    (folder / "nginx.conf").write_text(MAIN.format(folder, FOLDERS.format(folder)))
    return ["-c", folder / "nginx.conf", "-e", "stderr"]


def caddy(folder, daemon_port, port):
    site = changed(
        (PROXY / "Caddyfile").read_text(),
        {
            "{$DOMAIN:tmp.example.org} {": f"https://tmp.example.org:{port} {{\n\ttls {folder}/fullchain.pem {folder}/privkey.pem",
            "127.0.0.1:8025": f"127.0.0.1:{daemon_port}",
            "\n\tlog default {": "\n\tadmin off\n\tauto_https off\n\tdefault_bind 127.0.0.1\n\tlog default {",
        },
    )
    (folder / "Caddyfile").write_text(site)
    return ["run", "--adapter", "caddyfile", "--config", folder / "Caddyfile"]


class Visitor(http.client.HTTPSConnection):
    """A client of the proxy with its own IP address."""

    def __init__(self, folder, port, client):
        context = ssl.create_default_context(cafile=folder / "ca.pem")
        super().__init__("tmp.example.org", port, timeout=PATIENCE_SECONDS, source_address=(client, 0), context=context)

    def connect(self):
        plain = socket.create_connection(("127.0.0.1", self.port), self.timeout, self.source_address)
        self.sock = self._context.wrap_socket(plain, server_hostname=self.host)

    def ask(self, method, path, **headers):
        self.request(method, path, headers={"Host": "tmp.example.org", **headers})
        return self.getresponse()


def test_events_arrive_immediately_and_limits_apply_to_the_real_client(proxy, tmp_path):
    daemon, port = proxy
    with (
        closing(Visitor(tmp_path, port, "127.0.0.2")) as visitor,
        closing(Visitor(tmp_path, port, "127.0.0.3")) as other,
    ):
        # The request claims to come from a page of the same origin, so it only succeeds if Host is forwarded. Forged
        # fields have no effect.
        made = visitor.ask("POST", "/api/v1/addresses", Origin="https://tmp.example.org", **FORGED)
        address = json.loads(made.read())["address"]
        made_by_other = other.ask("POST", "/api/v1/addresses", **FORGED)
        assert made.headers["RateLimit"] == made_by_other.headers["RateLimit"]
        with visitor.ask("GET", f"/api/v1/addresses/{address}/events") as stream:
            assert stream.headers["Content-Type"].startswith("text/event-stream")
            daemon.deliver_raw(address, b"Subject: through the proxy\r\n\r\nmail\r\n")
            assert any(b"through the proxy" in line for line in iter(stream.readline, b""))


def test_browsers_are_offered_http_2(proxy, tmp_path):
    _, port = proxy
    context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection(("127.0.0.1", port), 30) as plain,
        context.wrap_socket(plain, server_hostname="tmp.example.org") as connection,
    ):
        assert connection.selected_alpn_protocol() == "h2"


def test_a_request_that_fails_is_not_logged_with_its_address_and_its_visitor(proxy, tmp_path):
    """The service first drops the connection, as it does during a restart, and then stops listening."""
    daemon, port = proxy
    address = daemon.create()
    with closing(Visitor(tmp_path, port, "127.0.0.9")) as visitor:
        stream = visitor.ask("GET", f"/api/v1/addresses/{address}/events")
        stream.readline()
        daemon.process.kill()
        with contextlib.suppress(http.client.IncompleteRead):
            stream.read()
    for method, path in (("GET", f"/api/v1/addresses/{address}/messages"), ("DELETE", f"/api/v1/addresses/{address}")):
        with closing(Visitor(tmp_path, port, "127.0.0.9")) as visitor:
            assert visitor.ask(method, path).status == 502
    daemon.process.wait()
    logged = (tmp_path / "output").read_text() + "".join(one.read_text() for one in tmp_path.glob("*.log"))
    assert not {address, address.partition("@")[0], "127.0.0.9"} & set(re.split(r"[^A-Za-z0-9@.]", logged)), logged
