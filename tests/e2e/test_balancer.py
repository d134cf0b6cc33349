"""SMTP through HAProxy and nginx: the daemon sees the real client's address. HAProxy's health checks succeed."""

import signal
import smtplib
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from patience import PATIENCE_SECONDS
from peers import NGINX_STREAM
from proxies import free_port, running

CONFIG = Path(__file__).with_name("balancer-config.txt").read_text()
CHECKED = "Health check for server tmpmaild/one succeeded"
CLIENT = "127.0.0.5"
HTTP_CHECK = """
global
    log stdout format raw local0
defaults
    log global
    mode http
    timeout connect 10s
    timeout client 30s
    timeout server 30s
frontend web
    bind fd@{descriptor}
    default_backend tmpmaild
backend tmpmaild
    option log-health-checks
    option httpchk
    server one 127.0.0.1:{port} check inter 2s
"""
STREAM = """
load_module {module};
daemon off; error_log stderr; pid {folder}/nginx.pid; events {{}}
stream {{ server {{ listen [::1]:{port}; proxy_pass 127.0.0.1:{smtp}; proxy_protocol on; }} }}
"""


@contextmanager
def balancing(daemon, how="", text=CONFIG, to=None):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = daemon.folder / "haproxy.cfg"
        config.write_text(text.format(descriptor=listener.fileno(), port=to or daemon.smtp_port, how=how))
        command = ["haproxy", "-db", "-f", config]
        with subprocess.Popen(command, pass_fds=[listener.fileno()], stdout=subprocess.PIPE, text=True) as process:
            try:
                yield listener.getsockname()[1], process.stdout
            finally:
                process.terminate()


@pytest.mark.needs("haproxy")
@pytest.mark.parametrize("how", ["send-proxy", "send-proxy-v2"])
def test_mail_through_haproxy_has_the_address_of_the_client(start, how):
    daemon = start(TMPMAILD_SMTP__TRUSTED_PROXIES="127.0.0.1/32")
    address = daemon.create()
    with balancing(daemon, how) as (port, log):
        assert next(line for line in log if "Health check" in line).startswith(CHECKED)
        source = (CLIENT, 0)
        with smtplib.SMTP(
            "127.0.0.1", port, local_hostname="localhost", timeout=PATIENCE_SECONDS, source_address=source
        ) as client:
            client.sendmail("a@example.com", [address], b"Subject: balanced\r\n\r\n")
    (mail,) = daemon.messages(address)
    message = daemon.request(f"/api/v1/addresses/{address}/messages/{mail['id']}").json
    assert message["envelope"]["remote_ip"] == CLIENT
    assert daemon.errors() == ""


@pytest.mark.needs("haproxy")
def test_the_plain_http_health_check_of_haproxy_gets_a_response(start):
    """HAProxy's health check sends ``OPTIONS / HTTP/1.0`` without a Host field."""
    daemon = start()
    with balancing(daemon, text=HTTP_CHECK, to=daemon.http_port) as (_, log):
        assert next(line for line in log if "Health check" in line).startswith(CHECKED)


@pytest.mark.needs("nginx-stream")
def test_mail_through_nginx_has_the_address_of_an_ipv6_client(start):
    """For an IPv6 client, nginx sends the listener's IPv4 address as the destination."""
    daemon = start(TMPMAILD_SMTP__TRUSTED_PROXIES="127.0.0.1/32")
    address, port = daemon.create(), free_port()
    config = daemon.folder / "nginx.conf"
    config.write_text(STREAM.format(module=NGINX_STREAM, folder=daemon.folder, port=port, smtp=daemon.smtp_port))
    with (
        running(["nginx", "-c", config, "-e", "stderr"], daemon.folder, port, signal.SIGTERM, host="::1"),
        smtplib.SMTP("::1", port, local_hostname="localhost", timeout=PATIENCE_SECONDS) as client,
    ):
        client.sendmail("a@example.com", [address], b"Subject: through nginx\r\n\r\n")
    (mail,) = daemon.messages(address)
    message = daemon.request(f"/api/v1/addresses/{address}/messages/{mail['id']}").json
    assert message["envelope"]["remote_ip"] == "::1"
    assert daemon.errors() == ""
