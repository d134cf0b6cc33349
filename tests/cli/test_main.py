"""The list of commands, ``serve --for-tests``, and the separation of service and client."""

import json
import smtplib
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

import daemons
import warm
from patience import PATIENCE_SECONDS
from tmpmaild import client as api
from tmpmaild.cli.main import main
from tmpmaild.cli.serving import FOR_TESTS
from tmpmaild.config import file as configfile
from tmpmaild.errors import ConfigError


@pytest.fixture
def started(tmp_path):
    """Return a function that starts the service for tests and returns the process and the addresses it reports."""
    running = []

    def start(*arguments, **variables):
        environ = daemons.environment(TMPDIR=str(tmp_path), **variables)
        given = {"cwd": tmp_path, "env": environ, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        command = [sys.executable, "-m", "tmpmaild", "serve", "--for-tests", *arguments]
        running.append(subprocess.Popen(command, **given))
        return running[-1], json.loads(running[-1].stdout.readline())

    yield start
    for process in running:
        process.kill()
        with process:  # close the pipes and wait for the process
            pass


def test_help_lists_every_command_once_under_its_heading():
    help_text = CliRunner().invoke(main, ["--help"], terminal_width=200).output
    people, operators = help_text.split("Mail for people and tests:")[1].split("Running the service:")
    names = [[line.split()[0] for line in part.splitlines() if line.strip()] for part in (people, operators)]
    assert names[0][:3] == ["new", "watch", "wait"]
    assert {"serve", "doctor", "purge"} < set(names[1])
    assert sorted(names[0] + names[1]) == sorted(main.commands)


def test_the_help_of_options_that_two_commands_have_mentions_only_options_of_the_same_command():
    serve, catch = (
        CliRunner().invoke(main, [name, "--help"], terminal_width=200).output for name in ("serve", "catch")
    )
    assert serve.count("  With --catch-all: ") == 2
    assert {"--host", "--auth"} < set(catch.split())
    assert "--catch-all" not in catch
    assert "When catching" not in catch


def test_it_prints_its_addresses_and_stops_with_its_parent_leaving_nothing_behind(started, tmp_path):
    process, places = started()
    assert places["smtps"] is None
    with api.Client(places["http"]) as client:
        inbox = client.create()
        with smtplib.SMTP(*places["smtp"].split(":"), local_hostname="localhost") as server:
            server.login("any", "thing")
            server.sendmail("a@shop.example", [inbox.address], "Subject: hello\r\n\r\n")
        assert client.domains() == ["mail.example.com"]
        assert [mail.subject for mail in inbox.messages()] == ["hello"]
    assert [file.name for file in tmp_path.glob("tmpmaild-*/*.db")] == ["tmpmaild.db"]
    process.stdin.close()
    assert process.wait(PATIENCE_SECONDS) == 0
    assert process.stdout.read() == ""
    assert list(tmp_path.iterdir()) == []


def test_a_file_overrides_the_limits_for_tests_and_a_variable_overrides_the_file(started, tmp_path):
    (tmp_path / "tmpmaild.toml").write_text("this is not read")
    file = tmp_path / "mail.toml"
    file.write_text('domains = ["file.example"]\n[http]\nlisten = ["unix:api.sock"]\n[log]\nformat = "json"\n')
    variables = {"TMPMAILD_DOMAINS": "variable.example", "TMPMAILD_HTTP__LISTEN": "0.0.0.0:0"}
    _, places = started("--config", str(file), **variables)
    assert places["http"].startswith("http://127.0.0.1:")
    with api.Client(places["http"]) as client:
        assert client.domains() == ["variable.example"]
    _, places = started(TMPMAILD_CONFIG=str(file))
    assert places["http"].startswith("unix:")


def test_a_specified_database_must_not_exist_and_is_deleted_at_the_end(started, tmp_path):
    database = tmp_path / "own" / "mail.db"
    database.parent.mkdir()
    process, _ = started(TMPMAILD_STORAGE__PATH=str(database))
    assert database.exists()
    process.stdin.close()
    assert process.wait(PATIENCE_SECONDS) == 0
    assert not database.parent.exists()


def test_an_unsuccessful_wait_reports_the_refusals(started):
    _, places = started()
    with api.Client(places["http"]) as client, smtplib.SMTP(*places["smtp"].split(":")) as server:
        inbox = client.create()
        server.ehlo("shop.example")
        server.mail("a@shop.example")
        server.rcpt("kate@mial.example.com")
        request = f"{places['http']}/api/v1/addresses/{inbox.address}/messages?wait=1&has=code&explain=true"
        reason = json.loads(urllib.request.urlopen(request).read())["reason"]
        assert reason == "no message arrived; refused: RCPT TO:<kate@mial.example.com>: 550 5.7.1 Relaying denied"


def test_an_application_that_keeps_its_connection_may_name_any_number_of_unknown_recipients(started):
    _, places = started()
    with smtplib.SMTP(*places["smtp"].split(":"), local_hostname="localhost") as server:
        server.ehlo()
        server.mail("a@shop.example")
        codes = {server.rcpt(f"nobody{number}@mail.example.com")[0] for number in range(300)}
    assert codes == {550}


def test_a_variable_enables_it_in_a_container_without_standard_input(tmp_path):
    environ = daemons.environment(TMPDIR=str(tmp_path), TMPMAILD_FOR_TESTS="true", TMPMAILD_SMTP__LISTEN="127.0.0.1:0")
    given = {"cwd": tmp_path, "env": environ, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-m", "tmpmaild", "serve"], **given) as process:
        places = json.loads(process.stdout.readline())
        with api.Client(places["http"]) as client:
            assert [client.domains() for _ in range(12)][-1] == ["mail.example.com"]
        process.terminate()
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_its_limits_are_existing_settings():
    config = configfile.load(Path("/dev/null"), {}, FOR_TESTS)
    assert (config.smtp.auth, config.rate_limit.requests_per_minute) == ("any", 0)
    with pytest.raises(ConfigError, match=r"defaults: smtp\.nonsense: unknown key"):
        configfile.load(Path("/dev/null"), {}, {"smtp.nonsense": 1})


def test_a_temporary_database_with_a_database_server_is_an_error():
    environ = daemons.environment(TMPMAILD_CONFIG="/dev/null", TMPMAILD_STORAGE__URL="postgresql://me@db/mail")
    done = warm.run(["serve", "--temporary"], env=environ)
    assert (done.returncode, "but storage.url is set" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "status"), [(["--for-tests"], 1), (["--temporary", "--stop-with-stdin"], 0)], ids=["for tests", "any"]
)
def test_a_service_whose_standard_input_is_closed_leaves_nothing_behind(tmp_path, arguments, status):
    environ = daemons.environment(TMPDIR=str(tmp_path), TMPMAILD_CONFIG="/dev/null", **daemons.FREE_PORTS)
    command = [sys.executable, "-m", "tmpmaild", "serve", *arguments]
    database = tmp_path / "database"
    database.mkdir()
    done = subprocess.run(
        command, cwd=database, env=environ, stdin=subprocess.DEVNULL, check=False, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == status
    assert [path for path in tmp_path.rglob("*") if path != database] == []


WITHOUT_CLIENT = Path(__file__).with_name("scripts") / "without_client.py"


def python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def test_the_service_never_loads_the_client():
    done = python(
        "-c",
        "import tmpmaild.cli.main, tmpmaild.daemon, sys; print({'httpx2', 'mcp', 'tmpmaild.client'} & set(sys.modules))",
    )
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_a_missing_client_is_reported_with_the_package_to_install():
    done = python(WITHOUT_CLIENT)
    assert done.stdout == "2\n2\n2\n2\n"
    assert done.stderr == (
        3 * "tmpmaild: the client needs httpx2: pip install httpx2\n"
        + "tmpmaild: the MCP server needs the MCP SDK: pip install mcp httpx2 pydantic\n"
    )


def test_the_commands_never_load_the_service():
    done = python(
        "-c", "import tmpmaild.cli.main, sys; print({'hypercorn', 'starlette', 'aiosmtpd'} & set(sys.modules))"
    )
    assert (done.stdout, done.stderr) == ("set()\n", "")
