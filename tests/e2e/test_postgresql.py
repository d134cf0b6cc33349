"""The whole program on PostgreSQL."""

import pytest


@pytest.fixture(scope="module")
def settings(cluster):
    return {"TMPMAILD_STORAGE__URL": cluster.url(cluster.database())}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, start_in, settings):
    return start_in(tmp_path_factory.mktemp("postgresql"), **settings)


def test_a_mail_comes_in_over_smtp_and_is_shown_over_http_also_after_a_restart(daemon):
    address = daemon.create()
    daemon.deliver_octets(address, b"Subject: one\r\n\r\nYour code is 481516.\r\n", b"Subject: two\r\n\r\n")
    assert [message["subject"] for message in daemon.messages(address)] == ["two", "one"]
    assert daemon.messages(address)[1]["codes"][0]["value"] == "481516"
    daemon.restart()
    assert [message["subject"] for message in daemon.messages(address)] == ["two", "one"]
    assert daemon.errors() == ""


def test_commands_work_on_it(daemon, command, settings):
    assert command("migrate", **settings).stdout.endswith(": up to date\n")
    daemon.deliver_octets("postmaster@tmpmaild.example", b"Subject: to you\r\n\r\nHello\r\n")
    assert "to you" in command("postmaster", **settings).stdout
