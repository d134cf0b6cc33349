"""The first steps that a new user performs."""

import json
import subprocess
import urllib.request

import pytest

from patience import PATIENCE_SECONDS
from tmpmaild.client import Client


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def daemon(request, tmp_path_factory, start_in):
    if request.param == "sqlite":
        return start_in(tmp_path_factory.mktemp("story"))
    cluster = request.getfixturevalue("cluster")
    return start_in(tmp_path_factory.mktemp("story"), TMPMAILD_STORAGE__URL=cluster.url(cluster.database()))


def test_an_address_is_created_gets_a_message_and_shows_it(daemon, command):
    address = daemon.create()
    sent = command("send", address, "--server", f"127.0.0.1:{daemon.smtp_port}")
    assert (sent.returncode, sent.stdout) == (0, f"sent to {address}\n")
    (message,) = daemon.messages(address)
    assert message["from"] == "alice@example.com"
    assert message["from_name"] == "Alice"
    assert message["to"] == address
    assert message["subject"] == "Hello from tmpmaild"
    assert message["body"].startswith("It works.")


@pytest.mark.needs("curl")
def test_the_three_lines_of_the_banner_work(daemon):
    script = daemon.banner.partition("terminal:")[2]
    done = subprocess.run(
        ["bash", "-ec", script], capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr
    assert "Hello from tmpmaild" in done.stdout


def test_the_banner_names_a_page_to_open(daemon):
    assert f"Open {daemon.url}/ in a browser" in daemon.banner
    with urllib.request.urlopen(daemon.url + "/", timeout=PATIENCE_SECONDS) as answer:
        assert answer.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.needs("sqlite3")
def test_the_database_can_be_read_in_a_shell_while_the_daemon_runs(daemon):
    url = daemon.setting("STORAGE__URL")
    shell = ["psql", "-At", url, "-c"] if url else ["sqlite3", "-readonly", daemon.database]
    address = daemon.create()
    daemon.deliver_raw(address, b"Subject: shell\r\n\r\nfor eyes\r\n", sender="bob@example.com")
    query = f"""SELECT address, sender, subject, body FROM mail WHERE address = '{address}';
        SELECT address, message_count FROM inboxes WHERE address = '{address}'"""
    done = subprocess.run([*shell, query], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [f"{address}|bob@example.com|shell|for", "eyes", f"{address}|1"]


def test_logs_name_no_address_and_no_content(start, command):
    daemon = start(TMPMAILD_LOG__LEVEL="info")
    (daemon.folder / "tmpmaild.toml").write_text('[log]\nformat = "json"\n')
    assert command("reload").returncode == 0
    address = daemon.create()
    command("send", address, "--server", f"127.0.0.1:{daemon.smtp_port}")
    daemon.messages(address)
    daemon.stop()
    logged = daemon.errors()
    for line in logged.splitlines():
        assert json.loads(line)["level"] in ("info", "warning")
    assert address not in logged
    assert "Hello" not in logged


def test_the_links_in_the_text_of_a_message_are_reported_with_their_positions(start_in, tmp_path):
    daemon = start_in(tmp_path)
    link = "https://x.example/verify?t=aB3_"
    with Client(daemon.url) as client:
        inbox = client.create()
        text = f"Content-Type: text/plain; charset=utf-8\r\n\r\n🎉 <{link}>، {link}"
        daemon.deliver_raw(inbox.address, text.encode())
        details = inbox.wait_for().details()
    assert [details.text[one.start : one.end] for one in details.body_links] == [link, link]
    assert {one.href for one in details.body_links} == {link}
