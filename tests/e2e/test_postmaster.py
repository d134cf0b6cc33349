"""Mail to postmaster reaches the operator's console, and nobody else."""

import smtplib

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
