"""The whole program with a PostgreSQL database."""

import http.client
import signal
import time

import pytest

from daemons import FREE_PORTS, environment
from patience import PATIENCE_SECONDS
from proxies import free_port
from warm import Program


@pytest.fixture(scope="module")
def settings(cluster):
    return {"TMPMAILD_STORAGE__URL": cluster.url(cluster.database())}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, start_in, settings):
    return start_in(tmp_path_factory.mktemp("postgresql"), **settings)


def test_the_daemon_becomes_ready_when_the_database_becomes_available(cluster, tmp_path):
    there = tmp_path / "server"
    port = free_port()
    settings = FREE_PORTS | {"TMPMAILD_HTTP__LISTEN": f"127.0.0.1:{port}"}
    url = cluster.url(cluster.database()).replace(str(cluster.folder), str(there))
    with (tmp_path / "log").open("wb") as log:
        env = environment(**settings, TMPMAILD_STORAGE__URL=url)
        program = Program(["serve"], cwd=tmp_path, env=env, stderr=log.fileno(), text=True)
    try:
        answers = [until_answered(port, "/readyz"), until_answered(port, "/api/v1/addresses")]
        assert [(answer.status, answer.getheader("Retry-After")) for answer in answers] == [(503, None), (503, "5")]
        there.symlink_to(cluster.folder)
        while "/messages" not in (line := program.stdout.readline()):
            assert line
        assert until_answered(port, "/readyz").status == 200
        assert (tmp_path / "log").read_text().count("cannot be reached") == 1
    finally:
        program.send_signal(signal.SIGTERM)
        program.wait(PATIENCE_SECONDS)
        program.stdout.close()


def test_the_daemon_is_not_ready_while_it_gets_no_connections(daemon, cluster, settings):
    address = daemon.create()
    name = settings["TMPMAILD_STORAGE__URL"].partition("@/")[2].partition("?")[0]
    assert until_answered(daemon.http_port, "/readyz").status == 200
    end = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}'"
    try:
        cluster.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 2", end)
        until_status(daemon.http_port, 503)
    finally:
        cluster.execute(f"ALTER DATABASE {name} CONNECTION LIMIT -1")
    until_status(daemon.http_port, 200)
    assert daemon.messages(address) == []


def until_status(port, status):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (answered := until_answered(port, "/readyz").status) != status:
        assert time.monotonic() < deadline, answered
        time.sleep(0.05)


def until_answered(port, path):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", path)
            with connection.getresponse() as answer:
                answer.read()
                return answer
        except ConnectionError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        finally:
            connection.close()
