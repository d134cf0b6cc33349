"""The operator's commands with a PostgreSQL database, with and without a running daemon, and doctor's results."""

import json
import re
import subprocess
import urllib.request
from pathlib import Path

import pytest

import warm
from daemons import FREE_PORTS, environment
from patience import PATIENCE_SECONDS
from tmpmaild.cli.doctor import database
from tmpmaild.config import databaseurl
from tmpmaild.storage import engines
from tmpmaild.storage.engines import PostgresqlSettings, ServerFacts, steps_in

LIMITS = {"max_bytes": 0, "reserve_bytes": 0, "max_messages_per_inbox": 0, "max_bytes_per_inbox": 0}
MEASURED = {"TMPMAILD_METRICS__LISTEN": "127.0.0.1:0"}


@pytest.fixture(scope="module")
def name(cluster):
    return cluster.database()


@pytest.fixture(scope="module")
def settings(cluster, name):
    return {"TMPMAILD_STORAGE__URL": cluster.url(name)}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, settings, start_in):
    return start_in(tmp_path_factory.mktemp("postgresql"), TMPMAILD_LIMITS__EXEMPT="", **settings, **MEASURED)


@pytest.fixture
def run(daemon, settings):
    """Return a function that runs a command in the daemon's folder, where its control socket is."""

    def run(*arguments, cwd=None, **more):
        env = environment(**{**settings, "TMPMAILD_SMTP__HOSTNAME": "mx.example.org", **more})
        return warm.run(map(str, arguments), cwd=cwd or daemon.folder, env=env)

    return run


def facts(cluster, name, user="tmpmaild"):
    url = databaseurl.parse(cluster.url(name, user))
    return engines.server_facts(PostgresqlSettings(url=url, max_share_per_creator=1.0, **LIMITS))


def levels(results):
    return [one.level for one in results]


def test_status_reports_the_content_with_and_without_the_service(daemon, run, tmp_path):
    daemon.deliver_raw(daemon.create(), b"Subject: one\r\n\r\n")
    done = run("status", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr, found["ready"]) == (0, "", True)
    numbers = found["numbers"]
    inboxes, messages = numbers["inboxes"], numbers["messages"]
    assert (inboxes > 0, messages > 0, numbers["wal_bytes"]) == (True, True, None)
    assert "of 10.0 GiB used by all daemons together\n" in run("status").stdout
    done = run("status", cwd=tmp_path)  # in this folder there is no daemon to respond
    assert done.returncode == 4
    assert "database  postgresql://tmpmaild@" in done.stdout
    stored = f"{inboxes} inbox{'es' * (inboxes > 1)}, {messages} message{'s' * (messages > 1)}"
    assert f"stored    {stored}\n" in done.stdout
    assert "stopped" not in done.stdout
    alone = json.loads(run("status", "--json", cwd=tmp_path).stdout)
    assert (alone["running"], alone["clean_stop"], alone["messages"]) == (False, None, messages)
    assert alone["file_bytes"] > 1 << 20


def test_purge_block_and_postmaster_work(daemon, run):
    address = daemon.create()
    done = run("purge", address)
    assert (done.returncode, done.stdout.partition(";")[0]) == (0, "1 inbox purged")
    assert "docs/scaling.md" in done.stdout
    assert daemon.request(f"/api/v1/addresses/{address}").status == 410
    assert run("block", "--client", "192.0.2.0/24", "--name", "ada").stdout == "2 blocked\n"
    assert [line.split()[:2] for line in run("blocks").stdout.splitlines()] == [
        ["client", "192.0.2.0/24"],
        ["name", "ada"],
    ]
    assert run("unblock", "--name", "ada").stdout == "1 unblocked\n"
    daemon.deliver_raw("postmaster@mail.example.com", b"Subject: to you\r\n\r\nHello\r\n")
    line = run("postmaster").stdout.splitlines()[1]
    assert line.endswith("to you")
    assert run("postmaster", line.split()[0]).stdout.endswith("Hello\n")


