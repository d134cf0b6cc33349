"""Generates ``config.example.toml`` and the list of keys in ``docs/configuration.md`` from the settings.

``stable.py`` runs it. The default values and descriptions of the keys are in ``tmpmaild/config/settings.py``. The
introduction before the list is written by hand.
"""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from tmpmaild.config import settings
from tmpmaild.config.settings import SECTIONS, Config, Group, groups_by_key, keys_at_start, validators_by_key

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs/configuration.md"
EXAMPLE: Final = ROOT / "config.example.toml"
MARK: Final = "<!-- Generated from tmpmaild/config/settings.py: edit the texts there, then run tools/stable.py. -->\n"
RESTART: Final = "*Restart.*"
_PAGE_WIDTH: Final = 140
_EXAMPLE_WIDTH: Final = 116
_INTRODUCTIONS: Final = {
    Group.TEST_SERVER: "Never set these on a service that others can reach. With `smtp.auth`, `smtp.faults` or"
    " `smtp.keep_refusals`, a warning is logged if the service listens on a public address.",
    Group.LIMITS: "For all counts and rates, `0` means no limit. A *client* is an IPv4 address or an IPv6 /64.",
}
_HEADER: Final = """\
# All configuration keys of tmpmaild with their defaults, which apply if there is no configuration file.
# To change a key, remove the "#" before it and set a different value. Do not change the [section] lines.
# The environment overrides this file: TMPMAILD_SMTP__HOSTNAME=mx.example.org; lists are separated by commas.
# For all counts and rates, 0 means no limit. A client is an IPv4 address or an IPv6 /64.
# Keys marked "Restart" are read only at startup; for all other keys, tmpmaild reload is enough.
# Generated from tmpmaild/config/settings.py. docs/configuration.md has more details.
"""
_LINK: Final = re.compile(r"\[([^][]+)\]\(([\w.-]+)[^)]*\)")


def page_list() -> str:
    """Return all keys in Markdown, with a heading for each group."""
    blocks = []
    for group in Group:
        blocks += [f"## {group.value}", *_paragraph(group)]
        keys = [key for key, its_group in groups_by_key().items() if its_group == group]
        blocks.append("\n".join(_item(key) for key in keys))
    return "\n\n".join(blocks) + "\n"


def example() -> str:
    """Return all keys in TOML, commented out, and sorted by group within each section."""
    parts = [_HEADER, *_members("")]
    for section in SECTIONS:
        parts += [f"\n[{section}]\n", *_members(f"{section}.")]
    return "\n".join(parts)


def page(text: str) -> str:
    """Return the page with an updated list of keys."""
    return f"{text.partition(MARK)[0]}{MARK}\n{page_list()}"


def _paragraph(group: Group) -> list[str]:
    return [textwrap.fill(_INTRODUCTIONS[group], _PAGE_WIDTH)] if group in _INTRODUCTIONS else []


def _item(key: str) -> str:
    text = f"`{key}` (`{_default(key)}`): {_text(key).replace('``', '`')}"
    return _wrapped(text, _PAGE_WIDTH, "- ", "  ")


def _members(prefix: str) -> Iterator[str]:
    """Yield a section's keys, with a comment at the start of each group."""
    groups = {key: group for key, group in groups_by_key().items() if key.rpartition(".")[0] == prefix.rstrip(".")}
    is_mixed = len(set(groups.values())) > 1
    for group in Group:
        keys = [key for key, its_group in groups.items() if its_group == group]
        if keys and is_mixed and group != Group.OPERATOR:
            introduction = _INTRODUCTIONS[group].replace("`", "") if group == Group.TEST_SERVER else ""
            yield _wrapped(f"{group.value}: {introduction}".rstrip(": "), _EXAMPLE_WIDTH, "# --- ", "# ") + "\n"
        for key in keys:
            text = _LINK.sub(_named, _text(key)).replace("``", "").replace(RESTART, RESTART.strip("*"))
            yield f"{_wrapped(text, _EXAMPLE_WIDTH, '# ', '# ')}\n#{key.rpartition('.')[2]} = {_default(key)}\n"


def _named(link: re.Match[str]) -> str:
    place = f"docs/{link[2]}"
    return place if link[1] == link[2] else f"{link[1]} ({place})"


def _wrapped(text: str, width: int, first: str, later: str) -> str:
    options = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(text, width, initial_indent=first, subsequent_indent=later, **options)  # type: ignore[arg-type]


def _default(key: str) -> str:
    section, _, name = key.rpartition(".")
    tree = msgspec.to_builtins(Config())
    return json.dumps((tree[section] if section else tree)[name], ensure_ascii=False)


def _text(key: str) -> str:
    """Return a key's description on one line, with its validator's range.

    Raises ValueError if the description is missing.
    """
    section, _, name = key.rpartition(".")
    struct = SECTIONS[section] if section else Config
    text = _texts(struct).get(name)
    if not text:
        raise ValueError(f"{key} has no description below it in tmpmaild/config/settings.py")
    limits = re.search(r"whole number, from (\d+ to \d+)", validators_by_key()[key].expected)
    parts = [text, f"From {limits[1]}." if limits else "", RESTART if key in keys_at_start() else ""]
    return " ".join(" ".join(filter(None, parts)).split())


def _texts(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstrings of a struct's fields, read from its source because they do not exist at run time."""
    (found,) = [
        node
        for node in ast.parse(inspect.getsource(settings)).body
        if isinstance(node, ast.ClassDef) and node.name == struct.__name__
    ]
    texts = {}
    for field, below in zip(found.body, found.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                texts[name] = text
    return texts


def write() -> None:
    """Write the example file and the list of keys."""
    EXAMPLE.write_text(example(), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text("utf-8")), encoding="utf-8")
