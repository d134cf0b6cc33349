"""A daemon that listens with implicit TLS: the addresses it reports, and the effect of a reload."""

import re
import smtplib
import socket
import ssl
from contextlib import closing

import certificates
import warm
from daemons import FREE_PORTS, environment
from patience import PATIENCE_SECONDS
from tmpmaild.cli.doctor import machine
from tmpmaild.config.validators import parse_endpoint

from .test_metrics import ask, samples, url_of_metrics
from .test_reload import ONE, reload


def shown(port):
    """Return the certificate that the server presents."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with smtplib.SMTP_SSL(
        "127.0.0.1", port, local_hostname="localhost", context=context, timeout=PATIENCE_SECONDS
    ) as client:
        return client.sock.getpeercert(binary_form=True)


def test_it_reports_its_addresses_and_keeps_its_certificate_until_a_new_one_is_loaded(start, command, tmp_path):
    certificates.make(tmp_path, "one")
    tls = f'[smtp]\ntls_certificate = "{tmp_path}/cert.pem"\ntls_key = "{tmp_path}/key.pem"\n'
    config = tmp_path / "tmpmaild.toml"
    config.write_text(ONE + tls + 'tls_listen = ["127.0.0.1:0"]\n')
    daemon = start(TMPMAILD_METRICS__LISTEN="127.0.0.1:0")
    port = int(re.search(r"SMTPS on 127\.0\.0\.1:(\d+)\n", daemon.banner)[1])
    first = shown(port)
    place = f"127.0.0.1:{port}"
    assert f" with STARTTLS; SMTPS on {place};" in daemon.log()
    assert f"  SMTPS     {place}\n" in command("status").stdout
    for leaf, level in ((first, "ok"), (b"another", "warning")):
        result = machine._check_certificate(place, machine._connected(parse_endpoint(place), tls_first=True), leaf)
        assert (result.level, result.text.startswith(f"{place}: ")) == (level, True)
    certificates.make(tmp_path, "two")
    reload(daemon, "reloaded: ")
    second = shown(port)
    assert second != first
    expires = samples(url_of_metrics(daemon))["tmpmaild_smtp_certificate_expires_timestamp_seconds",]
    assert expires == ssl.cert_time_to_seconds("Jan  1 00:00:00 3000 GMT")  # trustme's default expiry
    config.write_text(ONE)
    reload(daemon, "changed, but takes effect only after a restart: smtp.tls_listen")
    assert shown(port) == second
    assert ask(f"{daemon.url}/readyz")[0] == 200
    assert daemon.stop() == 0


def test_a_passed_socket_needs_a_certificate(start, tmp_path):
    certificates.make(tmp_path, "one")
    files = {"TMPMAILD_SMTP__TLS_CERTIFICATE": f"{tmp_path}/cert.pem", "TMPMAILD_SMTP__TLS_KEY": f"{tmp_path}/key.pem"}
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        given = {"cwd": tmp_path, "env": environment(**FREE_PORTS)}
        done = warm.run(["serve"], listeners={"smtps": listener}, **given)
        assert done.returncode == 1
        assert "passed socket 'smtps': smtp.tls_certificate and smtp.tls_key must be set for it" in done.stderr
        daemon = start(listeners={"smtps": listener}, **files)
        assert shown(listener.getsockname()[1])
        assert daemon.stop() == 0
