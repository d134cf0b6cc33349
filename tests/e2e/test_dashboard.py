"""Each query in the dashboard returns values for daemons that a real Prometheus monitors."""

import json
import socket
import subprocess
from pathlib import Path

import pytest

import peers
from daemons import PATIENCE_SECONDS, Daemon
from proxies import free_port

from .test_metrics import url_of_metrics

PANELS = json.loads((Path(__file__).parents[2] / "docs/monitoring/grafana.json").read_text())["panels"]
QUERIES = {target["expr"] for panel in PANELS for target in panel["targets"]}
SETTINGS = {
    "TMPMAILD_METRICS__LISTEN": "127.0.0.1:0",
    "TMPMAILD_SMTP__MAX_CONNECTIONS_PER_CLIENT": "1",
    "TMPMAILD_WEBHOOKS__ALLOW": "127.0.0.0/8:9",
    "TMPMAILD_RATE_LIMIT__REQUESTS_PER_MINUTE": "0",
}


@pytest.fixture
def daemons(tmp_path, cluster):
    """Yield two daemons, one for each storage engine."""
    running = []
    for name, storage in (("sqlite", {}), ("postgresql", {"TMPMAILD_STORAGE__URL": cluster.url(cluster.database())})):
        (tmp_path / name).mkdir()
        running.append(Daemon(tmp_path / name, **SETTINGS, **storage))
    yield running
    for daemon in running:
        daemon.close()


@pytest.fixture
def prometheus(tmp_path, daemons):
    """Yield the URL of a Prometheus that scrapes the daemons five times a second."""
    place = f"127.0.0.1:{free_port()}"
    targets = [url_of_metrics(daemon).removeprefix("http://") for daemon in daemons]
    scrape = {"job_name": "tmpmaild", "scrape_interval": "200ms", "scrape_timeout": "200ms"}
    config = tmp_path / "prometheus.yml"
    config.write_text(json.dumps({"scrape_configs": [{**scrape, "static_configs": [{"targets": targets}]}]}))
    command = [peers.which("prometheus"), f"--config.file={config}", f"--web.listen-address={place}"]
    with (tmp_path / "log").open("wb") as log:
        command.append(f"--storage.tsdb.path={tmp_path / 'data'}")
        process = subprocess.Popen(command, stdout=log, stderr=log)
    yield f"http://{place}"
    process.kill()
    process.wait(PATIENCE_SECONDS)


def be_used(daemon):
    """Send a message, trigger a webhook call, and cause refusals."""
    webhook = {"webhook": {"url": "http://127.0.0.1:9/"}}
    address = daemon.request("/api/v1/addresses", "POST", webhook).json["address"]
    daemon.deliver_raw(address, b"Subject: one\r\n\r\n")
    with socket.create_connection(("127.0.0.1", daemon.smtp_port)) as first:
        first.recv(1000)
        with socket.create_connection(("127.0.0.1", daemon.smtp_port)) as second:
            assert second.recv(1000).startswith(b"421")
        first.sendall(b"HELO\r\n")
        assert first.recv(1000).startswith(b"501")


def answer(url, query):
    """Return promtool's output: a line for each series, or an error until Prometheus is reachable."""
    command = [peers.which("promtool"), "query", "instant", url, query]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "parse error" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.proof
@pytest.mark.needs("prometheus", "postgresql")
def test_each_panel_shows_data_of_a_service_in_use(prometheus, daemons):
    dark = QUERIES
    for _ in range(60):
        for daemon in daemons:
            be_used(daemon)
        dark = {query for query in dark if "NaN" in (text := answer(prometheus, query)) or "=>" not in text}
        if not dark:
            break
    assert not dark
