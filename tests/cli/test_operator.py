"""Error messages of the operator's commands: invalid arguments, and no running service."""

import asyncio
import errno
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tmpmaild import __version__
from tmpmaild.cli import configured, status
from tmpmaild.cli.hosts import host_as_text
from tmpmaild.cli.main import main
from tmpmaild.config.settings import Config, Storage
from tmpmaild.host import control
from tmpmaild.host.control import ControlServer
from tmpmaild.host.status import Numbers, Served, StatusReport
from tmpmaild.metrics import Count, Gauge

ROOT = Path(__file__).parents[2]
STATUS = """\
tmpmaild {version} has been running for 0 s, NOT READY: storage full
  domains   tmp.example
  HTTP      127.0.0.1:8025
  SMTP      0.0.0.0:25, [::]:25
  metrics   off
  stored    2 inboxes, 2 messages
  storage   0.0 MiB of 0.0 MiB used, write-ahead log 0.0 MiB, 0.0 MiB of the disk free
  swept     2 s ago
  open      2 SMTP sessions, 2 HTTP connections, 2 streams
  messages  1,000 accepted, 2 refused after their content was received, 0 negative SMTP replies
  requests  0
"""


def metrics(value):
    """Return the metrics that the status of a service is computed from."""
    names = {
        *("storage_inboxes", "storage_messages", "storage_used_bytes", "storage_max_bytes", "storage_free_disk_bytes"),
        *("storage_wal_bytes", "smtp_sessions", "http_connections", "http_streams", "sweep_age_seconds"),
        *("http_unreadable_forwarded_for_total", "http_untrusted_forwarded_for_total"),
    }
    mails = Count("smtp_mails_total", "", ("result", "status"))
    mails.add("accepted", "2.0.0", by=1000)
    mails.add("refused", "4.3.1", by=value)
    counts = (mails, Count("smtp_refusals_total", "", ("code",)), Count("http_requests_total", "", ("status",)))
    return [*counts, *(Gauge(name, "", lambda: value) for name in names)]


def test_unblock_describes_only_what_it_unblocks(run):
    block, unblock = (" ".join(run(name, "--help").stdout.split()) for name in ("block", "unblock"))
    for text in ("addresses with this local part cannot be created", "Blocked clients can neither"):
        assert (text in block, text in unblock) == (True, False)
    assert "addresses with this local part can be created again" in unblock


def test_an_unreadable_configuration_is_reported_as_a_configuration_error(run, tmp_path, monkeypatch):
    def refuse(*_args, **_named):
        raise PermissionError(13, "Permission denied")

    (config := tmp_path / "config.toml").touch()
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(Path, "read_text", refuse)
    done = run("check-config", "--config", str(config))
    said = (
        f"{config}: cannot be read: Permission denied; the service's user must be able to read it: chmod 0644 {config}"
    )
    assert (done.exit_code, done.stderr) == (78, f"tmpmaild: {said}\n")


