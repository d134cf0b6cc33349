"""What an operator does besides ``serve`` and ``doctor``: with the configuration, the database, the running service."""

import json
import os
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import asdict

from tmpmaild.cli import configured, console, control, named, postmaster
from tmpmaild.cli.configured import (
    EXIT_FAILED,
    EXIT_NOT_RUNNING,
    clear_errors,
    config_option,
    load,
    say,
    with_config,
    with_service,
)
from tmpmaild.cli.console import shown
from tmpmaild.config import databaseurl
from tmpmaild.config import file as configfile
from tmpmaild.config.databaseurl import DatabaseUrl
from tmpmaild.config.settings import Config
from tmpmaild.errors import CommandError, ConfigError
from tmpmaild.host.process import drop_to_owner, make_state_folder
from tmpmaild.host.status import Numbers, Status
from tmpmaild.mail import addresses
from tmpmaild.model import counted, rfc3339
from tmpmaild.storage import engines
from tmpmaild.storage.base import Summary

_EXIT_NOT_READY = 3
_INBOXES_HEADING = "EXPIRES                   CREATED                   MESSAGES       OCTETS  PRIVATE  ADDRESS"
_WEBHOOKS_HEADING = "WEBHOOKS  WAITING  FAILING  LAST CALL                 RESULT       HOST"
_MIB = 1 << 20
_GIB = 1 << 30
_count = partial(counted, spec=",")
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


@click.command("check-config")
@config_option
@clear_errors
def check_config(config_path: Path | None) -> None:
    """Read the configuration and list every mistake in it, and what it names that is not there.

    Variables of the environment that look like ours and set nothing are named, too.
    """
    source = configfile.find(config_path, os.environ)
    config = configfile.load(config_path, os.environ)
    drop_to_owner(Path(config.storage.path))
    if missing := [f"{source or 'defaults'}: {line}" for line in named.missing(config)]:
        raise ConfigError(missing)
    for line in configfile.variables_without_effect(os.environ):
        console.complain(line)
    say(f"{source or 'defaults'}: ok")


@click.command()
@config_option
@clear_errors
def migrate(config_path: Path | None) -> None:
    """Bring the database to the newest schema. ``serve`` does so too; use this to do it earlier."""
    config = load(config_path)
    settings = engines.settings_of(config)
    applied = engines.upgrade(settings)
    for name in applied:
        say(f"applied {name}")
    say(f"{settings.name}: {'migrated' if applied else 'up to date'}")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")
@with_service
def status(config: Config, *, as_json: bool) -> None:
    """Show how the service is: what it serves, holds and has done.

    If it does not run, what its database holds. Exit codes: 0 running and ready, 1 the service or the database cannot
    be asked, 3 running but not ready, 4 not running.
    """
    try:
        (found,) = control.ask(config, "status")
    except control.NotRunning as error:
        _show_database(config, str(error), as_json=as_json)
        sys.exit(EXIT_NOT_RUNNING)
    say(json.dumps(found) if as_json else of_service(found))
    sys.exit(0 if found["ready"] else _EXIT_NOT_READY)


def _show_database(config: Config, reason: str, *, as_json: bool) -> None:
    drop_to_owner(Path(config.storage.path))
    settings = engines.settings_of(config)
    stored = engines.summary(settings)
    name = settings.name
    say(json.dumps({"running": False} | asdict(stored)) if as_json else of_database(name, stored, reason))


@click.command()
@click.option("--client", metavar="IP", callback=configured.expect_client, help="Only those that this client created.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, for programs.")
@with_service
def inboxes(client: str | None, config: Config, *, as_json: bool) -> None:
    """List the inboxes that are alive, the next to expire first.

    A client is an IPv4 address, or the /64 of an IPv6 address. Inboxes of clients in limits.exempt belong to no client.
    Who knows the address of an inbox that is not private can read it: this list is for you alone.
    """
    line_of, heading = (_inbox_as_json, "") if as_json else (_inbox_as_text, _INBOXES_HEADING)
    _show(config, "inboxes", "inboxes", line_of, heading, client=client)


