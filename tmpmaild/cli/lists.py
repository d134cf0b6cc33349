"""Prints lists that the running service sends."""

from collections.abc import Callable

import msgspec

from tmpmaild.cli import console, control
from tmpmaild.cli.configured import EXIT_FAILED
from tmpmaild.config.settings import Config

Entry = dict[str, object]


def show_list(
    config: Config, command: str, member: str, line_of: Callable[[Entry], str], heading: str = "", **arguments: object
) -> None:
    """Print a line for each entry of a list; the service sends the entries in ``member`` of its lines."""
    with console.output(EXIT_FAILED), control.asked(config, command, arguments) as answer:
        console.expect_output()
        if heading:
            console.say(heading)
        for part in answer.lines():
            for entry in msgspec.convert(part[member], list[Entry]):
                console.say(line_of(entry))
