"""SIGHUP takes a new certificate, and keeps the old one when the new one is none."""

import shutil
import signal
import smtplib
import ssl
import subprocess

import pytest


def make_certificate(folder, name):
    if not shutil.which("openssl"):
        pytest.skip("needs openssl (Debian package openssl)")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
        ],
        check=True,
        capture_output=True,
    )


def presented(port):
    """Return the certificate that STARTTLS shows."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with smtplib.SMTP("127.0.0.1", port, local_hostname="localhost") as client:
        client.starttls(context=context)
        return client.sock.getpeercert(binary_form=True)


def test_a_new_certificate_is_taken_and_a_broken_one_is_not(start, tmp_path):
    make_certificate(tmp_path, "one")
    daemon = start(
        TMPMAILD_SMTP__TLS_CERTIFICATE=str(tmp_path / "cert.pem"), TMPMAILD_SMTP__TLS_KEY=str(tmp_path / "key.pem")
    )
    first = presented(daemon.smtp_port)
    make_certificate(tmp_path, "two")
    assert presented(daemon.smtp_port) == first
    daemon.process.send_signal(signal.SIGHUP)
    while (second := presented(daemon.smtp_port)) == first:
        assert daemon.process.poll() is None
    (tmp_path / "cert.pem").write_text("no certificate")
    daemon.process.send_signal(signal.SIGHUP)
    while "the certificate stays the old one" not in daemon.errors():
        assert daemon.process.poll() is None
    assert presented(daemon.smtp_port) == second
    assert daemon.stop() == 0
