"""How requests leave this machine: proxies in the environment, certificates, and tokens without TLS."""

import socket
import subprocess
import sys

import pytest
from scripted import Scripted

from daemons import environment
from tmpmaild.client import AsyncClient, Client, ServiceUnreachable, transport

ASK = "import sys; from tmpmaild.client import Client; print(Client(sys.argv[1]).domains())"


@pytest.fixture
def proxy():
    """Yield the address of a proxy; the test fails if a client connects to the proxy."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.fixture
def service():
    server = Scripted()
    server.answer = lambda _: Scripted.json(b'{"domains": ["a.test"], "lifetime_seconds": 3600}')
    yield server
    server.close()


def set_proxies(monkeypatch, **variables):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::ffff:127.0.0.1]"])
@pytest.mark.parametrize(
    "variables",
    [{"HTTP_PROXY": "http://{}"}, {"ALL_PROXY": "socks5://{}"}, {"http_proxy": "{}"}, {"SSL_CERT_FILE": "/missing"}],
    ids=str,
)
def test_no_request_to_this_machine_uses_a_proxy(service, proxy, monkeypatch, host, variables):
    set_proxies(monkeypatch, **{name: value.format(proxy) for name, value in variables.items()})
    port = service.url.rpartition(":")[2]
    with Client(f"http://{host}:{port}") as client:
        assert client.domains() == ["a.test"]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("url", "variables", "said"),
    [
        ("http://mail.example", {"ALL_PROXY": "socks5://127.0.0.1:1"}, r"\$ALL_PROXY names a SOCKS proxy: pip install"),
        ("http://mail.example", {"HTTP_PROXY": "ftp://127.0.0.1:1"}, "a proxy in the environment cannot be used: "),
        ("https://mail.example", {"SSL_CERT_FILE": "/missing.pem"}, "certificates in /missing.pem cannot be read: No "),
        ("https://127.0.0.1:1", {"SSL_CERT_FILE": "/dev/null"}, "certificates in /dev/null cannot be read: no cert"),
    ],
)
def test_invalid_environment_settings_are_reported_in_one_clear_line(monkeypatch, kind, url, variables, said):
    set_proxies(monkeypatch, **variables)
    with pytest.raises(ServiceUnreachable, match=said):
        kind(url)


@pytest.mark.parametrize(
    ("host", "no_proxy", "is_without"),
    [
        ("mail.example", "mail.example", True),
        ("mx.mail.example", ".mail.example", True),
        ("192.0.2.7", "10.0.0.0/8, 192.0.2.0/24", True),
        ("192.0.2.7", "192.0.3.0/24", False),
        ("2001:db8::7", "2001:db8::/32", True),
        ("mail.example", "*", True),
        ("mail.example", "", False),
    ],
)
def test_names_domains_and_networks_go_without_a_proxy(monkeypatch, host, no_proxy, is_without):
    set_proxies(monkeypatch, HTTP_PROXY="http://127.0.0.1:1", NO_PROXY=no_proxy)
    assert transport._is_without_proxy(host) == is_without


@pytest.mark.parametrize(
    ("url", "warns"),
    [("http://mail.example", True), ("https://mail.example", False), ("http://127.0.0.1:1", False)],
)
def test_a_token_sent_without_tls_causes_one_warning(caplog, url, warns):
    transport._warn_of_clear_text.cache_clear()
    for token in (None, "secret", "secret"):
        transport.arguments(transport.Request(url, "GET", "/x", token))
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"{url}: tokens are sent without TLS and can be read in transit; use https"] * warns


def test_other_hosts_are_contacted_through_the_proxy(service):
    variables = environment(HTTP_PROXY=service.url)
    command = [sys.executable, "-c", ASK, "http://mail.example"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True, encoding="utf-8")
    assert done.stdout == "['a.test']\n"
