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
    """Print a line for each list entry in a response; each line of the response has entries in the field ``member``."""
    with console.output(EXIT_FAILED), control.request(config, command, arguments) as response:
        console.expect_output()
        if heading:
            console.say(heading)
        for part in response.lines():
            for entry in msgspec.convert(part[member], list[Entry]):
                console.say(line_of(entry))
