"""``tmpmaild doctor``: the results of each check, and the whole command with a running service."""

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import certificates
from tmpmaild import __version__
from tmpmaild.cli import doctor as results
from tmpmaild.cli.doctor import machine, network, ok, problem, warning
from tmpmaild.cli.main import main
from tmpmaild.config.settings import Addresses, Config, Http, Senders, Smtp, Storage, Webhooks
from tmpmaild.config.validators import parse_endpoint
from tmpmaild.errors import CommandError
from tmpmaild.host.status import Served, Status
from tmpmaild.storage.engines import SqliteSettings
from tmpmaild.webhooktargets import parse_rule
from zones import Zones, silent

DAY = 86_400
MIB = 1 << 20


def levels(results):
    return [one.level for one in results]


@pytest.fixture
def place():
    """Yield a socket that listens on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        yield server


def port(server):
    return f"127.0.0.1:{server.getsockname()[1]}"


# Connections


def running(smtp):
    """Return a running service that reports this SMTP address."""
    where = Served(domains=(), http=(), smtp=[smtp], smtps=(), metrics=())
    return machine.Running(1, Status(version="", uptime_seconds=0, ready=True, reason="", served=where, numbers=None))


def test_a_listener_that_is_not_a_service_is_reported(place, monkeypatch):
    monkeypatch.setattr(machine, "_SECONDS", 0.1)
    [silent] = machine.check_smtp(Config(), running(port(place)), None)
    assert (silent.level, silent.text.startswith(port(place))) == ("problem", True)
    proxied = Config(smtp=Smtp(trusted_proxies=(ip_network("127.0.0.0/8"),)))
    assert list(machine.check_smtp(proxied, running(port(place)), None)) == []


@pytest.mark.parametrize(
    ("changed", "level", "text"),
    [
        ({"ready": False, "reason": "storage full"}, "problem", "runs as process 1, but is not ready: storage full"),
        ({"version": "0.9"}, "warning", f"version 0.9 runs, {__version__} is installed"),
        (
            {"needs_restart": ["storage.path", "http.listen"]},
            "warning",
            "runs with the earlier values of storage.path, http.listen: changes to them need a restart",
        ),
    ],
)
def test_a_service_that_is_not_ready_or_has_another_version_or_earlier_values_is_reported(changed, level, text):
    service = running("")
    status = replace(service.status, **{"version": __version__, **changed})
    result = machine._judged(replace(service, status=status), Config())
    assert (result.level, result.text) == (level, text)


def test_a_service_without_the_configured_certificate_is_reported(daemon):
    place = f"127.0.0.1:{daemon.smtp_port}"
    result = machine._check_certificate(
        place, machine._connected(parse_endpoint(place), tls_first=False), b"a certificate"
    )
    assert (result.level, "does not offer STARTTLS" in result.text) == ("warning", True)


def test_the_resolver_is_queried(place, monkeypatch):
    with Zones("mail.example.com. 60 IN MX 10 mx.example.com.\n") as zones:
        [answered] = machine.resolver(Config(senders=Senders(resolver=zones.place)))
    assert zones.asked == [("mail.example.com", "MX")]
    dead = Senders(resolver=port(place), timeout_seconds=1)
    [silent] = machine.resolver(Config(senders=dead))
    assert levels([answered, silent]) == ["ok", "problem"]
    assert list(machine.resolver(Config())) == []
    monkeypatch.setitem(sys.modules, "tmpmaild.senders.resolver", None)
    [missing] = machine.resolver(Config(senders=dead))
    assert missing.text == "tmpmaild.senders.resolver is missing: the service does not start"


# Files


@pytest.fixture
def stored(tmp_path):
    tmp_path.chmod(0o700)
    for name in ("tmpmaild.db", "cert.pem", "key.pem"):
        (tmp_path / name).touch(mode=0o600)
    smtp = Smtp(tls_certificate=str(tmp_path / "cert.pem"), tls_key=str(tmp_path / "key.pem"))
    return Config(storage=Storage(path=str(tmp_path / "tmpmaild.db")), smtp=smtp)


@pytest.mark.parametrize(
    ("name", "mode", "expected"),
    [
        ("tmpmaild.db", 0o600, ["ok", "ok", "ok"]),
        ("tmpmaild.db", 0o640, ["problem", "ok", "ok"]),
        (".", 0o777, ["problem", "ok", "ok"]),
        (".", 0o755, ["ok", "ok", "ok"]),
        ("cert.pem", 0o644, ["ok", "ok", "ok"]),
        ("cert.pem", 0o666, ["ok", "problem", "ok"]),
        ("key.pem", 0o644, ["ok", "ok", "problem"]),
        ("key.pem", 0o640, ["ok", "ok", "ok"]),
    ],
)
def test_only_the_service_may_read_the_mail_and_the_key(stored, tmp_path, name, mode, expected):
    (tmp_path / name).chmod(mode)
    assert levels(machine.check_files(stored)) == expected


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of files")
@pytest.mark.parametrize("mode", [0o700, 0o755, 0o2775, 0o777], ids=oct)
def test_the_advice_for_a_database_in_roots_folder_keeps_the_service_able_to_open_it(tmp_path, mode):
    """On Kubernetes, root owns a volume, so the advice must be to change the folder's owner, not the files' owner."""
    for name in ("tmpmaild.db", "tmpmaild.db-wal", "tmpmaild.db-shm", "tmpmaild.db.lock"):
        (tmp_path / name).touch(mode=0o600)
        os.chown(tmp_path / name, 2525, 2525)
    tmp_path.chmod(mode)
    config = Config(storage=Storage(path=str(tmp_path / "tmpmaild.db")))
    found = [one for one in machine.check_files(config) if one.check == "database files"]
    assert [one.advice for one in found] == [f"chown 2525 {tmp_path} && chmod 0700 {tmp_path}"]
    subprocess.run(["/bin/sh", "-c", found[0].advice], check=True)
    assert levels(one for one in machine.check_files(config) if one.check == "database files") == ["ok"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of files")
def test_files_of_another_user_are_reported(stored, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "program", lambda _: ())  # tests may run the program from a home directory
    os.chown(tmp_path, 1, 1)
    found = list(machine.check_files(stored))
    assert levels(found) == ["problem", "warning", "warning"]
    assert found[0].advice == f"chown 1 {tmp_path}/tmpmaild.db"
    assert "cannot read it" in found[1].text
    # systemd 257 shows a dynamic user's folder with this owner; the user's groups are unknown.
    os.chown(tmp_path, 65534, 65534)
    (tmp_path / "key.pem").chmod(0o640)
    assert levels(found := list(machine.check_files(stored))) == ["problem", "warning", "ok"]
    assert "the service's user cannot read it" in found[1].text
    with monkeypatch.context() as handed_over:
        handed_over.setattr(machine, "CREDENTIALS", tmp_path)
        assert levels(machine.check_files(stored)) == ["problem", "ok", "ok"]
    (source := tmp_path / "config.toml").touch(mode=0o600)
    assert levels(machine.check_files(stored, source=source)) == ["problem", "problem", "warning", "ok"]
    source.chmod(0o640)
    assert levels(machine.check_files(stored, source=source)) == ["problem", "warning", "ok"]


@pytest.mark.parametrize(("mode", "is_dynamic", "expected"), [(0o600, True, 1), (0o600, False, 0), (0o644, True, 0)])
def test_a_configuration_that_the_service_cannot_read_at_its_next_start_is_reported(
    tmp_path, mode, is_dynamic, expected
):
    (source := tmp_path / "config.toml").touch()
    source.chmod(mode)
    pid = os.getpid()
    stored = Config(storage=Storage(path=str(tmp_path / "tmpmaild.db")))
    found = list(machine.check_files(stored, machine.Running(pid, None), source, is_dynamic=is_dynamic))
    said = [one for one in found if one.text == f"{source}: the service's user cannot read it"]
    assert len(said) == expected


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of files")
def test_an_access_control_list_may_let_the_service_read_the_key(stored, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "program", lambda _: ())
    os.chown(tmp_path, 1, 1)
    entries = [(0x01, 6, -1), (0x02, 4, 64357), (0x04, 0, -1), (0x10, 4, -1), (0x20, 0, -1)]  # acl(5)
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(tmp_path / "key.pem", "system.posix_acl_access", acl)
    except OSError as error:
        pytest.skip(f"this file system has no access control lists: {error}")
    assert levels(machine.check_files(stored)) == ["problem", "warning", "ok"]


def test_a_program_that_the_service_cannot_read_is_reported(tmp_path, monkeypatch):
    (tmp_path / "pyvenv.cfg").touch(mode=0o644)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    own = machine.Account(tmp_path.stat().st_uid, ())
    assert levels(machine.program(own)) == []
    (tmp_path / "pyvenv.cfg").chmod(0)
    assert levels(machine.program(machine.Account(0, ()))) == []
    assert [one.check for one in machine.program(machine.Account(4242, ()))] == ["program files"]


def test_missing_files(stored, tmp_path):
    (tmp_path / "key.pem").unlink()
    assert levels(machine.check_files(stored)) == ["ok", "ok", "problem"]
    credential = Smtp(tls_certificate=str(tmp_path / "cert.pem"), tls_key="/run/credentials/none.service/key.pem")
    handed = Config(storage=stored.storage, smtp=credential)
    assert levels(machine.check_files(handed)) == ["ok", "ok", "ok"]
    gone = Smtp(tls_certificate="/run/credentials/none.service/cert.pem", tls_key=credential.tls_key)
    assert levels(machine.check_certificate(Config(smtp=gone), "mx.example.org")) == []
    assert levels(machine.check_files(Config(storage=Storage(path=str(tmp_path / "none/tmpmaild.db"))))) == ["problem"]


# The machine


def test_the_free_space_is_compared_with_the_cap_and_the_reserve(tmp_path, monkeypatch):
    def found(cap, reserve):
        limits = {"max_messages_per_inbox": 100, "max_bytes_per_inbox": 1, "max_share_per_creator": 1.0}
        path = tmp_path / "tmpmaild.db"
        return machine.space(SqliteSettings(path=path, max_bytes=cap, reserve_bytes=reserve, **limits))

    assert found(MIB, MIB).level == "ok"
    free = shutil.disk_usage(tmp_path).free
    too_large, too_little = found(free * 11, MIB), found(MIB, 1 << 60)
    assert {too_large.level, too_little.level} == {"problem"}
    assert (too_large.advice, too_little.advice) == (
        "free disk space, or lower storage.max_bytes",
        "free disk space",  # a lower limit would not be enough
    )
    assert found(free, MIB).level == "warning"
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=0, used=0, free=0))
    limited, unlimited = found(MIB, MIB), found(0, MIB)
    assert limited.text == f"{tmp_path}: the file system does not report its free space; the database may use 1 MiB"
    assert (limited.level, unlimited.level) == ("ok", "warning")
    assert unlimited.text.endswith("may use 10240 MiB")


def test_files_that_cannot_be_examined_are_reported(tmp_path):
    gone = machine.Running(1 << 30, running("").status)
    assert levels(machine.limits(Config(), gone)) == ["warning"]
    (tmp_path / "tmpmaild.db").write_bytes(b"no database at all, but long enough to look at " * 50)
    sizes = {"max_bytes": 0, "reserve_bytes": 0, "max_messages_per_inbox": 0, "max_bytes_per_inbox": 0}
    settings = SqliteSettings(path=tmp_path / "tmpmaild.db", max_share_per_creator=1.0, **sizes)
    assert levels(machine.usable(settings)) == ["problem"]
    nowhere = replace(settings, path=tmp_path / "nowhere/tmpmaild.db")
    assert levels(machine.usable(nowhere)) == []
    assert machine.space(nowhere).level == "problem"


def test_a_control_socket_of_another_program_is_reported(monkeypatch):
    def fails(*_):
        raise CommandError("the response is not from tmpmaild")

    monkeypatch.setattr(machine.control, "request", fails)
    service, result = machine.find_service(Config())
    assert (service, result.level, result.text) == (None, "problem", "the response is not from tmpmaild")


def test_a_user_without_a_name_is_dynamic_and_an_unknown_clock_state_is_not_an_error(monkeypatch):
    assert machine._account(4_242_424, None) is None
    assert machine._name(4_242_424) == "4242424"
    monkeypatch.setattr(machine.ctypes, "CDLL", lambda _: None)
    assert (machine.clock().level, machine.clock().text) == ("ok", "cannot determine here whether it is synchronised")


def test_the_limits_of_the_process_are_compared_with_the_configuration():
    limits = "Max core file size        0                    unlimited            bytes     \n"
    limits += "Max open files            1024                 524288               files     \n"
    limits += "Max processes             unlimited            unlimited            processes \n"
    soft = [machine.soft_limit(limits, name) for name in ("Max open files", "Max core file size", "Max processes")]
    assert soft == [1024, 0, None]
    assert [machine.open_files(Config(), limit).level for limit in (1024, 16384, None)] == ["warning", "ok", "ok"]
    assert machine.open_files(Config(smtp=Smtp(max_connections=0)), 16384).level == "warning"


def test_a_limit_on_memory_that_the_largest_message_exceeds_is_reported():
    assert levels(machine.memory_for_mail(Config())) == []
    assert levels(machine.memory_for_mail(Config(smtp=Smtp(max_inflight_bytes=100)))) == ["warning"]
    [inbox] = machine.memory_for_mail(Config(addresses=Addresses(max_bytes=1000)))
    assert (inbox.check, inbox.text.partition(":")[0]) == ("addresses.max_bytes", "1000")
    assert inbox.advice == "set it to at least 26214400 (2.5 times smtp.max_message_bytes)"


# The certificate


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pem")
    for name in ("one", "other"):
        files = {"certificate": f"{name}.pem", "key": f"{name}.key"}
        dates = {"not_before": datetime.now(UTC), "not_after": datetime.now(UTC) + timedelta(days=30)}
        certificates.make(folder, "mx.example.org", "*.example.net", **files, **dates)
    (folder / "locked.key").write_text(
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
    )
    return folder


@pytest.mark.parametrize(
    ("key", "hostname", "days", "expected"),
    [
        ("one.key", "mx.example.org", 0, ["ok", "ok"]),
        ("one.key", "MX.example.net", 0, ["ok", "ok"]),
        ("one.key", "a.mx.example.net", 0, ["warning", "ok"]),
        ("one.key", "mx.example.com", 0, ["warning", "ok"]),
        ("one.key", "mx.example.org", 20, ["ok", "warning"]),
        ("one.key", "mx.example.org", 31, ["ok", "problem"]),
        ("one.key", "mx.example.org", -1, ["ok", "problem"]),
        ("other.key", "mx.example.org", 0, ["problem"]),
        ("locked.key", "mx.example.org", 0, ["problem"]),
        ("none.key", "mx.example.org", 0, ["problem"]),
    ],
)
def test_key_names_and_dates_of_a_certificate(pem, key, hostname, days, expected):
    config = Config(smtp=Smtp(tls_certificate=str(pem / "one.pem"), tls_key=str(pem / key)))
    assert levels(machine.check_certificate(config, hostname, time.time() + days * DAY)) == expected


def test_a_missing_certificate_is_reported():
    assert levels(machine.check_certificate(Config(), "mx.example.org")) == ["warning"]
    assert machine.leaf(Config()) is machine.leaf(Config(smtp=Smtp(tls_certificate="/nowhere.pem"))) is None


# Host names, port 25, and the proxy


@pytest.mark.parametrize("name", ["vm", "localhost", "vm.local", "vm.localdomain", "192.0.2.1", "2001:db8::1"])
def test_a_name_that_an_mx_record_cannot_have_is_reported(name):
    assert network.name_of_server(name).level == "warning"
    assert network.name_of_server("mx.example.org").level == "ok"


@pytest.mark.parametrize(
    ("listen", "level"), [("127.0.0.1:25", "warning"), ("0.0.0.0:1025", "warning"), ("[::]:25", "ok")]
)
def test_a_listener_that_other_mail_servers_cannot_use_is_reported(listen, level):
    assert network.port_25(Config(smtp=Smtp(listen=(listen,))), "mx.example.org").level == level


def test_a_service_with_port_25_from_systemd_is_reached_on_that_port():
    config = Config(smtp=Smtp(listen=("127.0.0.1:1025",)))
    assert network.port_25(machine.as_served(config, running("0.0.0.0:25")), "mx.example.org").level == "ok"
    assert network.port_25(machine.as_served(config, None), "mx.example.org").level == "warning"


@pytest.mark.parametrize(
    ("settings", "proxies", "expected"),
    [
        ({}, [], []),
        ({"public_url": "https://tmp.example.org"}, ["127.0.0.1"], ["ok"]),
        ({"public_url": "https://tmp.example.org"}, [], ["ok", "warning"]),
        ({"public_url": "https://tmp.example.org", "listen": ("unix:/run/x/http.sock",)}, [], ["ok"]),
        ({"public_url": "http://tmp.example.org"}, ["127.0.0.1"], ["warning"]),
        ({"listen": ("0.0.0.0:80",)}, [], ["warning"]),
        ({}, ["0.0.0.0/0"], ["problem"]),
        ({}, ["10.0.0.0/8", "::/0"], ["problem"]),
    ],
)
def test_the_proxy_in_front_of_http_is_checked(settings, proxies, expected):
    trusted = tuple(map(ip_network, proxies))
    assert levels(network.proxy(Config(http=Http(**settings, trusted_proxies=trusted)))) == expected


@pytest.mark.parametrize(
    ("domains", "level"),
    [
        (("mail.test", "example.org"), "warning"),
        (Config().domains, "warning"),
        (("example.org", "*.example.org"), "ok"),
        (("example.org", "*.mail.test"), "warning"),
    ],
)
def test_reserved_domains_are_reported(domains, level):
    assert network.domains(Config(domains=domains)).level == level


# DNS records to publish


def test_the_records_of_each_domain_and_of_the_mail_server():
    addresses = [ip_address(one) for one in ("9.9.9.9", "10.0.0.1", "2620:fe::fe")]
    found = network.wanted(Config(domains=("a.example", "b.example")), "mx.a.example", addresses)
    assert list(results.zone(found)) == [
        "mx.a.example. A 9.9.9.9",
        "mx.a.example. AAAA 2620:fe::fe",
        *(
            f"{name} {value}"
            for domain in ("a.example", "b.example")
            for name, value in [
                (f"{domain}.", "MX 10 mx.a.example."),
                (f"{domain}.", 'TXT "v=spf1 -all"'),
                (f"_dmarc.{domain}.", 'TXT "v=DMARC1; p=reject"'),
                (f"*._domainkey.{domain}.", 'TXT "v=DKIM1; p="'),
            ]
        ),
    ]


def test_a_wildcard_has_its_own_records_and_addresses_are_those_of_smtp_or_a_comment():
    found = network.wanted(Config(domains=("a.example", "*.a.example")), "mx.a.example", [])
    assert list(results.zone(found))[-2:] == ["*.a.example. MX 10 mx.a.example.", '*.a.example. TXT "v=spf1 -all"']
    checked = [network._text_records("DNS TXT *.a.example", network.SPF, [])]
    assert levels(checked) == ["warning"]
    found = network.wanted(Config(), "mx.example.org", [ip_address("10.0.0.1")])
    assert next(results.zone(found)) == "mx.example.org. A ; the public IP address of this machine"
    smtp = Smtp(listen=("127.0.0.1:25", "203.0.113.7:25", "[2001:db8::7]:25", "203.0.113.7:2525"))
    assert list(map(str, network.own_addresses(Config(smtp=smtp)))) == ["203.0.113.7", "2001:db8::7"]


# The report


def test_the_report_has_a_line_for_each_result_without_control_characters_and_a_summary():
    found = [ok("a", "fine"), warning("b", "odd\x1b[31m", "do"), problem("c", "bad")]
    assert results.as_text(found, []).splitlines() == [
        "ok       a: fine",
        "warning  b: odd\ufffd[31m -> do",
        "problem  c: bad",
        "1 problem, 1 warning",
    ]
    written = json.loads(results._as_json(found, network.wanted(Config(), "mx.example.org", [])))
    assert written["ok"] is False
    assert written["results"][1] == {"check": "b", "level": "warning", "text": "odd\x1b[31m", "advice": "do"}
    assert written["records"][0] == {"name": "mx.example.org", "type": "A", "value": ""}


# The command


@pytest.fixture
def examine(daemon, tmp_path):
    """Return a function that runs the command with the configuration of the running service."""
    (tmp_path / "tmpmaild.toml").touch()

    def examine(*arguments, **settings):
        environ = {
            "TMPMAILD_HTTP__LISTEN": f"127.0.0.1:{daemon.http_port}",
            "TMPMAILD_SMTP__LISTEN": f"127.0.0.1:{daemon.smtp_port}",
            "TMPMAILD_STORAGE__PATH": str(daemon.database),
            "TMPMAILD_SMTP__HOSTNAME": "mx.example.org",
            **settings,
        }
        return CliRunner().invoke(main, ["doctor", *arguments], env=environ)

    return examine


# Webhooks


@pytest.mark.parametrize(
    ("rules", "addresses", "said"),
    [
        (["hooks.example.org"], ["1.1.1.1"], ("ok", "hooks.example.org can be called")),
        (["hooks.example.org"], ["10.0.0.7", "1.1.1.1"], ("ok", "hooks.example.org can be called")),
        (
            ["hooks.example.org"],
            ["10.0.0.7"],
            ("problem", "hooks.example.org resolves to 10.0.0.7, which webhooks may not connect to"),
        ),
        (["hooks.example.org:8443", "10.0.0.7:8443"], ["10.0.0.7"], ("ok", "hooks.example.org can be called")),
        (["hooks.example.org:8443", "10.0.0.7"], ["10.0.0.7"], ("problem", "hooks.example.org resolves to 10.0.0.7,")),
        (["127.0.0.0/8"], [], ("warning", "127.0.0.0/8 includes this machine")),
        (["169.254.0.0/16:80"], [], ("warning", "169.254.0.0/16 includes a cloud's metadata service")),
        (["hooks.example.org"], OSError("no such name"), ("warning", "hooks.example.org: no such name")),
    ],
)
def test_a_webhook_target_that_cannot_or_should_not_be_called_is_reported(rules, addresses, said):
    def resolve(*_):
        if isinstance(addresses, OSError):
            raise addresses
        return addresses

    config = Config(webhooks=Webhooks(allow=tuple(map(parse_rule, rules))))
    _, result, *_ = network.check_targets(config, resolve)
    assert (result.check, result.level) == ("webhooks.allow", said[0])
    assert result.text.startswith(said[1])


def test_webhooks_that_are_off_or_only_match_a_name_are_not_looked_up():
    assert list(network.check_targets(Config(), None)) == []
    [authorities] = network.check_targets(Config(webhooks=Webhooks(allow=(parse_rule("*.example.org"),))), None)
    assert authorities.check == "authorities"


def test_a_running_service_responds_and_every_check_is_documented(daemon, examine):
    found = json.loads(examine("--json").stdout)
    said = {(one["check"], one["level"]): one["text"] for one in found["results"]}
    assert said["service", "ok"] == f"runs as process {daemon.process.pid} and is ready"
    assert "greeting and EHLO" in said["SMTP answers", "ok"]
    documented = (Path(__file__).parents[2] / "docs/operations.md").read_text()
    assert [check for check, _ in said if f"`{check}`" not in documented] == []
    assert {"configuration", "open files", "clock", "port 25"} <= {check for check, _ in said}


def test_the_exit_code_tells_whether_there_is_a_problem(examine):
    done = examine()
    assert (done.exit_code, done.stderr) == (0, "")
    assert "DNS records to publish:\n  mx.example.org. A " in done.stdout
    assert "\n0 problems, " in done.stdout
    done = examine(TMPMAILD_HTTP__TRUSTED_PROXIES="0.0.0.0/0")
    assert (done.exit_code, "\n1 problem, " in done.stdout) == (1, True)


def test_unknown_domains_errors_and_private_names_are_reported(examine):
    done = examine(TMPMAILD_DOMAINS="example.org")
    assert "warning  service: runs with different domains: mail.example.com -> systemctl reload" in done.stdout
    done = examine("--json", TMPMAILD_SMTP__LISTEN="nowhere", TMPMAILD_LOG__LEVEL="loud")
    assert done.exit_code == 1
    assert [one["level"] for one in json.loads(done.stdout)["results"]] == ["problem", "problem"]
    done = examine("--dns", TMPMAILD_SMTP__HOSTNAME="vm.local")
    assert "DNS: not compared, because the mail server has no public name" in done.stdout


@pytest.mark.parametrize("resolver", ["9.9.9.9", "dns.example.org:53", "9.9.9.9:0"])
def test_a_resolver_is_an_ip_address_and_a_port(examine, resolver):
    done = examine("--dns", "--resolver", resolver)
    assert (done.exit_code, "expected IP:PORT" in done.stderr) == (2, True)
    assert examine("--resolver", "9.9.9.9:53").exit_code == 2


def test_records_are_compared_with_those_of_a_resolver(examine):
    with Zones("mail.example.com. 60 IN MX 10 mx.example.org.\n") as zones:
        done = examine("--dns", "--resolver", zones.place, TMPMAILD_SMTP__LISTEN="0.0.0.0:25")
    assert "ok       DNS MX mail.example.com: " in done.stdout
    assert ("mail.example.com", "MX") in zones.asked


def test_a_resolver_that_does_not_respond_is_a_result_and_is_not_logged(tmp_path):
    environ = os.environ | {
        "TMPMAILD_STORAGE__PATH": str(tmp_path / "x.db"),
        "TMPMAILD_SMTP__HOSTNAME": "mx.example.org",
    }
    with silent() as dead:
        place = f"127.0.0.1:{dead.getsockname()[1]}"
        arguments = ["doctor", "--dns", "--resolver", place]
        code = f"from tmpmaild.cli.doctor import network; network._QUERY_SECONDS = 0.1; main({arguments})"
        command = [sys.executable, "-c", f"from tmpmaild.cli.main import main; {code}"]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert f"problem  DNS resolver: {place} does not respond" in done.stdout


def test_a_missing_dnspython_is_reported_with_the_package_to_install():
    code = 'import sys; sys.modules["dns"] = None; from tmpmaild.cli.main import main; main(["doctor", "--dns"])'
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"tmpmaild: --dns needs dnspython: {sys.executable} -m pip install dnspython\n"


def test_a_python_or_libc_that_was_never_tested_is_reported():
    assert list(machine.tried(13, "glibc")) == []
    assert levels(machine.tried(machine.PYTHONS[-1] + 1, "")) == ["warning", "warning"]
    classifiers = re.findall(r'Python :: 3\.(\d+)"', (Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert list(map(int, classifiers)) == list(machine.PYTHONS)
