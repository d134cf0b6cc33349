"""The command ``tmpmaild doctor``."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from tmpmaild.cli import parameters
from tmpmaild.cli.configured import EXIT_FAILED, clear_errors, config_option, say
from tmpmaild.cli.doctor import report
from tmpmaild.cli.doctor.findings import Finding, ok, problem, warning
from tmpmaild.cli.doctor.records import Record
from tmpmaild.config import file as configfile
from tmpmaild.config.kinds import parse_endpoint
from tmpmaild.errors import CommandError, ConfigError, StartError
from tmpmaild.host import controlsocket, privileges

_CHECK = "configuration"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")
@click.option("--dns", is_flag=True, help="Ask the DNS whether the records are published; needs the extra dns.")
@click.option(
    "--resolver",
    metavar="IP:PORT",
    callback=parameters.expect_ip_and_port,
    help="Which DNS server to ask, such as 9.9.9.9:53. Default: that of this machine.",
)
@config_option
@clear_errors
def doctor(config_path: Path | None, resolver: str | None, *, as_json: bool, dns: bool) -> None:
    """Check configuration, machine and service, and print the DNS records to publish.

    One line for each check: ok, warning or problem, and what to do. Nothing is changed, and without --dns no other
    machine is connected to but that of storage.url. Exit codes: 0 no problem, 1 at least one problem, 2 wrong usage.
    """
    if resolver and not dns:
        raise click.UsageError("--resolver needs --dns")
    findings, records = _look(config_path, resolver, dns=dns)
    say(report.as_json(findings, records) if as_json else report.text(findings, records))
    sys.exit(EXIT_FAILED if report.has_problem(findings) else 0)


def _look(config_path: Path | None, resolver: str | None, *, dns: bool) -> tuple[list[Finding], Sequence[Record]]:
    compare = _comparison(resolver) if dns else None
    from tmpmaild.cli.doctor import examination, places  # noqa: PLC0415 - loads the whole service, as serve does

    try:
        source = configfile.find(config_path, os.environ)
        config = configfile.load(config_path, os.environ)
        of_systemd = places.of_units()
        socket, database = controlsocket.place(config), Path(config.storage.path)
        privileges.drop_to_owner(*filter(None, (socket, database)))
    except ConfigError as error:
        return [problem(_CHECK, mistake) for mistake in error.mistakes], []
    except StartError as error:
        return [problem(_CHECK, str(error))], []
    findings = [ok(_CHECK, str(source or "defaults")), *examination.examine(config, of_systemd)]
    records = examination.records_to_publish(config)
    has_nodes = bool(config.storage.url)
    return findings + (compare(records, has_nodes) if compare else []), records


def _comparison(resolver: str | None) -> Callable[[Sequence[Record], bool], list[Finding]]:
    """Return what compares records with those that are published, on one node of several or not.

    Raises ``CommandError``.
    """
    try:
        from tmpmaild.cli.doctor import published  # noqa: PLC0415 - needs dnspython
    except ImportError as error:
        raise CommandError(f"--dns needs dnspython: {sys.executable} -m pip install dnspython") from error
    server = parse_endpoint(resolver) if resolver else None
    asked = published.Dns((server.host, server.port) if server else None)

    def compare(records: Sequence[Record], has_nodes: bool) -> list[Finding]:  # noqa: FBT001 - the only caller is above
        if not records:
            return [warning("DNS", "not compared, because the mail server has no public name")]
        return list(published.compare(records, records[0].name, asked.ask, has_nodes=has_nodes))

    return compare