def _show(
    config: Config, command: str, member: str, line_of: Callable[[Any], str], heading: str = "", **arguments: Any
) -> None:
    """Print a list as it comes from the service: a line for each entry, which are in this member of its answers."""
    with console.output(EXIT_FAILED), control.asked(config, command, arguments) as answer:
        console.expect_output()
        if heading:
            console.say(heading)
        for part in answer.lines():
            for entry in part[member]:
                console.say(line_of(entry))


def _inbox_as_text(entry: dict[str, Any]) -> str:
    """Return the line of an inbox; the address is the last column since it may have any length."""
    return (
        f"{rfc3339(entry['expires_at_ms'])}  {rfc3339(entry['created_at_ms'])}  {entry['message_count']:8}"
        f"  {entry['stored_bytes']:11}  {'yes' if entry['private'] else 'no':7}  {shown(entry['address'])}"
    )


def _inbox_as_json(entry: dict[str, Any]) -> str:
    """Return the line of an inbox as an object, named as in the HTTP API."""
    return json.dumps(
        {
            "address": entry["address"],
            "created_at": rfc3339(entry["created_at_ms"]),
            "expires_at": rfc3339(entry["expires_at_ms"]),
            "private": entry["private"],
            "message_count": entry["message_count"],
            "stored_bytes": entry["stored_bytes"],
        }
    )


@click.command()
@click.argument("address", required=False, callback=configured.expect_address)
@click.option("--client", metavar="IP", callback=configured.expect_client, help="The inboxes that this client created.")
@click.option("--expired", is_flag=True, help="Those that have expired already and are not erased yet.")
@click.option("--all", "is_all", is_flag=True, help="All inboxes of everybody.")
@click.option("--yes", is_flag=True, help="Do not ask whether --all is meant.")
@with_service
def purge(address: str | None, client: str | None, config: Config, *, expired: bool, is_all: bool, yes: bool) -> None:
    """End the inbox ADDRESS, or several, now, and erase their mail from the disk.

    Their names are not given out again for a day, as after each inbox. Mail to postmaster and abuse stays.
    """
    if [address is not None, client is not None, expired, is_all].count(True) != 1:
        raise click.UsageError("exactly one of ADDRESS, --client, --expired and --all is expected")
    if is_all and not yes:
        _confirm("End all inboxes of everybody, and erase their mail?")
    wanted = {"address": address, "client": client, "expired": expired, "all": is_all}
    last = control.ask(config, "purge", wanted)[-1]
    _say_done(config, last, counted(last["ended"], "inbox", "inboxes") + " ended", is_one=last["ended"] == 1)


def _say_done(config: Config, last: dict[str, Any], done: str, *, is_one: bool) -> None:
    """Say what a command has done, also if it could not be finished. Raises ``CommandError`` then."""
    if trouble := last.get("trouble", ""):  # an older service sends none
        raise CommandError(f"{done}, then: {trouble}. It cannot be read any more; each sweep tries again to erase it.")
    say(f"{done}{_erased(config, last['erased'], 'its' if is_one else 'their')}")


def _erased(config: Config, erased: bool | None, whose: str) -> str:  # noqa: FBT001 - as it was answered
    if config.storage.url:
        return f"; {whose} mail is deleted, and stays in files of the database server for a while (docs/scaling.md)"
    if erased:
        return f", {whose} mail erased"
    return f"; {whose} mail is deleted, and erased from the file when no other process reads the database"


def _confirm(question: str) -> None:
    if not console.can_ask():
        raise click.UsageError("--all needs --yes where nobody can be asked")
    click.confirm(question, abort=True, err=True)


@click.command()
@click.argument("address", callback=configured.expect_address)
@click.option(
    "--day",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="YYYY-MM-DD",
    help="The day of the lines, in UTC; without it today.",
)
@config_option
@clear_errors
def audit(address: str, day: datetime | None, config_path: Path | None) -> None:
    """Print the hash that stands for ADDRESS in the lines of log.audit.

    Works whether the service runs or not, also for an address that has expired or never existed.
    """
    canonical = addresses.canonical(address)
    if canonical is None:
        raise click.BadParameter(f"an address is expected, like name@domain, not {address!r}", param_hint="ADDRESS")
    config = load(config_path)
    wanted = (day or datetime.now(UTC)).date().isoformat()
    say(engines.audit_hash(engines.settings_of(config), canonical, day=wanted))


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@with_service
def backup(file: Path, config: Config) -> None:
    """Write a copy of the whole database to FILE, which must not exist yet.

    Mail goes on coming in meanwhile. FILE holds all mail, also when it has expired in the service: delete it when it is
    no longer needed. With storage.url it says which command of PostgreSQL makes the copy.
    """
    if config.storage.url:
        raise CommandError(_dump(databaseurl.parse(config.storage.url), file))
    size_bytes = control.backup(config, file)
    say(f"{file}: {counted(size_bytes, 'octet')}")


