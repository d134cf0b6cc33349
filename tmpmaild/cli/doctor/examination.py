"""All checks in their order; each is in the module of its subject."""

from collections.abc import Collection, Iterator

from tmpmaild import roomsettings
from tmpmaild.cli.doctor import answering, certificate, database, files, machine, places, reaching, records, running
from tmpmaild.cli.doctor.findings import Finding
from tmpmaild.cli.doctor.records import Record
from tmpmaild.config.settings import Config
from tmpmaild.storage.sqlite.engine import StorageSettings as SqliteSettings


def examine(config: Config, of_systemd: Collection[str] = ()) -> Iterator[Finding]:
    """Check everything that can be checked without connecting to another machine but that of the database.

    ``of_systemd`` is what ``places.of_units`` returns to root: the bus may not know the service's user.
    """
    hostname = roomsettings.hostname(config)
    service, finding = running.look(config)
    yield finding
    yield from places.check(config, service, of_systemd)
    held = places.served(service) if service else places.in_use(config, of_systemd)
    yield from answering.check(config, held, certificate.leaf(config))
    yield from files.check(config, service)
    storage = roomsettings.storage(config)
    if isinstance(storage, SqliteSettings):
        yield from machine.space(storage)
    else:
        yield from database.check(storage)
    yield from machine.clock()
    yield from certificate.check(config, hostname)
    yield from machine.limits(config, service)
    yield from reaching.domains(config)
    yield from reaching.hostname(hostname)
    yield from reaching.port_25(config, hostname)
    yield from reaching.proxy(config)
    yield from reaching.metrics(config)


def records_to_publish(config: Config) -> list[Record]:
    """Return the records for the DNS; none while the mail server has no name that can be published."""
    hostname = roomsettings.hostname(config)
    if not reaching.is_public_name(hostname):
        return []
    return records.wanted(config, hostname, records.own_addresses(config))
