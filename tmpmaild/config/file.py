"""Reads the configuration from a file and the environment, and reports all errors together.

The keys are defined in ``settings.py``.
"""

import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tmpmaild.config.settings import SECTIONS, Config, conflicts, validators_by_key
from tmpmaild.config.writers import others_who_write
from tmpmaild.errors import ConfigError
from tmpmaild.validation import InvalidValue, Validator, validate

PREFIX: Final = "TMPMAILD_"
IN_CURRENT_FOLDER: Final = Path("tmpmaild.toml")
IN_ETC: Final = Path("/etc/tmpmaild/config.toml")

_VALIDATORS: Final = validators_by_key()
_MAX_FOUND_CHARACTERS: Final = 80
# Keyed by the start of tomllib's error message.
_TOML_HINTS: Final = {
    "Cannot declare": "; a [section] may occur only once: move its keys below the first",
    "Cannot overwrite": "; a key may occur only once",
    "Duplicate inline table key": "; a key may occur only once",
    "Invalid value": "; text must be in straight quotes; true and false are in lower case",
    "Expected newline": "; text must be in quotes, and numbers have no unit",
    "Expected '='": "; write KEY = VALUE",
    "Unclosed array": "; separate the items of a list with commas, and close it with ]",
    "Unescaped '\\'": "; put text that contains a backslash in single quotes",
}
_LIST_HINT: Final = "; in a variable, separate items with commas, and omit quotes and brackets"
_stated_line = re.compile(r"\(at line (\d+), column \d+\)$").search
_key_or_section = re.compile(
    r"""\s*((?:[\w.-]|"[^"]*"|'[^']*'){1,80}(?=[ \t]*[=:])|\[\[?[\w.\"' \t-]{1,80}\]?\]?)"""
).match
# Names that other programs use for similar keys.
_ALSO_CALLED: Final = dict.fromkeys(("port", "host", "bind", "address", "addr", "interface", "socket"), "listen")
# Variables read by commands, the pytest plugin and the TypeScript client, which also start the service.
_OTHER_VARIABLES: Final = (
    *("CONFIG", "CATCH_ALL", "FOR_TESTS", "URL", "TOKEN", "SMTP", "SMTPS", "CA_FILE", "TIMEOUT_MS"),
)
# Kubernetes sets these variables in every container if there is a service named tmpmaild.
_OF_KUBERNETES = re.compile(r"SERVICE_(HOST|PORT(_\w+)?)=|PORT_\d+_[A-Z]+(_\w+)?=|PORT=\w+://").match
_SWITCHES: Final = {"true": True, "false": False}


