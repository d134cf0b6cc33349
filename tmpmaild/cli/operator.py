"""The operator's commands ``check-config``, ``migrate`` and ``reload``, and the list of all operator commands."""

import os
from pathlib import Path

import click
from msgspec import Struct

from tmpmaild.cli import blocking, console, control, copying, hosts, inboxes, named, postmaster, status
from tmpmaild.cli.configured import (
    clear_errors,
    config_option,
    load,
    say,
    with_config,
)
from tmpmaild.config import file as configfile
from tmpmaild.config.settings import Config
from tmpmaild.errors import ConfigError
from tmpmaild.host.process import drop_to_owner
from tmpmaild.storage import engines


@click.command("check-config")
@config_option
@clear_errors
def check_config(config_path: Path | None) -> None:
    """Read the configuration, and list its errors and any missing files and packages that it needs.

    Environment variables that look like settings but have no effect are also listed.
    """
    source = configfile.find(config_path, os.environ)
    config = configfile.load(config_path, os.environ)
    drop_to_owner(Path(config.storage.path))
    if missing := [f"{source or 'defaults'}: {line}" for line in named.missing(config)]:
        raise ConfigError(missing)
    for line in configfile.variables_without_effect(os.environ):
        console.print_to_stderr(line)
    say(f"{source or 'defaults'}: ok")


@click.command()
@config_option
@clear_errors
def migrate(config_path: Path | None) -> None:
    """Upgrade the database to the newest schema. serve does this too; use migrate to do it in advance."""
    config = load(config_path)
    settings = engines.settings_of(config)
    applied = engines.upgrade(settings)
    for name in applied:
        say(f"applied {name}")
    say(f"{settings.name}: {'migrated' if applied else 'up to date'}")


class _Reloaded(Struct, frozen=True):
    needs_restart: list[str]
    certificate: str | None = ""  # older services do not send this field


@click.command()
@with_config
def reload(config: Config) -> None:
    """Make the service reload its configuration, as SIGHUP does.

    If the configuration has errors, they are listed, and the service continues with its current configuration.
    """
    done = control.last(config, "reload", {}, _Reloaded)
    say("reloaded")
    if done.needs_restart:
        say(f"changed, but takes effect only after a restart: {', '.join(done.needs_restart)}")
    if done.certificate:
        say(done.certificate)


COMMANDS = (
    check_config,
    migrate,
    status.status,
    reload,
    inboxes.inboxes,
    inboxes.purge,
    blocking.block,
    blocking.unblock,
    blocking.blocks,
    hosts.webhooks,
    postmaster.read_postmaster,
    inboxes.audit,
    copying.backup,
    copying.restore,
)
