"""The man pages that tools/manpages.py makes: all commands, options and keys, with nothing left of Markdown."""

import re

import click
import pytest

import manpages
from tmpmaild.cli.main import main
from tmpmaild.config.settings import validators_by_key

COMMANDS = manpages.command_page()
CONFIGURATION = manpages.configuration_page()


def plain(page):
    """Return what a reader sees of a page, about."""
    return re.sub(r"\\f[BIR]|\\&|\\%", "", page).replace(r"\-", "-")


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_has_a_part_with_its_help_and_all_options(name):
    (part,) = re.findall(rf"^\.SS tmpmaild {name} (.*?)(?=^\.S[HS] )", plain(COMMANDS), re.MULTILINE | re.DOTALL)
    command = main.commands[name]
    terms = "\n".join(re.findall(r"^\.TP\n(.*)", part, re.MULTILINE))
    options = [one for parameter in command.params if isinstance(parameter, click.Option) for one in parameter.opts]
    assert [one for one in options if not re.search(rf"(^|, ){one}\b", terms, re.MULTILINE)] == []
    assert " ".join(command.help.split("\n\n")[0].replace("``", "").split()) in " ".join(part.split())


def test_every_key_is_a_term_with_its_default_and_lists_and_blocks_are_those_of_a_page():
    terms = dict(re.findall(r"^\.TP\n([\w.]+) = (.+)$", plain(CONFIGURATION), re.MULTILINE))
    assert terms.keys() == validators_by_key().keys()
    assert terms["smtp.listen"] == '["127.0.0.1:1025"]'
    page = plain(CONFIGURATION)
    assert ".IP 2. 4\nOne file in TOML, the first" in page
    assert ".EX\nTMPMAILD_DOMAINS=example.org,example.net\n" in page
    assert "\n.TP\n130, 143, 129\nended by ctrl-C, SIGTERM, SIGHUP\n" in plain(COMMANDS)


@pytest.mark.parametrize("page", [COMMANDS, CONFIGURATION], ids=["tmpmaild.1", "tmpmaild.toml.5"])
def test_roff_is_told_only_what_it_knows(page):
    requests = set(re.findall(r"^[.'](\S*)", page, re.MULTILINE))
    assert requests <= {"BR", "EE", "EX", "IP", "PP", "RE", "RS", "SH", "SS", "TH", "TP", "ad", "br"}
    assert set(re.findall(r"\\.[BIR]?", page)) <= {r"\-", r"\&", r"\%", r"\e", r"\fB", r"\fI", r"\fR"}
    assert re.findall(r"`|\]\(|\*\*", page) == []


def test_what_roff_would_act_on_is_escaped():
    lines = list(manpages.markdown("C:\\path and --option\n\n```sh\n  .hidden\n```\n\n'quoted'"))
    assert lines[:2] == [".PP", r"C:\epath and \-\-option"]
    assert lines[5:] == [r"\&.hidden", ".EE", ".RE", ".PP", r"\&'quoted'"]