def test_backup_and_restore_name_commands_of_postgresql_that_work(cluster, daemon, run, tmp_path):
    daemon.create()
    file = tmp_path / "a copy"
    done = run("backup", file)
    assert (done.returncode, done.stdout, file.exists()) == (1, "", False)
    said, command = done.stderr.splitlines()
    assert "PostgreSQL" in said
    subprocess.run(["sh", "-c", command.removeprefix("tmpmaild: ")], check=True, timeout=PATIENCE_SECONDS)
    assert file.stat().st_size > 1000
    empty = {"TMPMAILD_STORAGE__URL": cluster.url(cluster.database())}
    done = run("restore", file, **empty)
    said, command = done.stderr.splitlines()
    assert (done.returncode, "no daemon runs" in said) == (1, True)
    subprocess.run(["sh", "-c", command.removeprefix("tmpmaild: ")], check=True, timeout=PATIENCE_SECONDS)
    alone = {"TMPMAILD_CONTROL__LISTEN": "off"}
    held = [json.loads(run("status", "--json", **alone, **more).stdout)["inboxes"] for more in ({}, empty)]
    assert held[0] == held[1] > 0
    secret = "postgresql://ada:secret@db1.example.org,db2.example.org:5433/mail"
    done = run("backup", file, TMPMAILD_STORAGE__URL=secret)
    assert "--host=db1.example.org,db2.example.org --port=5432,5433 --username=ada mail" in done.stderr
    assert "secret" not in done.stderr


def test_metrics_report_the_state_of_the_database(daemon, run):
    (where,) = json.loads(run("status", "--json").stdout)["served"]["metrics"]
    with urllib.request.urlopen(f"http://{where}/metrics", timeout=PATIENCE_SECONDS) as answer:
        page = answer.read().decode()
    assert float(re.search(r"^tmpmaild_storage_max_bytes (\S+)$", page, re.MULTILINE)[1]) == 10 << 30
    found = set(re.findall(r"^# TYPE (\w+)", page, re.MULTILINE))
    documented = (Path(__file__).parents[2] / "docs/metrics.md").read_text()
    assert sorted(one for one in found if f"`{one}`" not in documented) == []
    assert {"tmpmaild_storage_commit_seconds", "tmpmaild_sweep_age_seconds"} < found


def test_doctor_checks_the_server(run, cluster, name):
    assert "any other role of the server can connect" in run("doctor").stdout
    cluster.execute(f"REVOKE CONNECT ON DATABASE {name} FROM PUBLIC")
    done = run("doctor", "--json", TMPMAILD_HTTP__LISTEN="127.0.0.1:0", TMPMAILD_SMTP__LISTEN="127.0.0.1:0")
    found = json.loads(done.stdout)["results"]
    said = {one["check"]: one for one in found}
    checks = [check for check in said if check.startswith("database") or check == "standby"]
    assert checks == [
        *("database server", "database schema", "database role", "standby", "database log"),
        *("database connections", "database clock"),
    ]
    assert {said[check]["level"] for check in checks} == {"ok"}
    assert "disk space" not in said
    version = cluster.execute("SELECT split_part(current_setting('server_version'), ' ', 1)")
    assert f": PostgreSQL {version}, " in said["database server"]["text"]
    documented = (Path(__file__).parents[2] / "docs/operations.md").read_text()
    assert [check for check in checks if f"`{check}`" not in documented] == []
    cluster.execute(f"GRANT CONNECT ON DATABASE {name} TO PUBLIC")


def test_doctor_explains_why_a_daemon_would_not_start(run, cluster, tmp_path):
    ascii_database = cluster.database(encoding="SQL_ASCII")
    for url, expected in {
        cluster.url(ascii_database): "its encoding is SQL_ASCII",
        cluster.url("nowhere"): 'database "nowhere" does not exist',
        f"postgresql://ada:secret@/x?host={tmp_path}": "No such file or directory",
    }.items():
        done = run("doctor", TMPMAILD_STORAGE__URL=url)
        line = next(line for line in done.stdout.splitlines() if "database server" in line)
        assert (done.returncode, line.startswith("problem"), expected in line) == (1, True, True), line
        assert "secret" not in done.stdout + done.stderr