def find(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the given path, ``$TMPMAILD_CONFIG``, or an existing file at a default path; None if no file exists there.

    A given path is returned even if no file exists there, so that reading it fails. Raises ``ConfigError`` for a file
    in the current directory that a different user could have written, because the file determines where passwords are
    sent.
    """
    if path is not None:
        return path
    if named := environ.get(f"{PREFIX}CONFIG"):
        return Path(named)
    if not current_folder_obstacle() and os.path.lexists(IN_CURRENT_FOLDER):
        _expect_own(IN_CURRENT_FOLDER)
        return IN_CURRENT_FOLDER
    return IN_ETC if _may_exist(IN_ETC) else None


def current_folder_obstacle() -> str:
    """Return the reason why the current directory cannot be searched for a configuration file, or "" if it can."""
    try:
        Path.cwd().stat()
        Path().stat()  # unlike stat() on the full path, this fails without permission to enter the directory
    except OSError as error:
        return f"the current directory: {error.strerror}; {IN_CURRENT_FOLDER} is not read from it"
    return ""


def _expect_own(source: Path) -> None:
    try:
        reason = others_who_write(source)
    except OSError as error:
        reason = f"{source}: cannot be inspected: {error.strerror}"
    if reason:
        hint = f"another user could have written this configuration; if you trust it, specify it: --config ./{source}"
        raise ConfigError([f"{reason}; {hint}"])


class Option(NamedTuple):
    """A command-line option that sets a key: its name, and its value in the form used in a file."""

    name: str
    value: object


def load(
    path: Path | None,
    environ: Mapping[str, str],
    defaults: Mapping[str, object] = {},
    options: Mapping[str, Option] = {},
) -> Config:
    """Load the defaults, overridden by the file that ``find`` returns, then by the environment, then by ``options``.

    ``defaults``, keyed by dotted key, overrides the built-in defaults. Raises ConfigError; each error is one line with
    the file, variable or option, the key, and the expected and actual values.
    """
    return _settings(find(path, environ), environ, defaults, options).config()


def load_valid(path: Path | None, environ: Mapping[str, str]) -> Config:
    """Load the configuration without its invalid values, to find a service that is running with earlier values.

    Raises ConfigError for a file that must not be read.
    """
    return _settings(find(path, environ), environ).config_of_valid_values()


def _settings(
    source: Path | None,
    environ: Mapping[str, str],
    defaults: Mapping[str, object] = {},
    options: Mapping[str, Option] = {},
) -> "_Settings":
    settings = _Settings()
    settings.add_defaults(defaults)
    if source is not None:
        settings.add_file(source)
    settings.add_environment(environ)
    settings.add_options(options)
    return settings


def variables_without_effect(environ: Mapping[str, str]) -> list[str]:
    """Return a warning for each variable that starts with our prefix but is never read.

    A variable with two underscores is not included: ``load`` rejects it.
    """
    known = {PREFIX + key.upper().replace(".", "__"): key for key in _VALIDATORS}
    known |= {PREFIX + name: name for name in _OTHER_VARIABLES}
    lines = []
    for name in sorted(environ):
        rest = name.removeprefix(PREFIX)
        if rest in ("", name) or "__" in rest or PREFIX + rest.upper() in known:
            continue
        if not _OF_KUBERNETES(f"{rest}={environ[name]}"):
            near = _nearest(name.upper().replace("_", ""), {one.replace("_", ""): one for one in known})
            lines.append(f"{name}: this variable has no effect" + (f", did you mean {near}?" if near else ""))
    return lines


def _nearest(name: str, known: Mapping[str, str]) -> str:
    """Return the value of the most similar key, or ""."""
    return next((known[near] for near in difflib.get_close_matches(name, known, n=1, cutoff=0.75)), "")


class _Settings:
    """The configuration read so far: valid values (keyed by dotted key), the origin of each key, and all errors."""

    def __init__(self) -> None:
        self._values: dict[str, object] = {}
        self._origins: dict[str, str] = {}
        self._mistakes: list[str] = []

    def add_defaults(self, defaults: Mapping[str, object]) -> None:
        self._add(dict(defaults), dict.fromkeys(defaults, "defaults"))

    def add_file(self, source: Path) -> None:
        try:
            tree = _read(source)
        except ConfigError as error:
            self._mistakes += error.mistakes
            return
        given = dict(_flat(tree))
        self._add(given, dict.fromkeys(given, str(source)))

    def add_environment(self, environ: Mapping[str, str]) -> None:
        names = {
            name.removeprefix(PREFIX).lower().replace("__", ".", 1): name
            for name in sorted(environ)
            if name.startswith(PREFIX)
        }
        names = {key: name for key, name in names.items() if key in _VALIDATORS or "." in key}
        self._add({key: _from_text(environ[name], _VALIDATORS.get(key)) for key, name in names.items()}, names)

    def add_options(self, options: Mapping[str, Option]) -> None:
        values = {key: option.value for key, option in options.items()}
        self._add(values, {key: option.name for key, option in options.items()})

    def config(self) -> Config:
        """Return the configuration. Raises ConfigError with all errors."""
        config = self.config_of_valid_values()
        self._add_conflicts(config)
        if self._mistakes:
            raise ConfigError(self._mistakes)
        return config

    def config_of_valid_values(self) -> Config:
        """Return the configuration, with defaults instead of invalid values."""
        members: dict[str, dict[str, object]] = {section: {} for section in ("", *SECTIONS)}
        for key, value in self._values.items():
            section, _, name = key.rpartition(".")
            members[section][name] = value
        sections: dict[str, Any] = {name: struct(**members[name]) for name, struct in SECTIONS.items()}
        return Config(**members[""], **sections)  # type: ignore[arg-type]  # each value was validated

    def _add(self, given: dict[str, object], origins: dict[str, str]) -> None:
        values, mistakes = validate(given, _VALIDATORS)
        self._origins |= origins
        self._values = {key: value for key, value in self._values.items() if key not in given} | values
        for mistake in mistakes:
            origin = origins[mistake.name]
            hint = _LIST_HINT if origin.startswith(PREFIX) and _is_in_list_syntax(mistake) else ""
            self._mistakes.append(f"{origin}: {_describe(mistake)}{hint}")

    def _add_conflicts(self, config: Config) -> None:
        for keys, complaint in conflicts(config):
            set_keys = [key for key in keys if key in self._origins]
            if all(key in self._values for key in set_keys):  # an invalid value might no longer conflict once corrected
                where = " and ".join(dict.fromkeys(self._origins[key] for key in set_keys))
                self._mistakes.append(f"{where}: {' and '.join(keys)}: {complaint}")


def _may_exist(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:  # using the defaults would silently ignore the operator's file
        return True


def _read(source: Path) -> dict[str, Any]:
    text = ""
    try:
        text = source.read_text("utf-8-sig")
        return tomllib.loads(text)
    except OSError as error:
        is_forbidden = isinstance(error, PermissionError)
        hint = f"; the service's user must be able to read it: chmod 0644 {source}" if is_forbidden else ""
        raise ConfigError([f"{source}: cannot be read: {error.strerror}{hint}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{source}: is not UTF-8 (at byte {error.start})"]) from error
    except ValueError as error:  # a TOMLDecodeError, or a number with thousands of digits
        hint = next((hint for start, hint in _TOML_HINTS.items() if str(error).startswith(start)), "")
        raise ConfigError([f"{source}: is not TOML: {error}{_key_at(text, str(error))}{hint}"]) from error
    except RecursionError as error:
        raise ConfigError([f"{source}: is nested too deeply"]) from error


def _key_at(text: str, error: str) -> str:
    """Return ``: KEY`` with the key or the [section] on the line that tomllib's error states, or "".

    tomllib names neither. The value is omitted because it could be a secret.
    """
    stated = _stated_line(error)
    line = text.split("\n")[int(stated[1]) - 1] if stated else ""
    key = _key_or_section(line)
    return f": {key[1]}" if key else ""


def _flat(tree: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield pairs of a dotted key and a value; an unknown section is yielded as one value."""
    for name, value in tree.items():
        if name in SECTIONS and isinstance(value, dict):
            yield from ((f"{name}.{key}", member) for key, member in value.items())
        else:
            yield name, value


def _from_text(text: str, validator: Validator | None) -> object:
    """Return the value that a TOML file would contain; text that cannot be converted is rejected later."""
    if validator is None:
        return None
    if validator.many:
        return [item.strip() for item in text.split(",")] if text.strip() else []
    if validator.base is bool:
        return _SWITCHES.get(text.lower(), text)
    try:
        return validator.base(text)
    except ValueError:
        return text


def _describe(mistake: InvalidValue) -> str:
    if mistake.expected:
        found = _shown(mistake.found)
        return f"{mistake.place}: expected {mistake.expected}, found {found}{_correction(mistake)}"
    shown = mistake.name if mistake.name.isprintable() else repr(mistake.name)  # a quoted key may contain a line end
    return f"{shown}: {_unknown(mistake.name, mistake.found)}"


def _correction(mistake: InvalidValue) -> str:
    """Return a hint that rewrites a string as the expected list, number or boolean; "" if it cannot be converted."""
    validator = _VALIDATORS[mistake.name]
    if (
        not isinstance(mistake.found, str)
        or mistake.index is not None
        or (validator.base is str and not validator.many)
    ):
        return ""
    value = _from_text(mistake.found, validator)
    is_right = validator.many or mistake.name in validate({mistake.name: value}, _VALIDATORS)[0]
    written = json.dumps(value, ensure_ascii=False)
    return f"; write {written}" if is_right and value != [] and len(written) <= _MAX_FOUND_CHARACTERS else ""


def _is_in_list_syntax(mistake: InvalidValue) -> bool:
    """Return whether an item of a list contains a quote or a separator other than a comma."""
    return mistake.index is not None and re.search(r"[\"';\s]", str(mistake.found)) is not None


def _unknown(key: str, value: object) -> str:
    if key in SECTIONS:
        return f"expected a section, found {_shown(value)}"
    if isinstance(value, dict) and "." not in key:
        near = difflib.get_close_matches(key.lower(), SECTIONS, n=1)
        return "unknown section" + (f", did you mean {near[0]}?" if near else "")
    return f"unknown key{_hint(key)}"


def _hint(key: str) -> str:
    """Suggest the most similar known key, or else list the section's keys.

    An identical name in a different section is preferred to a similar name. A similar name in the same section is
    preferred to a similar name in a different section.
    """
    section, _, name = key.rpartition(".")
    namesakes = [known for known in _VALIDATORS if known.rpartition(".")[2] == name]
    siblings = {known.rpartition(".")[2]: known for known in _VALIDATORS if known.rpartition(".")[0] == section != ""}
    near = difflib.get_close_matches(key, namesakes, n=1, cutoff=0)
    near = near or [siblings[one] for one in difflib.get_close_matches(name, siblings, n=1)]
    near = near or [siblings[one] for one in [_ALSO_CALLED.get(name)] if one in siblings]
    near = near or ([] if siblings else difflib.get_close_matches(key, _VALIDATORS, n=1))
    if near:
        return f", did you mean {near[0]}?"
    return f", [{section}] has {_listed(list(siblings))}" if siblings else ""


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _shown(value: object) -> str:
    try:
        text = str(value).lower() if isinstance(value, bool) else repr(value)  # TOML's true, not Python's True
    except ValueError:  # Python refuses to format integers with thousands of digits
        return "a number with thousands of digits"
    return text if len(text) <= _MAX_FOUND_CHARACTERS else text[: _MAX_FOUND_CHARACTERS - 3] + "..."
