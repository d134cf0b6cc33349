"""SMTP through HAProxy: the mail is from the client, and HAProxy's own health checks are answered."""

import smtplib
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from patience import PATIENCE_SECONDS

CONFIG = Path(__file__).with_name("balancer-config.txt").read_text()
CHECKED = "Health check for server tmpmaild/one succeeded"
CLIENT = "127.0.0.5"


@contextmanager
def balancing(daemon, how):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = daemon.folder / "haproxy.cfg"
        config.write_text(CONFIG.format(descriptor=listener.fileno(), port=daemon.smtp_port, how=how))
        command = ["haproxy", "-db", "-f", config]
        with subprocess.Popen(command, pass_fds=[listener.fileno()], stdout=subprocess.PIPE, text=True) as process:
            try:
                yield listener.getsockname()[1], process.stdout
            finally:
                process.terminate()


@pytest.mark.needs("haproxy")
@pytest.mark.parametrize("how", ["send-proxy", "send-proxy-v2"])
def test_mail_through_haproxy_is_from_the_client(start, how):
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