def test_a_command_names_the_file_found_in_the_current_folder_and_refuses_one_of_another_user(tmp_path, monkeypatch):
    (tmp_path / "tmpmaild.toml").write_text(f'[storage]\npath = "{tmp_path}/mail.db"\n')
    monkeypatch.chdir(tmp_path)
    for command in (["status"], ["blocks"], ["migrate"], ["postmaster"]):
        done = CliRunner().invoke(main, command, env={})
        assert done.stderr.startswith("tmpmaild: configuration: tmpmaild.toml\n")
        assert "tmpmaild: configuration" not in CliRunner().invoke(main, [*command, "--config", "tmpmaild.toml"]).stderr
    tmp_path.chmod(0o777)
    for command in (["status"], ["blocks"], ["migrate"], ["postmaster"], ["check-config"], ["send", "a@b"], ["serve"]):
        done = CliRunner().invoke(main, command, env={})
        assert (done.exit_code, done.stdout) == (78, "")
        assert "everyone may write here; another user could have written this configuration" in done.stderr
    assert "problem  configuration: " in CliRunner().invoke(main, ["doctor"], env={}).stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[storage]\npath = "none/mail.db"', "storage.path: {here}/none: no such folder"),
        ('[storage]\npath = "{here}"', "storage.path: {here}: is a folder; expected a file"),
        ('[control]\nlisten = "unix:{here}/none/x.sock"', "control.listen: {here}/none: no such folder"),
        ('[http]\nlisten = ["unix:{here}/none/x.sock"]', "http.listen: {here}/none: no such folder"),
        ('[metrics]\nlisten = "unix:{here}/none/x.sock"', "metrics.listen: {here}/none: no such folder"),
        ('[smtp]\ntls_certificate = "{here}/none.pem"\ntls_key = "{here}/none.key"', "{here}/none.pem"),
        (
            '[storage]\nurl = "postgresql://u@127.0.0.1/x"\npassword_file = "{here}/none"',
            "storage.password_file: {here}/none: No such file or directory",
        ),
        ('[storage]\npath = "/var/lib/tmpmaild/mail.db"\n[control]\nlisten = "unix:/run/tmpmaild/x.sock"', ""),
        ('[smtp]\ntls_certificate = "/run/credentials/x/c"\ntls_key = "/run/credentials/x/k"', ""),
    ],
    ids=range(9),
)
def test_a_missing_configured_file_is_an_error(tmp_path, monkeypatch, text, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.toml").write_text(text.replace("{here}", str(tmp_path)))
    done = CliRunner().invoke(main, ["check-config", "--config", "x.toml"], env={})
    assert (done.exit_code, done.stdout) == ((78, "") if said else (0, "x.toml: ok\n"))
    assert said.replace("{here}", str(tmp_path)) in done.stderr
    assert done.stderr.count("\n") == bool(said)


def test_a_folder_that_only_the_service_may_search_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "x.toml").write_text(f'[storage]\npath = "{tmp_path}/private/mail.db"')
    read, private = Path.stat, tmp_path / "private"

    def forbid(path, **options):
        if private in (path, *path.parents):
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(path, **options)

    monkeypatch.setattr(Path, "stat", forbid)
    done = CliRunner().invoke(main, ["check-config", "--config", str(tmp_path / "x.toml")], env={})
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.parametrize("command", [["status"], ["purge", "--all", "--yes"], ["restore", "x"], ["serve"], ["doctor"]])
def test_a_deleted_current_folder_is_reported_in_one_line(tmp_path, monkeypatch, command):
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = CliRunner().invoke(main, command, env={})
    assert done.exit_code == 1
    assert "storage.path: tmpmaild.db is in the current directory: No such file or directory\n" in done.output
    assert isinstance(done.exception, SystemExit)


def test_free_space_that_the_file_system_does_not_report_is_unknown():
    numbers = Numbers(**dict.fromkeys(Numbers.__struct_fields__, 0))
    assert ", 0.0 MiB of the disk free" in status._on_disk(numbers)
    assert status._on_disk(replace(numbers, free_disk_bytes=None)).endswith(", free disk space unknown")
    assert status._on_disk(replace(numbers, free_disk_bytes=None, wal_bytes=None)) == " by all daemons together"


async def test_keys_that_need_a_restart_are_in_the_status(run, tmp_path):
    config = Config(storage=Storage(path=str(tmp_path / "mail.db")))
    report = StatusReport(metrics(2), lambda: "", Served(["tmp.example"], [], [], [], []))
    with control.bound(config, {}) as listener:
        server = ControlServer(report.commands())
        await server.start(listener)
        report.reloaded(["new.example"], ["storage.path", "http.listen"])
        changed, as_json = [await asyncio.to_thread(run, "status", *more) for more in ([], ["--json"])]
        report.reloaded(["tmp.example"], [])
        reverted = await asyncio.to_thread(run, "status")
        await server.stop()
    lines = ["  restart   needed for changed keys: storage.path, http.listen", "  domains   new.example"]
    assert changed.stdout.splitlines()[1:3] == lines
    assert json.loads(as_json.stdout)["needs_restart"] == ["storage.path", "http.listen"]
    assert reverted.stdout.splitlines()[1] == "  domains   tmp.example"


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"TMPMAILD_STORAGE__PATH": "elsewhere.db"}, "storage.path"),
        ({"TMPMAILD_CONTROL__LISTEN": "unix:elsewhere.sock"}, "control.listen"),
    ],
)
def test_a_reload_that_does_not_find_the_service_names_the_key_that_may_have_changed(run, changed, key):
    done = run("reload", **changed)
    assert done.exit_code == 4
    assert (
        f"; if you have changed {key} since the service started, the service still uses its earlier control socket"
        in done.stderr
    )
    assert "if you have changed" not in run("inboxes", **changed).stderr


