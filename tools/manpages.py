"""Generates the man pages tmpmaild(1) and tmpmaild.toml(5) from the command help texts and the documentation.

To change the text of the man pages, edit ``tmpmaild/cli/``, ``tmpmaild/config/settings.py`` and ``docs/``.

python tools/manpages.py FOLDER      the date is $SOURCE_DATE_EPOCH or today
"""

import inspect
import os
import re
import sys
import textwrap
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from tmpmaild import __version__
from tmpmaild.cli.main import main as tmpmaild
from tmpmaild.config.file import IN_CURRENT_FOLDER, IN_ETC

ROOT: Final = Path(__file__).parents[1]
_WIDTH: Final = 78
_INLINE: Final = re.compile(
    r"(?P<code>`+)(?P<coded>.+?)(?P=code)|\*\*(?P<bold>.+?)\*\*|\*(?P<italic>\w[^*]*)\*|\[(?P<text>[^][]+)\]\((?P<target>[^)\s]+)\)",
    re.DOTALL,
)
_NAME: Final = re.compile(r"(?<!\S)(?=\S*\w[._/]\w)")  # matches the start of a word such as limits.exempt
_ITEM: Final = re.compile(r"(\d+\.|-) +")
_KEY: Final = re.compile(r"- (`[\w.]+`) \((`.*?`)\): ")


def command_page() -> str:
    """Return tmpmaild(1)."""
    context = click.Context(tmpmaild, info_name="tmpmaild", **tmpmaild.context_settings)
    parts = [".SH SYNOPSIS", _usage(context), ".SH DESCRIPTION", *_help(tmpmaild), ".SH OPTIONS", *_options(context)]
    parts.append(".SH COMMANDS")
    for name, command in sorted(tmpmaild.commands.items()):
        inner = click.Context(command, parent=context, info_name=name)
        parts += [f".SS {_usage(inner)}", *_help(command), *_options(inner)]
    parts += [
        ".SH EXIT STATUS",
        ".SS The service and the operator's commands",
        *_section("operations.md", "Exit codes"),
    ]
    parts += [".SS new, watch, listen, wait and mcp", *_section("commands.md", "Exit codes")]
    description = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["description"]
    return _page("tmpmaild", 1, description[0].lower() + description[1:], parts, "tmpmaild.toml (5)")


def configuration_page() -> str:
    """Return tmpmaild.toml(5)."""
    places = [line for place in (IN_CURRENT_FOLDER, IN_ETC) for line in (".br", _literal(f"{place}"))][1:]
    text = (ROOT / "docs/configuration.md").read_text("utf-8").partition("\n")[2]
    parts = [".SH SYNOPSIS", *places, ".SH DESCRIPTION", *markdown(text)]
    return _page("tmpmaild.toml", 5, "configuration of tmpmaild", parts, "tmpmaild (1)")


def markdown(text: str) -> Iterator[str]:
    """Convert the Markdown subset that our documentation uses to man page lines; keys and table rows become terms."""
    for block in filter(_is_shown, _blocks(text)):
        if block.startswith("```"):
            code = textwrap.dedent(block.partition("\n")[2]).splitlines()
            yield from (".PP", ".RS 4", ".EX", *map(_literal, code), ".EE", ".RE")
        elif block.startswith("|"):
            for row in block.splitlines()[2:]:
                yield from _term(row)
        elif block.startswith("## "):
            heading = block[3:]
            yield f".SH {_literal(heading.strip('`') if '`' in heading else heading.upper())}"
        elif key := _KEY.match(block):
            yield from _term(f"| {key[1]} | {key[2]} | {' '.join(block[key.end() :].split())} |")
        elif mark := _ITEM.match(block):
            yield from (f".IP {mark[1]} 4", *_filled(block[mark.end() :]))
        else:
            yield from (".PP", *_filled(block))


def _is_shown(block: str) -> bool:
    return not block.startswith("<!--")


