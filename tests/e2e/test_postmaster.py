"""Mail to postmaster reaches the operator's console, and nobody else."""

import email
import smtplib
import urllib.request

MAIL = b"From: Ada <ada@example.com>\r\nSubject: to \xff\x1b[2Jpostmaster\r\n\r\nHello \x1b[31moperator\r\n"


def send(daemon, *recipients):
    with smtplib.SMTP("127.0.0.1", daemon.smtp_port, local_hostname="[127.0.0.1]", timeout=30) as client:
        client.sendmail("bob@example.com", recipients, MAIL)


def test_the_operator_reads_the_mail_while_the_daemon_runs_and_after(start, command):
    daemon = start(TMPMAILD_SMTP__HOSTNAME="mx.mail.example.com")
    assert command("postmaster").stdout == "no mail for postmaster or abuse\n"
    send(daemon, "<postmaster>", "abuse@mail.example.com")
    while_it_runs = command("postmaster")
    heading, line = while_it_runs.stdout.splitlines()
    assert heading.split() == ["ID", "RECEIVED", "SIZE", "FROM", "TO", "SUBJECT"]
    assert "ada@example.com  postmaster " in line
    message_id = line.split()[0]
    shown = command("postmaster", message_id)
    assert shown.stdout.endswith("\n\nHello \ufffd[31moperator\n")
    assert "\x1b" not in while_it_runs.stdout + shown.stdout
    assert daemon.request("/api/v1/addresses/postmaster@mail.example.com/messages").status == 404
    assert daemon.stop() == 0
    assert command("postmaster").stdout == while_it_runs.stdout
    assert command("postmaster", message_id).stdout == shown.stdout
    assert daemon.errors() == ""


def test_a_source_carries_our_trace_and_names_one_recipient(start):
    daemon = start(TMPMAILD_SMTP__HOSTNAME="mx.mail.example.com")
    addresses = [daemon.create(), daemon.create()]
    send(daemon, *addresses)
    for address in addresses:
        (message,) = daemon.messages(address)
        url = f"{daemon.url}/api/v1/addresses/{address}/messages/{message['id']}/raw"
        with urllib.request.urlopen(url, timeout=30) as answer:
            source = answer.read()
        assert answer.headers["Content-Type"] == "message/rfc822"
        assert source.endswith(b"\r\n" + MAIL)
        parsed = email.message_from_bytes(source)
        assert parsed["Return-Path"] == "<bob@example.com>"
        assert parsed["Received"].startswith(
            "from [127.0.0.1] ([127.0.0.1])\r\n\tby mx.mail.example.com with ESMTP id msg_"
        )
        assert [one for one in addresses if one.encode() in source] == [address]


def test_the_command_explains_itself(command):
    helped = command("postmaster", "--help")
    assert helped.returncode == 0
    assert "--raw" in helped.stdout
    assert "with its control characters" in " ".join(helped.stdout.split())