def _dump(url: DatabaseUrl, file: Path) -> str:
    """Return what to do for a copy; the password is never in it."""
    command = shlex.join(["pg_dump", "--format=custom", f"--file={file}", *_server(url), url.database])
    return f"the mail is in PostgreSQL, whose own program makes the copy:\n{command}"


def _server(url: DatabaseUrl) -> list[str]:
    """Return the options by which PostgreSQL's programs find the server."""
    options = [f"--host={','.join(url.hosts)}", f"--port={','.join(map(str, url.ports))}"]
    return options + ([f"--username={url.user}"] if url.user else [])


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@with_config
def restore(file: Path, config: Config) -> None:
    """Put the copy FILE, which backup has made, in the place of a database that holds nothing.

    Refused while the service runs. It also makes the folder that the service's unit has below /var/lib, as systemd
    would. FILE stays: delete it. With storage.url it says which command of PostgreSQL restores a copy.
    """
    if config.storage.url:
        raise CommandError(_undump(databaseurl.parse(config.storage.url), file))
    path = Path(config.storage.path).absolute()
    make_state_folder(path.parent)
    drop_to_owner(path)
    from tmpmaild.storage.sqlite.restoring import restore as put_in_place  # noqa: PLC0415 - for this command alone

    found = put_in_place(file.absolute(), path)
    say(f"{path}: restored, with {found}; start the service: systemctl start tmpmaild")


def _undump(url: DatabaseUrl, file: Path) -> str:
    command = ["pg_restore", "--exit-on-error", "--no-owner", *_server(url), f"--dbname={url.database}", str(file)]
    return (
        "the mail is in PostgreSQL, whose own program restores the copy into an empty database while no daemon runs:\n"
        + shlex.join(command)
    )


@click.command()
@with_config
def reload(config: Config) -> None:
    """Make the service read its configuration again, as SIGHUP does.

    All of it takes effect. If anything in it is wrong, nothing does, and the mistakes are listed.
    """
    (done,) = control.ask(config, "reload")
    say("reloaded")
    if done["needs_restart"]:
        say(f"changed, and needs a restart: {', '.join(done['needs_restart'])}")
    if done.get("certificate"):  # an older service does not say it
        say(done["certificate"])


