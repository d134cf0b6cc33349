"""Read the configuration from a file and the environment, and report all mistakes at once; no key is named here."""

import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tmpmaild.config.settings import SECTIONS, Config, conflicts, validators_by_key
from tmpmaild.config.writers import others_who_write
from tmpmaild.errors import ConfigError
from tmpmaild.validation import InvalidValue, Validator, validate

PREFIX: Final = "TMPMAILD_"
IN_CURRENT_FOLDER: Final = Path("tmpmaild.toml")
IN_ETC: Final = Path("/etc/tmpmaild/config.toml")

_VALIDATORS: Final = validators_by_key()
_MAX_FOUND_CHARACTERS: Final = 80
_ONCE: Final = "; a [section] may be there once: move its keys below the first"
# What other programs call a key of ours.
_ALSO_CALLED: Final = dict.fromkeys(("port", "host", "bind", "address", "addr", "interface", "socket"), "listen")
# Read by commands, the plugin of pytest and the client for TypeScript, which all start the service too.
_OTHER_VARIABLES: Final = (
    *("CONFIG", "CATCH_ALL", "FOR_TESTS", "URL", "TOKEN", "SMTP", "SMTPS", "CA_FILE", "TIMEOUT_MS"),
)
# Kubernetes sets these in every container if there is a service of the name tmpmaild.
_OF_KUBERNETES = re.compile(r"SERVICE_(HOST|PORT(_\w+)?)=|PORT_\d+_[A-Z]+(_\w+)?=|PORT=\w+://").match
_SWITCHES: Final = {"true": True, "false": False}


