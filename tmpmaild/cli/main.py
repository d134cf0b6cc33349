"""The command ``tmpmaild``: its commands and the headings they are listed under."""

from itertools import chain
from typing import Final

import click

from tmpmaild import __version__
from tmpmaild.cli import configured, operator, serving, user
from tmpmaild.cli.doctor import doctor
from tmpmaild.docstrings import docstring


class _Sections(click.Group):
    """A command group whose help lists the commands under the headings in ``SECTIONS``."""

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each heading, followed by a line for each of its commands."""
        columns = formatter.width - 6 - max(map(len, self.commands))
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl([(one.name or "", one.get_short_help_str(columns)) for one in commands])


@click.group(cls=_Sections, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--instance",
    metavar="N",
    expose_value=True,
    callback=configured.choose_instance,
    help="If several daemons are running, use the instance tmpmaild@N.service: tmpmaild --instance 2 status.",
)
@click.version_option(__version__, "-V", "--version", message="tmpmaild %(version)s")
def main(instance: str | None) -> None:
    """Disposable e-mail addresses: created over HTTP, filled over SMTP, and deleted after an hour."""


SECTIONS: Final[dict[str, tuple[click.Command, ...]]] = {
    "Mail for people and tests": (*user.COMMANDS, serving.catch),
    "Running the service": (serving.serve, doctor, *operator.COMMANDS),
}
for _command in chain.from_iterable(SECTIONS.values()):
    main.add_command(_command)
for _command in (main, *main.commands.values()):
    if _command.help is None and _command.callback is not None:
        _command.help = docstring(_command.callback)
