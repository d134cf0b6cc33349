"""How doctor evaluates the state that systemd reports for the service."""

import os
import shlex
from pathlib import Path

import pytest

import certificates
from tmpmaild.cli.doctor import machine, unit
from tmpmaild.cli.doctor.unit import Unit, judged
from tmpmaild.config.settings import Config, Smtp

SYSTEMCTL = (Path(__file__).with_name("scripts") / "systemctl.sh").read_text()
JOURNALCTL = """#!/bin/sh
case "$1" in
    --namespace=mail) echo "tmpmaild: the schema is older" ;;
    *) echo "tmpmaild: the schema is newer" ;;
esac
"""
RUNS = {"active": "active", "sub": "running", "result": "success", "exit_status": "0"}


def a_unit(**changes):
    start = {"name": "tmpmaild", "restarts": 0, "is_woken": False, "last_error": "", "credentials": {}, **RUNS}
    return Unit(**{**start, **changes})


@pytest.mark.parametrize(
    ("changes", "uptime_seconds", "expected"),
    [
        ({}, 5, []),
        # The service is running, but its control socket is disabled.
        ({}, None, []),
        (
            {
                "active": "failed",
                "sub": "failed",
                "result": "exit-code",
                "exit_status": "1",
                "last_error": "tmpmaild: the disk is full",
            },
            None,
            [
                (
                    "problem",
                    "tmpmaild.service fails (exit-code, exit status 1); the last error in its log: tmpmaild: the disk is full",
                )
            ],
        ),
        (
            {
                "active": "activating",
                "sub": "auto-restart",
                "restarts": 21,
                "result": "exit-code",
                "exit_status": "1",
                "last_error": "tmpmaild: the disk is full",
            },
            None,
            [
                (
                    "problem",
                    "tmpmaild.service fails (exit-code, exit status 1, restarted 21 times); the last error in its log: tmpmaild: the disk is full",
                )
            ],
        ),
        (
            {"active": "activating", "sub": "start", "restarts": 1, "result": "success", "exit_status": "0"},
            None,
            [("problem", "tmpmaild.service fails (restarted 1 time)")],
        ),
        ({"active": "activating", "sub": "start"}, None, [("warning", "tmpmaild.service is starting")]),
        ({"active": "inactive", "sub": "dead"}, None, [("problem", "tmpmaild.service is stopped")]),
        (
            {"active": "inactive", "sub": "dead", "is_woken": True},
            None,
            [("warning", "tmpmaild.service is stopped; the next connection starts it")],
        ),
        # The unit is inactive, but a service that was started by hand responds.
        ({"active": "inactive", "sub": "dead"}, 5, []),
        (
            {"restarts": 1, "last_error": "Fatal"},
            7200,
            [
                (
                    "warning",
                    "tmpmaild.service was restarted 1 time after a failure, most recently 7200 s ago; the last error in its log: Fatal",
                )
            ],
        ),
        (
            {"restarts": 40},
            2,
            [("problem", "tmpmaild.service was restarted 40 times after a failure, most recently 2 s ago")],
        ),
    ],
)
def test_a_service_that_fails_or_is_stopped_is_a_problem(changes, uptime_seconds, expected):
    assert [(one.level, one.text) for one in judged(a_unit(**changes), uptime_seconds)] == expected


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    """Return a function that puts fake systemd programs first in PATH; they report this state."""

    def systemd(*, load="loaded", active="failed", socket="inactive", instances="", namespace=""):
        state = {"load": load, "active": active, "socket": socket, "instances": instances, "namespace": namespace}
        lines = [f"{name}={shlex.quote(str(value))}\n" for name, value in {**state, "user": os.getuid()}.items()]
        (tmp_path / "unit.env").write_text("".join(lines))
        for name, script in (("systemctl", SYSTEMCTL), ("journalctl", JOURNALCTL)):
            (tmp_path / name).write_text(script)
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setattr(unit, "_BOOTED", tmp_path)
        return unit.read("tmpmaild")

    return systemd


def test_systemd_is_queried_for_the_unit_its_sockets_and_its_last_error(systemd):
    expected = a_unit(
        active="failed",
        sub="dead",
        result="exit-code",
        exit_status="1",
        restarts=7,
        last_error="tmpmaild: the schema is newer",
        credentials={"cert.pem": "/etc/pem/cert.pem"},
        environment={"TMPMAILD_HTTP__PUBLIC_URL": "https://x.example/a b", "TMPMAILD_LOG__LEVEL": "debug"},
        is_dynamic=True,
    )
    assert systemd() == expected
    assert systemd(socket="active").is_woken


def test_a_journal_namespace_of_the_service_is_read_and_named(systemd):
    found = systemd(namespace="mail")
    assert found.last_error == "tmpmaild: the schema is older"
    (result,) = judged(found, None)
    assert result.advice == "journalctl --namespace=mail -u tmpmaild; then systemctl restart tmpmaild"


def test_without_such_a_unit_or_with_instances_there_is_no_result(systemd, monkeypatch):
    assert systemd(load="not-found") is None
    assert systemd(active="inactive") is not None
    assert systemd(active="inactive", instances="tmpmaild@1.service loaded active running") is None
    monkeypatch.setattr(unit, "_BOOTED", Path("/no/such/folder"))
    assert unit.read("tmpmaild") is None


def test_the_certificate_that_systemd_passes_is_checked_and_a_renewed_one_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "CREDENTIALS", tmp_path / "run")
    (used := tmp_path / "run/tmpmaild.service").mkdir(parents=True)
    (source := tmp_path / "pem").mkdir()
    for folder in (used, source):
        certificates.make(folder, "mx.example.org")
    config = Config(smtp=Smtp(tls_certificate=str(used / "cert.pem"), tls_key=str(used / "key.pem")))
    passed = a_unit(credentials={name: str(source / name) for name in ("cert.pem", "key.pem")})
    loaded = machine.as_loaded(config, passed)
    assert (loaded.smtp.tls_certificate, loaded.smtp.tls_key) == (f"{source}/cert.pem", f"{source}/key.pem")
    (found,) = machine.renewed(config, loaded)
    assert (found.level, found.check) == ("warning", "certificate")
    assert f"{source}/cert.pem: differs from the certificate that the service was started with" in found.text
    assert [one.level for one in machine.check_certificate(loaded, "mx.example.org")] == ["ok", "ok"]
    assert list(machine.renewed(loaded, loaded)) == []
    assert machine.as_loaded(config, None) == machine.as_loaded(config, a_unit()) == config
