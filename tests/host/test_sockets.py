"""Sockets passed to a separate process, because passed descriptors start at 3; and the certificate."""

import json
import os
import shutil
import socket
import ssl
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from trustme import KeyType

import certificates
from daemons import finished
from tmpmaild.config.settings import Config, Smtp
from tmpmaild.errors import StartError
from tmpmaild.host.sockets import CREDENTIALS, Certificate, ShownCertificate, certificate, load_certificate, take_passed

TAKE = Path(__file__).with_name("sockets_take.py")


@pytest.fixture
def opened():
    with ExitStack() as closing:

        def listening(family=socket.AF_INET, kind=socket.SOCK_STREAM, place=("127.0.0.1", 0), *, listen=True):
            made = closing.enter_context(socket.socket(family, kind))
            made.bind(place)
            if listen:
                made.listen()
            return made

        yield listening


def passed(names, *sockets):
    """Pass sockets to a new process; return the sockets that it accepts, or its error messages."""
    numbers = [one.fileno() for one in sockets]
    # Use high descriptor numbers, so that duplicating one socket does not overwrite the next.
    high = [os.dup2(number, 100 + place) for place, number in enumerate(numbers)]
    environ = {**os.environ, "LISTEN_FDS": str(len(sockets)), "LISTEN_FDNAMES": names}
    done = finished([sys.executable, TAKE, json.dumps(high)], env=environ, pass_fds=high)
    for number in high:
        os.close(number)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.splitlines()


def test_sockets_are_found_by_name_and_not_inherited_by_children(opened, tmp_path):
    unix = opened(socket.AF_UNIX, place=f"{tmp_path}/http.sock")
    found, left = passed("smtp:http:smtp:metrics", opened(), unix, opened(), opened())
    tcp, local = int(socket.AF_INET), int(socket.AF_UNIX)
    assert found == {
        "smtp": [[3, False, tcp], [5, False, tcp]],
        "http": [[4, False, local]],
        "metrics": [[6, False, tcp]],
    }
    assert left == []


def test_each_mistake_is_reported(opened, tmp_path):
    unix = opened(socket.AF_UNIX, place=f"{tmp_path}/smtp.sock")
    datagrams = opened(kind=socket.SOCK_DGRAM, listen=False)
    with tempfile.TemporaryFile() as file:
        given = [opened(), unix, datagrams, opened(listen=False), file]
        said = passed("tmpmaild-smtp.socket:smtp:http:metrics:http", *given)
    assert said == [
        "passed socket 'tmpmaild-smtp.socket': expected FileDescriptorName= of its unit to be one of http, smtp, smtps, metrics",
        "passed socket 'smtp': expected TCP",
        "passed socket 'http': expected a listening stream socket (ListenStream=, Accept=no)",
        "passed socket 'metrics': expected a listening stream socket (ListenStream=, Accept=no)",
        "passed socket 'http': is not a socket",
    ]
    (line,) = passed("", opened())
    assert "''" in line
    assert "FileDescriptorName=" in line


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "smtp"},
        {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "0"},
        {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "x"},
    ],
)
def test_sockets_for_another_process_or_for_none_are_ignored(environ):
    assert take_passed(environ) == {}
    assert environ == {}


# The certificate


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pem")
    for name, kind in (("one", KeyType.ECDSA), ("other", KeyType.ECDSA), ("rsa", KeyType.RSA)):
        certificates.make(folder, "mx.test", certificate=f"{name}.pem", key=f"{name}.key", key_type=kind)
    (folder / "junk").write_text("junk")
    (folder / "cut.pem").write_text((folder / "one.pem").read_text()[:200])
    (folder / "cut.key").write_text((folder / "one.key").read_text()[:80])
    key = load_pem_private_key((folder / "one.key").read_bytes(), password=None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    (folder / "encrypted.key").write_bytes(encrypted)
    return folder


@pytest.mark.parametrize(
    ("name", "key", "told"),
    [
        ("none", "one.key", "smtp.tls_certificate none: No such file or directory"),
        ("one.pem", "none", "smtp.tls_key none: No such file or directory"),
        ("one.pem", ".", "smtp.tls_key .: Is a directory"),
        ("junk", "one.key", "smtp.tls_certificate junk: expected a certificate in PEM"),
        ("cut.pem", "one.key", "smtp.tls_certificate cut.pem: expected a certificate in PEM"),
        ("one.key", "one.pem", "smtp.tls_certificate one.key: expected a certificate in PEM"),
        ("one.pem", "junk", "smtp.tls_key junk: expected a private key in PEM, without a password"),
        ("one.pem", "cut.key", "smtp.tls_key cut.key: expected a private key in PEM, without a password"),
        ("one.pem", "encrypted.key", "smtp.tls_key encrypted.key: expected a private key in PEM, without a password"),
        ("one.pem", "other.key", "smtp.tls_key other.key: does not match smtp.tls_certificate one.pem"),
        ("one.pem", "rsa.key", "smtp.tls_key rsa.key: does not match smtp.tls_certificate one.pem"),
        ("rsa.pem", "one.key", "smtp.tls_key one.key: does not match smtp.tls_certificate rsa.pem"),
    ],
)
def test_an_error_names_the_certificate_or_the_key_depending_on_which_is_wrong(pem, monkeypatch, name, key, told):
    monkeypatch.chdir(pem)
    with pytest.raises(StartError) as raised:
        certificate(Config(smtp=Smtp(tls_certificate=name, tls_key=key)))
    assert str(raised.value) == told


def test_a_weak_certificate_is_reported_with_the_error_of_openssl(pem, monkeypatch):
    """Whether a key is too short depends on the machine's OpenSSL, so this test raises the error itself."""
    monkeypatch.chdir(pem)
    weak = ssl.SSLError(1, "ee key too small")
    weak.reason = "EE_KEY_TOO_SMALL"

    class Context:
        def load_cert_chain(self, *_, **_options):
            raise weak

    with pytest.raises(StartError, match=r"^smtp\.tls_certificate one\.pem: .*ee key too small"):
        load_certificate(Context(), Smtp(tls_certificate="one.pem", tls_key="one.key"))


def test_the_certificate_is_reported_as_loaded_without_reading_its_files_again(pem, tmp_path):
    """``ShownCertificate`` is used in the event loop."""
    folder = tmp_path / "pem"
    shutil.copytree(pem, folder)
    shown, renewed = (
        certificate(Config(smtp=Smtp(tls_certificate=str(folder / f"{name}.pem"), tls_key=str(folder / f"{name}.key"))))
        for name in ("one", "other")
    )
    shutil.rmtree(folder)
    known = ShownCertificate(shown)
    (expires,) = known.metrics()
    assert expires.values() == {(): shown.expires_at_seconds}
    assert shown.expires_at_seconds > 1_790_000_000
    assert known.change(shown).startswith("the certificate is unchanged, valid until ")
    assert [known.change(renewed), known.change(Certificate()), known.change(Certificate())] == ["", "", ""]
    assert expires.values() == {(): 0}


def test_a_credential_is_reported_as_renewed_only_by_a_restart():
    shown = Certificate(
        file=str(CREDENTIALS / "tmpmaild.service/cert.pem"), serial="1", expires_at_seconds=1_790_000_000
    )
    assert ShownCertificate(shown).change(shown) == (
        "the certificate is unchanged, valid until 2026-09-21; systemd provides a renewed certificate only after a restart"
    )
