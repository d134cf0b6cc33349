"""The policy and proxy sites for MTA-STS (RFC 8461) in docs/operations.md, but with test ports and certificates."""

import http.client
import re
import signal
import socket
import ssl
from pathlib import Path

import pytest

import certificates
from patience import PATIENCE_SECONDS
from proxies import changed, free_port, running

PAGE = (Path(__file__).parents[2] / "docs/operations.md").read_text(encoding="utf-8")
POLICY, CADDY, NGINX = re.findall(
    r"^```text\n(.*?)^```$", PAGE.partition("### MTA-STS\n")[2], re.MULTILINE | re.DOTALL
)[:3]
NAME = "mta-sts.tmp.example.org"
MAIN = "user root; daemon off; error_log stderr; pid {0}/pid; events {{}} http {{ types {{ text/plain txt; }} {1} include {0}/site.conf; }}"
FOLDERS = " ".join(f"{kind}_temp_path {{0}}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))


def nginx(folder, port):
    changes = {
        "    listen [::]:443 ssl;\n": "",
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/letsencrypt/live/tmp.example.org": str(folder),
        "/var/www/mta-sts": str(folder / "www"),
    }
    (folder / "site.conf").write_text(changed(NGINX, changes))
    (folder / "nginx.conf").write_text(MAIN.format(folder, FOLDERS.format(folder)))
    return ["nginx", "-c", folder / "nginx.conf", "-e", "stderr"]


def caddy(folder, port):
    changes = {
        f"{NAME} {{": f"https://{NAME}:{port} {{\n\ttls {folder}/fullchain.pem {folder}/privkey.pem",
        "/var/www/mta-sts": str(folder / "www"),
    }
    options = "{\n\tadmin off\n\tauto_https off\n\tdefault_bind 127.0.0.1\n}\n"
    (folder / "Caddyfile").write_text(options + changed(CADDY, changes))
    return ["caddy", "run", "--adapter", "caddyfile", "--config", folder / "Caddyfile"]


@pytest.mark.parametrize(
    ("arrange", "ended_by"),
    [
        pytest.param(nginx, signal.SIGTERM, marks=pytest.mark.needs("nginx")),
        pytest.param(caddy, signal.SIGKILL, marks=pytest.mark.needs("caddy")),
    ],
)
def test_a_sender_finds_the_policy_at_a_proxy_that_has_the_file(tmp_path, arrange, ended_by):
    certificates.make(tmp_path, NAME, certificate="fullchain.pem", key="privkey.pem")
    place = tmp_path / "www/.well-known/mta-sts.txt"
    place.parent.mkdir(parents=True)
    place.write_text(POLICY)
    port = free_port()
    with running(arrange(tmp_path, port), tmp_path, port, ended_by):
        context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
        connection = http.client.HTTPSConnection(NAME, port, context=context)
        plain = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
        with context.wrap_socket(plain, server_hostname=NAME) as connection.sock:
            connection.request("GET", "/.well-known/mta-sts.txt")
            with connection.getresponse() as response:
                assert response.status == 200
                assert response.getheader("Content-Type").partition(";")[0] == "text/plain"
                assert response.read().decode() == POLICY


def test_the_policy_has_each_key_of_the_standard_once():
    pairs = dict(line.split(": ") for line in POLICY.splitlines())
    assert pairs.keys() == {"version", "mode", "mx", "max_age"}
    assert pairs["version"] == "STSv1"
    assert len(POLICY.splitlines()) == len(pairs)