def test_the_advice_for_a_refused_connection_names_the_setting_to_correct():
    refused = 'storage.url: 127.0.0.1:5432/mail: password authentication failed for user "tmpmaild"'
    assert "storage.password_file" in database.at_fault(refused)
    assert database.at_fault("/none (storage.password_file): cannot be read: No such file") == "this setting"
    assert "storage.url" in database.at_fault("storage.url: db:5432/mail: Connection refused")


def test_every_command_reports_a_database_that_cannot_be_used_without_its_password(run, cluster, name):
    other, closed = cluster.database(), cluster.database()
    cluster.execute("CREATE TABLE customers (id integer)", "SELECT 1", database=other)
    cluster.execute("DROP ROLE IF EXISTS stranger")
    cluster.execute("CREATE ROLE stranger LOGIN")
    cluster.execute(f"REVOKE CONNECT ON DATABASE {closed} FROM PUBLIC")
    newest = max(steps_in("migrations/postgresql"))
    later = f"{newest + 1}, 'later', {newest + 1}, shape"
    newer = f"INSERT INTO schema_step SELECT {later} FROM schema_step WHERE number = {newest}"
    cluster.execute(newer, database=name)
    missing = "postgresql://me:hunter2@127.0.0.1:1/mail?sslmode=verify-full&sslrootcert=/nowhere.pem"
    cases = {
        "mysql://me:hunter2@db/mail": "storage.url: expected postgresql://[user@]host",
        missing.partition("&")[0]: "does not exist or cannot be accessed; set sslrootcert in storage.url",
        missing: "/nowhere.pem (sslrootcert in storage.url): cannot be read: No such file or directory",
        cluster.url(
            other, "tmpmaild:hunter2"
        ): "the database contains other tables (such as customers); create a database only for",
        cluster.url(
            name, "stranger:hunter2"
        ): "the role has insufficient rights (permission denied for table schema_step)",
        cluster.url(closed, "stranger:hunter2"): "permission denied for database",
        cluster.url(
            name, "tmpmaild:hunter2"
        ): f"the schema is from a newer tmpmaild (step {newest + 1}); this version supports step {newest}",
    }
    for url, expected in cases.items():
        for command in ("serve", "doctor"):
            done = run(command, **FREE_PORTS | {"TMPMAILD_STORAGE__URL": url})
            said = done.stdout + done.stderr
            assert (done.returncode == 0, expected in said) == (False, True), (command, said)
            assert "hunter2" not in said
            assert "Traceback" not in said
    cluster.execute(f"DELETE FROM schema_step WHERE number = {newest + 1}", database=name)
    for command in ("status", "postmaster"):
        for url, expected in {
            cluster.url(other): "it has no tmpmaild tables yet; tmpmaild migrate creates them",
            cluster.url(name, "stranger"): "the role has insufficient rights (permission denied for table",
        }.items():
            done = run(command, cwd="/", TMPMAILD_STORAGE__URL=url)
            assert (done.returncode, expected in done.stderr) == (1, True), done.stderr


def test_settings_by_which_mail_gets_into_the_log_are_named(cluster):
    name = cluster.database()
    set_to = "ALTER DATABASE {} SET {} = {}"
    for setting, value in {"log_min_duration_statement": "250", "log_parameter_max_length_on_error": "64"}.items():
        cluster.execute(set_to.format(name, setting, value))
    found = database.log(facts(cluster, name).settings)
    assert found.level == "problem"
    assert found.text.startswith("log_min_duration_statement = 250, log_parameter_max_length_on_error = 64: ")
    for setting in ("log_parameter_max_length", "log_parameter_max_length_on_error"):
        cluster.execute(set_to.format(name, setting, 0))
    assert database.log(facts(cluster, name).settings).level == "ok"


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        ({"log_statement": "ddl"}, "ok"),
        ({"log_statement": "mod"}, "problem"),
        ({"log_min_duration_sample": "0"}, "problem"),
        ({"log_transaction_sample_rate": "0.5"}, "problem"),
        ({"log_statement": "all", "log_parameter_max_length": "0"}, "ok"),
        ({"auto_explain.log_min_duration": "0", "log_parameter_max_length": "0"}, "problem"),
        ({"auto_explain.log_min_duration": "0", "auto_explain.log_parameter_max_length": "0"}, "ok"),
        ({"pgaudit.log_parameter": "on"}, "problem"),
    ],
)
def test_the_log_settings_of_the_server_are_checked(settings, level):
    assert database.log(settings).level == level


