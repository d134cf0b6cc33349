"""Mail to a running service's postmaster and abuse addresses: junk from a few networks does not block other senders."""

import json
import smtplib
import urllib.request

import pytest

JUNK = b"Subject: junk\r\n\r\njunk\r\n"
SECRET = b"Subject: about your server\r\n\r\nsecret-octets\r\n"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, start_in):
    """Run a daemon that exempts no client, so that each loopback address is a separate client."""
    more = {"TMPMAILD_LIMITS__EXEMPT": "", "TMPMAILD_METRICS__LISTEN": "127.0.0.1:0"}
    return start_in(tmp_path_factory.mktemp("postmaster"), **more)


@pytest.fixture
def run(daemon, command):
    def run(*arguments):
        return command(*arguments, TMPMAILD_STORAGE__PATH=str(daemon.database), TMPMAILD_LIMITS__EXEMPT="")

    return run


def send(daemon, client, mail, count=1):
    """Send from this address until it is refused; return how many messages were accepted."""
    with daemon.smtp(source_address=(client, 0)) as connection:
        for number in range(count):
            try:
                connection.sendmail("a@example.com", ["postmaster@mail.example.com"], mail)
            except smtplib.SMTPRecipientsRefused as refused:
                (reply,) = refused.recipients.values()
            except smtplib.SMTPDataError as refused:  # RCPT uses slightly outdated figures, so DATA may be refused
                reply = refused.args
            else:
                continue
            assert (reply[0], reply[1][:5]) == (452, b"4.2.2")
            return number
    return count


def on_disk(daemon):
    return b"".join(daemon.database.with_name(f"tmpmaild.db{end}").read_bytes() for end in ("", "-wal"))


def metric(run, daemon, name):
    (where,) = json.loads(run("status", "--json").stdout)["served"]["metrics"]
    with urllib.request.urlopen(f"http://{where}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def checked(run):
    return next(one for one in json.loads(run("doctor", "--json").stdout)["results"] if one["check"] == "postmaster")


def test_junk_from_a_few_networks_blocks_no_other_mail_to_postmaster(daemon, run):
    assert checked(run)["level"] == "ok"
    assert [send(daemon, f"127.0.{network}.1", JUNK, 60) for network in range(1, 5)] == [50] * 4
    assert send(daemon, "127.0.9.9", SECRET) == 1
    listed = run("postmaster").stdout.splitlines()
    assert len(listed) - 1 == 200
    assert listed[1].endswith("about your server")
    assert metric(run, daemon, "tmpmaild_postmaster_given_way_total") == 1
    found = checked(run)
    assert (found["level"], "50 from 127.0." in found["text"]) == ("warning", True)

    secret_id = listed[1].split()[0]
    assert b"secret-octets" in on_disk(daemon)
    done = run("postmaster", "--delete", secret_id)
    assert (done.returncode, done.stdout) == (0, "1 message deleted, its mail erased\n")
    assert b"secret-octets" not in on_disk(daemon)
    done = run("postmaster", "--delete", secret_id)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "has no such message" in done.stderr
    assert metric(run, daemon, "tmpmaild_postmaster_used_ratio") == pytest.approx(199 / 200)
    assert run("postmaster", "--delete", "--all", "--yes").stdout == "199 messages deleted, their mail erased\n"
    assert run("postmaster").stdout == "no mail for postmaster or abuse\n"
    assert send(daemon, "127.0.1.1", JUNK) == 1
    assert metric(run, daemon, "tmpmaild_postmaster_used_ratio") == 0  # the metric is measured at each sweep


@pytest.mark.parametrize(
    "arguments", [["--delete"], ["--delete", "msg_x", "--all"], ["--all"], ["--yes"], ["--delete", "--all"]]
)
def test_deletions_are_specified_in_exactly_one_way(run, arguments):
    done = run("postmaster", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