def find(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the file to read: the given one, ``$TMPMAILD_CONFIG``, one in the usual places; None for the defaults.

    A file given by name is returned even if it does not exist, so that reading it fails. Raises ``ConfigError`` for a
    file in the current folder that somebody else could have written: it says where passwords are read and sent.
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
    """Return why no configuration can be looked for in the current folder: no permission, or it is gone; else ""."""
    try:
        Path.cwd().stat()
        Path().stat()  # needs the right to enter it, which its full name does not
    except OSError as error:
        return f"the current folder: {error.strerror}; {IN_CURRENT_FOLDER} is not looked for there"
    return ""


def _expect_own(source: Path) -> None:
    try:
        reason = others_who_write(source)
    except OSError as error:
        reason = f"{source}: cannot be inspected: {error.strerror}"
    if reason:
        hint = f"somebody else could have written this configuration; if it is meant, name it: --config ./{source}"
        raise ConfigError([f"{reason}; {hint}"])


def load(path: Path | None, environ: Mapping[str, str], defaults: Mapping[str, object] = {}) -> Config:
    """Load the defaults, then override them with the file of ``find`` and with the environment; raises ConfigError.

    ``defaults`` holds other defaults by dotted key.

    Each mistake is one line: the file or variable, the key, what was expected, what was found.
    """
    return _settings(find(path, environ), environ, defaults).config()


def load_what_is_right(path: Path | None, environ: Mapping[str, str]) -> Config:
    """Read what ``load`` reads, without the values that are mistakes: to find a service that runs with others.

    Raises ConfigError for a file that must not be read at all.
    """
    return _settings(find(path, environ), environ, {}).config_of_right_values()


def _settings(source: Path | None, environ: Mapping[str, str], defaults: Mapping[str, object]) -> "_Settings":
    settings = _Settings()
    settings.add_defaults(defaults)
    if source is not None:
        settings.add_file(source)
    settings.add_environment(environ)
    return settings


def variables_without_effect(environ: Mapping[str, str]) -> list[str]:
    """Return a line for each variable that looks like one of ours and is read by nothing: a warning for the operator.

    One with two underscores is not among them: ``load`` refuses it.
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
            lines.append(f"{name}: this variable sets nothing" + (f", did you mean {near}?" if near else ""))
    return lines


def _nearest(name: str, known: Mapping[str, str]) -> str:
    """Return the value of the most similar key, or ""."""
    return next((known[near] for near in difflib.get_close_matches(name, known, n=1, cutoff=0.75)), "")


class _Settings:
    """What was read so far: good values by dotted key, where each key was set, and the mistakes."""

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

    def config(self) -> Config:
        """Return the configuration; raises ConfigError with all mistakes."""
        config = self.config_of_right_values()
        self._add_conflicts(config)
        if self._mistakes:
            raise ConfigError(self._mistakes)
        return config

    def config_of_right_values(self) -> Config:
        """Return the configuration, with defaults instead of invalid values."""
        members: dict[str, dict[str, object]] = {section: {} for section in ("", *SECTIONS)}
        for key, value in self._values.items():
            section, _, name = key.rpartition(".")
            members[section][name] = value
        sections: dict[str, Any] = {name: struct(**members[name]) for name, struct in SECTIONS.items()}
        return Config(**members[""], **sections)  # type: ignore[arg-type]  # each was validated

    def _add(self, given: dict[str, object], origins: dict[str, str]) -> None:
        values, mistakes = validate(given, _VALIDATORS)
        self._origins |= origins
        self._values = {key: value for key, value in self._values.items() if key not in given} | values
        self._mistakes += [f"{origins[mistake.name]}: {_worded(mistake)}" for mistake in mistakes]

    def _add_conflicts(self, config: Config) -> None:
        for keys, complaint in conflicts(config):
            set_keys = [key for key in keys if key in self._origins]
            if all(key in self._values for key in set_keys):  # else the conflict may not be one
                where = " and ".join(dict.fromkeys(self._origins[key] for key in set_keys))
                self._mistakes.append(f"{where}: {' and '.join(keys)}: {complaint}")


def _may_exist(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:  # starting with the defaults instead would hide the operator's file
        return True


def _read(source: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(source.read_text("utf-8-sig"))
    except OSError as error:
        is_forbidden = isinstance(error, PermissionError)
        hint = f"; the service's user must have the right: chmod 0644 {source}" if is_forbidden else ""
        raise ConfigError([f"{source}: cannot be read: {error.strerror}{hint}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{source}: is not UTF-8 (at byte {error.start})"]) from error
    except ValueError as error:  # TOMLDecodeError, and numbers of thousands of digits
        hint = _ONCE if str(error).startswith("Cannot declare") else ""
        raise ConfigError([f"{source}: is not TOML: {error}{hint}"]) from error
    except RecursionError as error:
        raise ConfigError([f"{source}: is nested too deeply"]) from error


def _flat(tree: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield dotted keys and values; an unknown section is one value."""
    for name, value in tree.items():
        if name in SECTIONS and isinstance(value, dict):
            yield from ((f"{name}.{key}", member) for key, member in value.items())
        else:
            yield name, value


def _from_text(text: str, validator: Validator | None) -> object:
    """Return the value that a TOML file would contain; text that cannot be converted is refused later."""
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


def _worded(mistake: InvalidValue) -> str:
    if mistake.expected:
        found = _shown(mistake.found)
        return f"{mistake.place}: expected {mistake.expected}, found {found}{_written_right(mistake)}"
    shown = mistake.name if mistake.name.isprintable() else repr(mistake.name)  # a quoted key may hold a line end
    return f"{shown}: {_unknown(mistake.name, mistake.found)}"


def _written_right(mistake: InvalidValue) -> str:
    """Show how a text would be written that stands where a list, a number or a switch is expected."""
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


def _unknown(key: str, value: object) -> str:
    if key in SECTIONS:
        return f"expected a section, found {_shown(value)}"
    if isinstance(value, dict) and "." not in key:
        near = difflib.get_close_matches(key, SECTIONS, n=1)
        return "unknown section" + (f", did you mean {near[0]}?" if near else "")
    return f"unknown key{_hint(key)}"


def _hint(key: str) -> str:
    """Suggest the nearest known key, else what the section has.

    The same name in another section beats a similar spelling, one in the same section beats others.
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
        text = repr(value)
    except ValueError:  # Python refuses to write out integers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= _MAX_FOUND_CHARACTERS else text[: _MAX_FOUND_CHARACTERS - 3] + "..."