def _blocks(text: str) -> Iterator[str]:
    """Yield paragraphs, headings, list items, tables, and fenced blocks without their closing fence."""
    held: list[str] = []
    for line in [*text.splitlines(), ""]:
        is_fence, is_mark = bool(held) and held[0].startswith("```"), line.lstrip().startswith("```")
        if held and (is_mark if is_fence else is_mark or not line or _ITEM.match(line)):
            yield "\n".join(held)
            held = []
            if is_fence:
                continue
        if line or is_fence:
            held.append(line.lstrip() if is_mark else line)


def _term(row: str) -> Iterator[str]:
    """Yield the lines for a table row with a key, its default and its meaning, or with a term and its meaning."""
    tag, *middle, text = (cell.strip() for cell in row.strip("| ").split(" | "))
    yield from (".TP", " = ".join(_inline(cell) for cell in [tag, *middle]), *_filled(text))


def _page(name: str, section: int, description: str, parts: list[str], other: str) -> str:
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    head = [f'.TH {name.upper()} {section} {date} "tmpmaild {__version__}"', ".ad l", ".SH NAME"]
    tail = [".SH SEE ALSO", f".BR {other}", ".PP", "https://github.com/tmpmaild/tmpmaild/tree/main/docs"]
    text = "\n".join([*head, rf"{name} \- {description}", *parts, *tail]) + "\n"
    return re.sub(r"^(\.S[HS] .*\n)\.PP\n", r"\1", text, flags=re.MULTILINE)


def _usage(context: click.Context) -> str:
    return _literal(" ".join([context.command_path, *context.command.collect_usage_pieces(context)]))


def _help(command: click.Command) -> Iterator[str]:
    for number, paragraph in enumerate(inspect.cleandoc(command.help or "").split("\n\n")):
        yield from [".PP"] if number else []
        if paragraph.startswith("\b\n"):  # a paragraph that click does not rewrap
            yield from (".EX", *map(_literal, paragraph.splitlines()[1:]), ".EE")
        else:
            yield from _filled(paragraph)


def _options(context: click.Context) -> Iterator[str]:
    """Yield the options; ``--help`` is listed only once, with the program's own options."""
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context)
        if record and record[1] and not (context.parent and "--help" in parameter.opts):
            yield from (".TP", rf"\fB{_literal(record[0])}\fR", *_filled(record[1]))


def _section(page: str, heading: str) -> Iterator[str]:
    text = (ROOT / "docs" / page).read_text("utf-8")
    return markdown(re.split(r"^## ", text.partition(f"\n## {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0])


def _filled(text: str) -> Iterator[str]:
    """Yield lines of text that roff fills; lines that would be parsed as a roff request are escaped."""
    lines = textwrap.wrap(" ".join(_inline(text).split()), _WIDTH, break_on_hyphens=False, break_long_words=False)
    yield from (rf"\&{line}" if line.startswith((".", "'")) else line for line in lines)


def _inline(text: str) -> str:
    parts, end = [], 0
    for match in _INLINE.finditer(text):
        parts += [_escaped(text[end : match.start()]), _marked(match)]
        end = match.end()
    return "".join([*parts, _escaped(text[end:])])


def _marked(match: re.Match[str]) -> str:
    if strong := match["coded"] or match["bold"]:
        return rf"\fB{_escaped(strong)}\fR"
    if match["italic"]:
        return rf"\fI{_escaped(match['italic'])}\fR"
    file = match["target"].partition("#")[0]
    is_named = match["text"].strip("`") == Path(file).name or "://" in file or not file
    return _inline(match["text"]) if is_named else rf"{_inline(match['text'])} in \fI{_escaped(file)}\fR"


def _literal(text: str) -> str:
    line = _escaped(text)
    return rf"\&{line}" if line.startswith((".", "'")) else line


def _escaped(text: str) -> str:
    """Escape the characters that are special in roff, and prevent hyphenation in names that users copy."""
    return _NAME.sub(r"\\%", text.replace("\\", r"\e").replace("-", r"\-"))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tmpmaild.1").write_text(command_page(), encoding="utf-8")
    (folder / "tmpmaild.toml.5").write_text(configuration_page(), encoding="utf-8")
