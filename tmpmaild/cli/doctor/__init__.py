"""The command ``tmpmaild doctor``: runs the checks in the order in which an operator would, and prints the results."""

import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from msgspec import Struct
from msgspec.structs import asdict

from tmpmaild.cli import configured
from tmpmaild.cli.configured import EXIT_FAILED, clear_errors, config_option, say
from tmpmaild.cli.console import shown
from tmpmaild.config import file as configfile
from tmpmaild.config.settings import Config
from tmpmaild.errors import CommandError, ConfigError, StartError
from tmpmaild.host import control
from tmpmaild.host.process import drop_to_owner
from tmpmaild.model import counted

if TYPE_CHECKING:
    from tmpmaild.cli.doctor.unit import Unit

NO_ADDRESS = "the public IP address of this machine"

_CHECK = "configuration"
_LEVEL_COLUMNS = 9
_NOTE = "; The last three declare that the domain sends no mail: omit them if it does."


class Result(Struct, frozen=True):
    """The result of one check. ``advice`` tells the operator what to do; an ``ok`` result needs no advice."""

    check: str
    level: Literal["ok", "warning", "problem"]
    text: str
    advice: str = ""


def ok(check: str, text: str) -> Result:
    """Return the result for a setup without problems."""
    return Result(check, "ok", text)


def warning(check: str, text: str, advice: str = "") -> Result:
    """Return the result for a setup that works but that most operators would not want."""
    return Result(check, "warning", text, advice)


def problem(check: str, text: str, advice: str = "") -> Result:
    """Return the result for a broken or unsafe setup."""
    return Result(check, "problem", text, advice)


class Record(Struct, frozen=True):
    """A record to publish. The ``value`` of an A record is empty if it cannot be determined here."""

    name: str
    type: str
    value: str


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")
@click.option(
    "--dns",
    is_flag=True,
    help="Check that the records are published in the DNS, and that http.public_url responds; needs the dns extra.",
)
@click.option(
    "--resolver",
    metavar="IP:PORT",
    callback=configured.expect_ip_and_port,
    help="The DNS server to query, such as 9.9.9.9:53. Default: this machine's resolver.",
)
@config_option
@clear_errors
def doctor(config_path: Path | None, resolver: str | None, *, as_json: bool, dns: bool) -> None:
    """Check configuration, machine and service, and print the DNS records to publish.

    Prints one line for each check: ok, warning or problem, and advice. The checks change nothing. Without --dns, the
    command connects only to the servers in storage.url and senders.resolver, and looks up the names in webhooks.allow.
    Exit codes: 0 no problem, 1 at least one problem, 2 wrong usage.
    """
    if resolver and not dns:
        raise click.UsageError("--resolver needs --dns")
    logging.getLogger("tmpmaild").addHandler(logging.NullHandler())  # log records would repeat the results
    found, config = _results(config_path)
    records = _records_to_publish(config) if config else []
    if dns and config:
        found += _compared(records, resolver)
        found += _site(config)
    say(_as_json(found, records) if as_json else as_text(found, records))
    sys.exit(EXIT_FAILED if has_problem(found) else 0)


def _results(config_path: Path | None) -> tuple[list[Result], Config | None]:
    """Return the results of all checks, and the configuration if it is valid."""
    try:
        unit = _unit()
        environ = {**(unit.environment if unit else {}), **os.environ}  # the service's environment variables
        source = configfile.find(config_path, environ)
        config = configfile.load(config_path, environ)
        configured.expect_folder(config)
        socket, database = control.path_of(config), Path(config.storage.path)
        drop_to_owner(*filter(None, (socket, database)))
    except ConfigError as error:
        return [problem(_CHECK, mistake) for mistake in error.mistakes], None
    except (StartError, CommandError) as error:
        return [problem(_CHECK, str(error))], None
    unread = [warning(_CHECK, line) for line in configfile.variables_without_effect(environ)]
    return [ok(_CHECK, str(source or "defaults")), *unread, *_examine(config, source, unit)], config


def _unit() -> "Unit | None":
    from tmpmaild.cli.doctor import unit  # noqa: PLC0415

    instance = click.get_current_context().find_root().params.get("instance")
    return unit.read(f"tmpmaild@{instance}" if instance else "tmpmaild")