def _named(sender: str, name: str, client: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the options which name blocks, with these texts of help."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        options = (("sender", "SENDER", sender), ("name", "NAME", name), ("client", "NET", client))
        for option, metavar, text in options:
            command = click.option(f"--{option}", f"{option}s", metavar=metavar, multiple=True, help=text)(command)
        return command

    return decorate


def _expect_a_name(wanted: dict[str, Any]) -> None:
    if not any(wanted[kind] for kind in ("senders", "names", "clients")):
        raise click.UsageError("name what: --sender, --name or --client")


@click.command()
@_named(
    "An envelope sender, or all of a domain and those below it.",
    "Addresses with this local part: nobody can create one.",
    "An IP address or a network, such as 192.0.2.0/24.",
)
@click.option(
    "--for", "seconds", type=configured.Duration(), metavar="TIME", help="Such as 1d; without it, or 0: for good."
)
@click.option("--force", is_flag=True, help="Also this machine, trusted proxies, and who is exempt from limits.")
@with_service
def block(config: Config, *, seconds: float | None, **wanted: Any) -> None:
    """Block clients, names or senders from now on. Each option may be given more than once.

    Clients can neither connect to SMTP nor create addresses; what they have created already stays (see purge).
    """
    _expect_a_name(wanted)
    (done,) = control.ask(config, "block", {**wanted, "seconds": configured.limit_seconds(seconds)})
    say(f"{done['count']} blocked")


@click.command()
@_named(
    "A sender, or a domain whose senders were blocked: their mail is taken again.",
    "A local part that was blocked: addresses with it can be created again.",
    "A client that was blocked, or a network, written as it was then: it may connect again.",
)
@with_service
def unblock(config: Config, **wanted: Any) -> None:
    """End blocks that block has made, as blocks lists them. Each option may be given more than once."""
    _expect_a_name(wanted)
    (done,) = control.ask(config, "unblock", wanted)
    if not done["count"]:
        raise CommandError("nothing of this was blocked")
    say(f"{done['count']} unblocked")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, for programs.")
@with_service
def blocks(config: Config, *, as_json: bool) -> None:
    """List what is blocked, and until when."""
    _show(config, "blocks", "blocks", json.dumps if as_json else _block_as_text)


def _block_as_text(entry: dict[str, Any]) -> str:
    expires_at_ms = entry["expires_at_ms"]
    until = "" if expires_at_ms is None else f"  until {rfc3339(expires_at_ms)}"
    return f"{entry['kind']:<6}  {entry['value']}{until}"


@click.command()
@click.option("--pause", metavar="HOST", help="Call it no longer; what is to be told waits.")
@click.option(
    "--for", "seconds", type=configured.Duration(), metavar="TIME", help="Such as 1h; without it, or 0: until --resume."
)
@click.option("--resume", metavar="HOST", help="Call it again.")
@click.option("--forget", metavar="HOST", help="Take all webhooks away that lead to it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, for programs.")
@with_service
def webhooks(
    pause: str | None, resume: str | None, forget: str | None, seconds: float | None, config: Config, *, as_json: bool
) -> None:
    """List the hosts that webhooks lead to, or pause, resume or forget one.

    WAITING are webhooks with something to tell, FAILING those whose last call has failed. Neither URLs nor addresses
    are shown.
    """
    if [pause, resume, forget].count(None) < 2:  # noqa: PLR2004 - at most one is given
        raise click.UsageError("only one of --pause, --resume and --forget is expected")
    if seconds is not None and pause is None:
        raise click.UsageError("--for needs --pause")
    if pause is not None:
        control.ask(config, "webhooks-pause", {"host": pause, "seconds": configured.limit_seconds(seconds)})
        say("paused")
    elif resume is not None:
        (done,) = control.ask(config, "webhooks-resume", {"host": resume})
        if not done["count"]:
            raise CommandError("this host was not paused")
        say("resumed")
    elif forget is not None:
        (done,) = control.ask(config, "webhooks-forget", {"host": forget})
        say(f"{done['count']} taken away")
    elif as_json:
        _show(config, "webhooks", "hosts", json.dumps)
    else:
        _show(config, "webhooks", "hosts", _host_as_text, _WEBHOOKS_HEADING)


def _host_as_text(entry: dict[str, Any]) -> str:
    called_at = rfc3339(entry["called_at_ms"]) if entry["called_at_ms"] is not None else "-"
    paused = "  paused" if entry["paused"] else ""
    return (
        f"{entry['webhooks']:8}  {entry['waiting']:7}  {entry['failing']:7}  {called_at:24}  "
        f"{entry['last_result'] or '-':11}  {shown(entry['host']) or '(URL cannot be read)'}{paused}"
    )


@click.command("postmaster")
@click.argument("message_id", metavar="[ID]", required=False)
@click.option(
    "--raw", is_flag=True, help="The mail as received, with its control characters. Redirect it to a file if in doubt."
)
@click.option("--delete", is_flag=True, help="Delete the message with ID, or with --all every message.")
@click.option("--all", "is_all", is_flag=True, help="With --delete: all mail to postmaster and abuse.")
@click.option("--yes", is_flag=True, help="Do not ask whether --all is meant.")
@config_option
@clear_errors
def read_postmaster(
    message_id: str | None, config_path: Path | None, *, raw: bool, delete: bool, is_all: bool, yes: bool
) -> None:
    """List the mail to postmaster and abuse, show the message with ID, or delete it.

    Listing and showing work whether the service runs or not. Control characters are shown as U+FFFD, except with --raw.
    --delete needs the running service, which also erases the message from the disk.
    """
    if delete:
        _delete_postmaster(message_id, configured.read(config_path), is_all=is_all, yes=yes)
        return
    if is_all or yes:
        raise click.UsageError("--all and --yes need --delete")
    if raw and message_id is None:
        raise click.UsageError("--raw needs the ID of a mail")
    config = load(config_path)
    mail = engines.operator_mail(engines.settings_of(config))
    if raw and message_id is not None:
        octets = postmaster.source(mail, message_id, config.host_name)
    else:
        text = postmaster.listing(mail) if message_id is None else postmaster.readable(mail, message_id)
        octets = text.encode(console.encoding(), "replace")
    with console.output(EXIT_FAILED):
        console.expect_output()
        click.echo(octets, nl=False)


def _delete_postmaster(message_id: str | None, config: Config, *, is_all: bool, yes: bool) -> None:
    if (message_id is None) != is_all:
        raise click.UsageError("--delete needs the ID of a message, or --all")
    if is_all and not yes:
        _confirm("Delete all mail to postmaster and abuse?")
    last = control.ask(config, "postmaster-delete", {"message_id": message_id, "all": is_all})[-1]
    _say_done(config, last, counted(last["deleted"], "message") + " deleted", is_one=last["deleted"] == 1)


def of_service(found: dict[str, Any]) -> str:
    """Return what a running service has told. Raises ``msgspec.ValidationError``."""
    status = msgspec.convert(found, Status)
    served, numbers = status.served, status.numbers
    lines = [
        f"tmpmaild {status.version} has run for {_span(status.uptime_seconds)}, "
        + ("ready" if status.ready else f"NOT READY: {status.reason}"),
        _row("domains", ", ".join(served.domains)),
        _row("HTTP", ", ".join(served.http)),
        _row("SMTP", ", ".join(served.smtp)),
        *([_row("SMTPS", ", ".join(served.smtps))] if served.smtps else []),
        _row("metrics", ", ".join(served.metrics) or "off"),
        _row("holds", f"{_count(numbers.inboxes, 'inbox', 'inboxes')}, {_count(numbers.messages, 'message')}"),
        _row("storage", f"{_size(numbers.used_bytes)} of {_size(numbers.max_bytes)} used{_on_disk(numbers)}"),
        _row("swept", f"{_span(numbers.sweep_age_seconds)} ago"),
        _row(
            "open",
            f"{_count(numbers.sessions, 'SMTP session')}, {_count(numbers.connections, 'HTTP connection')},"
            f" {_count(numbers.streams, 'stream')}",
        ),
        _row(
            "mails",
            f"{numbers.mails_accepted:,} accepted, {numbers.mails_refused:,} refused after their content,"
            f" {_count(numbers.smtp_refusals, 'negative SMTP reply', 'negative SMTP replies')}",
        ),
        _row("requests", f"{numbers.http_requests:,}"),
    ]
    return "\n".join(lines)


def _on_disk(numbers: Numbers) -> str:
    if numbers.wal_bytes is None or numbers.free_disk_bytes is None:
        return " by all daemons together"
    return f", write-ahead log {_size(numbers.wal_bytes)}, {_size(numbers.free_disk_bytes)} of the disk free"


def of_database(name: str, found: Summary, reason: str) -> str:
    """Return what a database holds whose service does not answer."""
    stopped = "cleanly" if found.clean_stop else "no: it was killed, or runs without a control socket"
    is_file = found.clean_stop is not None
    lines = [
        f"tmpmaild: {reason}",
        _row("database", name),
        *([_row("stopped", stopped)] if is_file else []),
        _row("holds", f"{_count(found.inboxes, 'inbox', 'inboxes')}, {_count(found.messages, 'message')}"),
        _row("storage", _size(found.file_bytes) + (" with its write-ahead log" if is_file else " on the server")),
    ]
    return "\n".join(lines)


def _row(name: str, text: str) -> str:
    return f"  {name:<9} {text}"


def _size(octets: int) -> str:
    if octets < 10 * _GIB:
        return f"{octets / _MIB:,.1f} MiB"
    return f"{octets / _GIB:,.1f} GiB"


def _span(seconds: int) -> str:
    """Write a time in its two largest units."""
    parts: list[str] = []
    for unit, size in _UNITS:
        count, seconds = divmod(seconds, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


COMMANDS = (
    check_config,
    migrate,
    status,
    reload,
    inboxes,
    purge,
    block,
    unblock,
    blocks,
    webhooks,
    read_postmaster,
    audit,
    backup,
    restore,
)
