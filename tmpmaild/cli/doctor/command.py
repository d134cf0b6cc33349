"""The command ``tmpmaild doctor``, and all its checks in the order in which an operator would look."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from tmpmaild.cli import configured
from tmpmaild.cli.configured import EXIT_FAILED, clear_errors, config_option, say
from tmpmaild.cli.doctor import results
from tmpmaild.cli.doctor.results import Record, Result, ok, problem, warning
from tmpmaild.config import file as configfile
from tmpmaild.config.settings import Config
from tmpmaild.errors import CommandError, ConfigError, StartError
from tmpmaild.host import control
from tmpmaild.host.process import drop_to_owner

_CHECK = "configuration"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")
@click.option("--dns", is_flag=True, help="Ask the DNS whether the records are published; needs the extra dns.")
@click.option(
    "--resolver",
    metavar="IP:PORT",
    callback=configured.expect_ip_and_port,
    help="Which DNS server to ask, such as 9.9.9.9:53. Default: that of this machine.",
)
@config_option
@clear_errors
def doctor(config_path: Path | None, resolver: str | None, *, as_json: bool, dns: bool) -> None:
    """Check configuration, machine and service, and print the DNS records to publish.

    One line for each check: ok, warning or problem, and what to do. Nothing is changed, and without --dns no other
    machine is connected to but those of storage.url and senders.resolver; names of webhooks.allow are looked up. Exit
    codes: 0 no problem, 1 at least one problem, 2 wrong usage.
    """
    if resolver and not dns:
        raise click.UsageError("--resolver needs --dns")
    found, records = _look(config_path)
    if dns and records is not None:
        found += _compared(records, resolver)
    records = records or []
    say(results.as_json(found, records) if as_json else results.as_text(found, records))
    sys.exit(EXIT_FAILED if results.has_problem(found) else 0)


def _look(config_path: Path | None) -> tuple[list[Result], Sequence[Record] | None]:
    """Return what the checks found and the records to publish; without a right configuration there are none."""
    try:
        source = configfile.find(config_path, os.environ)
        config = configfile.load(config_path, os.environ)
        socket, database = control.place(config), Path(config.storage.path)
        drop_to_owner(*filter(None, (socket, database)))
    except ConfigError as error:
        return [problem(_CHECK, mistake) for mistake in error.mistakes], None
    except StartError as error:
        return [problem(_CHECK, str(error))], None
    unread = [warning(_CHECK, line) for line in configfile.variables_without_effect(os.environ)]
    return [ok(_CHECK, str(source or "defaults")), *unread, *_examine(config, source)], _records_to_publish(config)


def _examine(config: Config, source: Path | None) -> Iterator[Result]:
    """Check all that needs no connection to another machine but that of the database, and look names up."""
    from tmpmaild.cli.doctor import database, machine, network, service  # noqa: PLC0415 - takes long to load
    from tmpmaild.storage.engines import settings_of  # noqa: PLC0415
    from tmpmaild.storage.settings import SqliteSettings  # noqa: PLC0415
    from tmpmaild.webhooks.calling import resolve  # noqa: PLC0415

    hostname, storage = config.host_name, settings_of(config)
    running, result = service.look(config)
    yield result
    if running is not None:
        yield from service.answers(config, running, machine.leaf(config))
        yield from machine.limits(config, running)
    yield from machine.check_files(config, running, source)
    yield from [machine.space(storage)] if isinstance(storage, SqliteSettings) else database.check(storage)
    yield machine.clock()
    yield from machine.resolver(config)
    yield from network.check_targets(config, resolve)
    yield from machine.check_certificate(config, hostname)
    yield from network.check_reach(service.as_served(config, running), hostname)


def _records_to_publish(config: Config) -> list[Record]:
    """Return the records for the DNS; none while the mail server has no name that can be published."""
    from tmpmaild.cli.doctor import network  # noqa: PLC0415 - as above

    hostname = config.host_name
    if not network.is_public_name(hostname):
        return []
    return network.wanted(config, hostname, network.own_addresses(config))


def _compared(records: Sequence[Record], resolver: str | None) -> list[Result]:
    """Compare records with those that are published. Raises ``CommandError``."""
    try:
        from tmpmaild.cli.doctor import published  # noqa: PLC0415 - needs dnspython
        from tmpmaild.senders.resolver import SYSTEM, Resolver, Unresolved  # noqa: PLC0415 - likewise
    except ImportError as error:
        raise CommandError(f"--dns needs dnspython: {sys.executable} -m pip install dnspython") from error
    if not records:
        return [warning("DNS", "not compared, because the mail server has no public name")]
    try:
        asked = Resolver(resolver or SYSTEM)
    except Unresolved as error:
        return [warning("DNS", f"not compared, because {error}", "name a resolver by --resolver")]
    return list(published.compare(records, records[0].name, asked))