def _examine(config: Config, source: Path | None, unit: "Unit | None") -> Iterator[Result]:
    """Run the checks that do not connect to machines other than the database server and DNS resolvers."""
    from tmpmaild.cli.doctor import database, machine, network  # noqa: PLC0415
    from tmpmaild.cli.doctor.unit import judged  # noqa: PLC0415
    from tmpmaild.storage.engines import SqliteSettings, settings_of  # noqa: PLC0415
    from tmpmaild.webhooks.calling import resolve  # noqa: PLC0415

    hostname, storage = config.host_name, settings_of(config)
    running, result = machine.find_service(config)
    known = [*judged(unit, running.status.uptime_seconds if running else None)] if unit else []
    if running or not known:  # if the service does not respond, the unit's results are more specific
        yield result
    yield from known
    if running is not None:
        yield from machine.check_smtp(config, running, machine.leaf(config))
        yield from machine.limits(config, running)
        yield from machine.forwarded(running)
    yield from machine.check_files(config, running, source, is_dynamic=bool(unit and unit.is_dynamic))
    if running is None and isinstance(storage, SqliteSettings):
        yield from machine.usable(storage)
    yield from [machine.space(storage)] if isinstance(storage, SqliteSettings) else database.check(storage)
    yield from database.operator_box(storage)
    yield from machine.tried()
    yield machine.clock()
    yield from machine.resolver(config)
    yield from machine.memory_for_mail(config)
    yield from network.check_targets(config, resolve)
    loaded = machine.as_loaded(config, unit)
    yield from machine.renewed(config, loaded)
    yield from machine.check_certificate(loaded, hostname)
    yield from network.check_reach(machine.as_served(config, running), hostname)


def _records_to_publish(config: Config) -> list[Record]:
    """Return the records to publish, or an empty list if the mail server has no name that can be published."""
    from tmpmaild.cli.doctor import network  # noqa: PLC0415

    hostname = config.host_name
    if not network.is_public_name(hostname):
        return []
    return network.wanted(config, hostname, network.own_addresses(config))


def _compared(records: Sequence[Record], resolver: str | None) -> list[Result]:
    """Compare the records to publish with the published records. Raises ``CommandError``."""
    from tmpmaild.cli.doctor import network  # noqa: PLC0415 - as above

    try:
        from tmpmaild.senders.resolver import SYSTEM, Resolver, Unresolved  # noqa: PLC0415 - needs dnspython
    except ImportError as error:
        raise CommandError(f"--dns needs dnspython: {sys.executable} -m pip install dnspython") from error
    if not records:
        return [warning("DNS", "not compared, because the mail server has no public name")]
    try:
        asked = Resolver(resolver or SYSTEM)
    except Unresolved as error:
        return [warning("DNS", f"not compared, because {error}", "specify a resolver with --resolver")]
    return list(network.compare(records, records[0].name, asked))


def _site(config: Config) -> Iterator[Result]:
    from tmpmaild.cli.doctor import site  # noqa: PLC0415 - as above

    return site.check(config.http.public_url)


def as_text(results: Sequence[Result], records: Sequence[Record]) -> str:
    """Return a line for each result, the records to publish, and a summary."""
    lines = [_line(result) for result in results]
    if records:
        lines += ["", "DNS records to publish:", *(f"  {line}" for line in zone(records)), f"  {_NOTE}", ""]
    counts = [(sum(result.level == level for result in results), level) for level in ("problem", "warning")]
    lines.append(", ".join(counted(count, level) for count, level in counts))
    return "\n".join(lines)


def _as_json(results: Sequence[Result], records: Sequence[Record]) -> str:
    """Return the results and records as one JSON object."""
    return json.dumps(
        {
            "ok": not has_problem(results),
            "results": [asdict(result) for result in results],
            "records": [asdict(record) for record in records],
        }
    )


def has_problem(results: Sequence[Result]) -> bool:
    """Return whether any result reports a broken or unsafe setup."""
    return any(result.level == "problem" for result in results)


def _line(result: Result) -> str:
    advice = f" -> {result.advice}" if result.advice else ""
    return shown(f"{result.level:<{_LEVEL_COLUMNS}}{result.check}: {result.text}{advice}")


def zone(records: Iterable[Record]) -> Iterator[str]:
    """Yield records as lines of a zone file (RFC 1035 §5.1)."""
    for record in records:
        value = f'"{record.value}"' if record.type == "TXT" else record.value
        value = f"{value}." if record.type == "MX" else value
        comment = f"; {NO_ADDRESS}" if not value else ""
        yield f"{record.name}. {record.type} {value or comment}"