@pytest.mark.parametrize(
    ("check", "known", "level", "text"),
    [
        ("schema", {"schema_step": 2, "known_step": 3, "schema_refusal": ""}, "warning", "step 2 of 3"),
        ("standby", {"standby_names": "b", "standbys": 0}, "problem", "b: no standby is connected"),
        ("standby", {"standby_names": "b", "standbys": 1}, "ok", "commits wait for b; 1 connected"),
        ("clock", {"clock_ahead_seconds": 3.0}, "warning", "3 s ahead of this machine's"),
        ("clock", {"clock_ahead_seconds": -3.0}, "warning", "3 s behind this machine's"),
    ],
)
def test_the_schema_standby_and_clock_of_a_server_are_checked(check, known, level, text):
    more = [1] if check == "standby" else []
    result = getattr(database, check)(server(**known), *more)
    assert (result.level, result.text.startswith(text)) == (level, True)


@pytest.mark.parametrize(
    ("has_tls", "mode", "level", "text"),
    [
        (False, "require", "warning", "not used, so mail is sent"),
        (True, "require", "warning", "sslmode is require: an attacker on the network"),
        (True, "verify-full", "ok", "sslmode is verify-full"),
    ],
)
def test_the_protection_of_mail_on_its_way_to_a_remote_server_is_checked(has_tls, mode, level, text):
    (result,) = database.tls(server(is_remote=True, has_tls=has_tls), mode)
    assert (result.level, result.text.startswith(text)) == (level, True)


def server(**known):
    """Return the facts about a server; omitted facts are None."""
    return ServerFacts(**dict.fromkeys(ServerFacts.__struct_fields__) | known)


def test_a_new_or_full_database_and_a_powerful_role_are_reported(cluster):
    name = cluster.database()
    cluster.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 5")
    found = facts(cluster, name)
    assert (database.schema(found).level, database.schema(found).text) == ("warning", "does not exist yet")
    assert (found.free_connections, database.connections(found).level) == (4, "warning")
    assert levels(database.tls(found, "prefer")) == []
    assert database.standby(found, 2).level == "warning"
    assert (found.settings["autovacuum"], levels(database.vacuum(found.settings))) == ("on", [])
    assert levels(database.vacuum({"autovacuum": "off"})) == ["warning"]
    cluster.execute("DROP ROLE IF EXISTS visitor")  # all tests of a worker share the cluster
    cluster.execute("CREATE ROLE visitor LOGIN")
    assert database.role(facts(cluster, name, "visitor")).text == "may not create tables"
    cluster.execute("GRANT CREATE ON SCHEMA public TO visitor", database=name)
    assert database.role(facts(cluster, name, "visitor")).level == "warning"
    cluster.execute("REVOKE CREATE ON SCHEMA public FROM visitor", database=name)
    assert "superuser" in database.role(facts(cluster, name, "postgres")).text
    cluster.execute("GRANT CREATE ON SCHEMA public TO PUBLIC", database=name)
    assert "any other role can create functions" in database.role(facts(cluster, name)).text
    cluster.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC", database=name)


@pytest.mark.parametrize(
    ("change", "undo", "said"),
    [
        ("OWNER TO postgres", "OWNER TO tmpmaild", "the table usage belongs to the role postgres"),
        ("ADD surplus integer", "DROP surplus", "usage.surplus is new"),
    ],
)
@pytest.mark.usefixtures("daemon")
def test_a_table_owned_by_another_role_or_changed_by_hand_is_a_problem(cluster, name, change, undo, said):
    cluster.execute(f"ALTER TABLE usage {change}", database=name)
    found = database.schema(facts(cluster, name))
    cluster.execute(f"ALTER TABLE usage {undo}", database=name)
    whole = database.schema(facts(cluster, name))
    assert (found.level, said in found.text, whole.level) == ("problem", True, "ok")