async def test_a_service_that_is_not_ready_gives_the_reason_and_an_exit_code(run, tmp_path):
    config = Config(storage=Storage(path=str(tmp_path / "mail.db")))
    served = Served(["tmp.example"], ["127.0.0.1:8025"], ["0.0.0.0:25", "[::]:25"], [], [])
    with control.bound(config, {}) as listener:
        server = ControlServer(StatusReport(metrics(2), lambda: "storage full", served).commands())
        await server.start(listener)
        text, as_json = [await asyncio.to_thread(run, "status", *more) for more in ([], ["--json"])]
        await server.stop()
    assert (text.exit_code, as_json.exit_code) == (3, 3)
    assert (json.loads(as_json.stdout)["ready"], json.loads(as_json.stdout)["reason"]) == (False, "storage full")
    assert text.stdout == STATUS.format(version=__version__)


@pytest.fixture
def run(tmp_path):
    environ = {"TMPMAILD_STORAGE__PATH": str(tmp_path / "mail.db")}
    (tmp_path / "tmpmaild.toml").touch()

    def run(*arguments, **more):
        return CliRunner().invoke(main, arguments, env=environ | more)

    return run


def test_one_of_several_daemons_is_selected_by_name(run, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    done = run("--instance", "2", "purge", "--all", "--yes")
    assert (done.exit_code, "/run/tmpmaild-2/control.sock" in done.stderr) == (4, True)
    assert run("--instance", "../x", "status").exit_code == 2


WRONG = {
    "status": [["x"], ["--unknown"]],
    "inboxes": [["x"], ["--client", "x"], ["--client", "10.0.0.0/8"], ["--client", "2001:db8::/48"], ["--client"]],
    "backup": [[], ["a", "b"]],
    "restore": [[], ["a", "b"]],
    "block": [[], ["--for", "1d"], ["--force"], ["x"]],
    "unblock": [[], ["x"]],
    "webhooks": [["x"], ["--pause", "a.example", "--forget", "a.example"], ["--for", "1h"], ["--resume"]],
    "purge": [
        [],
        ["x"],
        [""],
        ["a@b.test", "--all"],
        ["--all", "--expired", "--yes"],
        ["--all"],
        ["--client", ""],
        ["--client", "1.2.3.4/24"],
        ["a@b.test", "c@d.test"],
    ],
}


@pytest.mark.parametrize(
    ("command", "arguments"), [(command, arguments) for command, wrong in WRONG.items() for arguments in wrong]
)
def test_wrong_arguments_are_wrong_usage(run, command, arguments):
    done = run(command, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Error: " in done.stderr


@pytest.mark.parametrize(
    "arguments", [["inboxes"], ["purge", "--all", "--yes"], ["purge", "--client", "2001:db8::/64"]]
)
def test_the_error_of_a_command_without_a_service_is_one_line(run, arguments):
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (4, "")
    assert done.stderr.startswith("tmpmaild: no service is listening at ")
    assert done.stderr.count("\n") == 1


def test_with_a_database_server_but_no_path_for_the_control_socket_a_command_names_the_missing_key(run):
    assert "control.listen" not in run("inboxes").stderr
    server = {"TMPMAILD_STORAGE__PATH": None, "TMPMAILD_STORAGE__URL": "postgresql://tmpmaild@127.0.0.1/tmpmaild"}
    done = run("inboxes", **server)
    assert (done.exit_code, done.stdout) == (4, "")
    assert done.stderr.endswith(
        "; with storage.url, also set control.listen, for example to unix:/run/tmpmaild/control.sock\n"
    )
    assert "control.listen" not in run("inboxes", **server, TMPMAILD_CONTROL__LISTEN="unix:none.sock").stderr


@pytest.mark.parametrize(("given", "seconds"), [(None, None), (0, None), (0.4, 1), (1.0, 1), (1.5, 2), (3600.0, 3600)])
def test_a_time_of_0_means_no_limit_in_every_command_that_has_a_time_limit(given, seconds):
    assert configured.limit_seconds(given) == seconds


def test_webhooks_whose_url_cannot_be_parsed_are_listed_as_such():
    entry = {"host": "", "webhooks": 3, "waiting": 0, "failing": 0, "paused": False, "called_at_ms": None}
    assert host_as_text(entry | {"last_result": ""}).endswith("-            (URL cannot be parsed)")
    assert "`(URL cannot be parsed)`" in (ROOT / "docs/operations.md").read_text()
