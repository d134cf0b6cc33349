"""What an operator may write, and the messages about mistakes."""

import re
import subprocess
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import configuration
from tables import rows_of, table
from tmpmaild.config import file as configfile
from tmpmaild.config.file import find, load, variables_without_effect
from tmpmaild.config.kinds import Endpoint, parse_endpoint
from tmpmaild.config.settings import SECTIONS, Addresses, Config, kinds_by_key
from tmpmaild.errors import ConfigError

ROWS = rows_of(__file__)

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """Keep the files of the machine that runs the tests out of them."""
    monkeypatch.setattr(configfile, "IN_CURRENT_FOLDER", tmp_path / "here.toml")
    monkeypatch.setattr(configfile, "IN_ETC", tmp_path / "etc.toml")


@pytest.fixture
def written(tmp_path):
    def write(text, name="given.toml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def mistakes(path, environ=()):
    with pytest.raises(ConfigError) as caught:
        load(path, dict(environ))
    assert all("\n" not in mistake for mistake in caught.value.mistakes)
    return list(caught.value.mistakes)


def in_environment(**variables):
    return load(None, {f"TMPMAILD_{name}": value for name, value in variables.items()})


# Which file


def test_without_any_file_the_defaults_are_used_and_an_empty_config_variable_names_none():
    assert find(None, {}) is None
    assert load(None, {}) == Config()
    assert find(None, {"TMPMAILD_CONFIG": ""}) is None


def test_of_the_places_only_the_first_that_has_a_file_is_read(written, tmp_path):
    written("[expiry]\ninterval_seconds = 5", "etc.toml")
    assert load(None, {}).expiry.interval_seconds == 5
    written("[expiry]\ninterval_seconds = 6", "here.toml")
    assert load(None, {}).expiry.interval_seconds == 6
    named = {"TMPMAILD_CONFIG": str(written("[expiry]\ninterval_seconds = 7", "named.toml"))}
    assert load(None, named).expiry.interval_seconds == 7
    given = written("[expiry]\ninterval_seconds = 8")
    assert load(given, named).expiry.interval_seconds == 8
    assert find(given, named) == given
    written("[log]\nlevel = 'debug'", "etc.toml")
    written("[log]\nformat = 'json'", "here.toml")
    assert load(None, {}).log.level == "info"


def test_a_place_that_was_asked_for_must_exist_and_one_that_may_not_be_looked_at_is_not_passed_over(
    tmp_path, monkeypatch
):
    missing = tmp_path / "missing.toml"
    expected = [f"{missing}: cannot be read: No such file or directory"]
    assert mistakes(missing) == expected
    assert mistakes(None, {"TMPMAILD_CONFIG": str(missing)}) == expected

    def refuse(_path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", refuse)
    assert find(None, {}) == tmp_path / "etc.toml"


# Files that cannot be read


def test_what_is_no_file_of_utf8_is_named_and_a_byte_order_mark_forgiven(tmp_path, written):
    assert mistakes(tmp_path) == [f"{tmp_path}: cannot be read: Is a directory"]
    path = written(b"# caf\xe9\n")
    assert mistakes(path) == [f"{path}: is not UTF-8 (at byte 5)"]
    assert load(written(b"\xef\xbb\xbfdomains = ['a.example']"), {}).domains == ("a.example",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *ROWS["broken toml is one line that names the place"],
        (f"x = {'9' * 5000}", "is not TOML: "),
        (f"x = {'[' * 100_000}", "is (nested too deeply|not TOML)"),
    ],
)
def test_broken_toml_is_one_line_that_names_the_place(written, text, said):
    path = written(text)
    (mistake,) = mistakes(path)
    assert re.match(f"{re.escape(str(path))}: {said}", mistake)


# Wrong values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *ROWS["an impossible value is named with what was expected"],
        (f"domains = ['{'a' * 64}']", f"domains[0]: expected a domain name, found '{'a' * 64}'"),
    ],
)
def test_an_impossible_value_is_named_with_what_was_expected(written, text, said):
    path = written(text)
    assert f"{path}: {said}" in mistakes(path)


@pytest.mark.parametrize(("text", "said"), ROWS["an unknown key is named with the nearest known one"])
def test_an_unknown_key_is_named_with_the_nearest_known_one(written, text, said):
    path = written(text)
    assert mistakes(path) == [f"{path}: {said}"]


@given(st.sampled_from(sorted(SECTIONS)), st.from_regex(r"[a-z_]{1,20}", fullmatch=True))
def test_what_is_suggested_instead_of_a_key_can_be_written_there(section, name):
    if f"{section}.{name}" in kinds_by_key():
        return
    (mistake,) = mistakes(None, {f"TMPMAILD_{section.upper()}__{name.upper()}": "x"})
    meant = re.search(r"did you mean (.+)[?]$", mistake)
    listed = re.search(r", \[(.+)\] has (.+)$", mistake)
    suggested = [meant[1]] if meant else [f"{listed[1]}.{key}" for key in re.split(", | and ", listed[2])]
    assert set(suggested) <= set(kinds_by_key())


def test_all_mistakes_are_said_at_once(written):
    path = written("domain = 1\n[http]\nlisten = 5\ntrusted_proxies = ['x', 'y']\n[log]\nlevel = 1")
    found = mistakes(path, {"TMPMAILD_EXPIRY__INTERVAL_SECONDS": "soon", "TMPMAILD_LOG__COLOUR": "red"})
    of_http = ["http.listen", "http.trusted_proxies[0]", "http.trusted_proxies[1]"]
    expected = ["domain", *of_http, "log.level", "expiry.interval_seconds", "log.colour"]
    assert [mistake.split(": ")[1] for mistake in found] == expected


def test_neither_a_broken_file_nor_a_wrong_value_hides_or_makes_other_mistakes(tmp_path, written):
    assert len(mistakes(tmp_path, {"TMPMAILD_LOG__LEVEL": "x"})) == 2
    path = written("[smtp]\ntls_key = 5\ntls_certificate = 'c'")
    assert len(mistakes(path)) == 1


@pytest.mark.parametrize("value", ["'" + "x" * 1000 + "'", "0x" + "f" * 5000])
def test_a_long_value_is_shown_in_short(written, value):
    (mistake,) = mistakes(written(f"[log]\nlevel = {value}"))
    found = mistake.partition("found ")[2]
    assert len(found) <= 80


# The environment


def test_the_environment_beats_the_file(written):
    path = written("domains = ['file.example']\n[log]\nlevel = 'debug'\nformat = 'json'")
    config = load(path, {"TMPMAILD_DOMAINS": "a.example, b.example", "TMPMAILD_LOG__LEVEL": "error"})
    assert config.domains == ("a.example", "b.example")
    assert (config.log.level, config.log.format) == ("error", "json")


@pytest.mark.parametrize("name", ["TMPMAILD_URL", "TMPMAILD_", "TMPMAILD_LOG", "HTTP__LISTEN", "XTMPMAILD_A__B"])
def test_names_that_are_no_configuration_are_ignored(name):
    assert load(None, {name: "x"}) == Config()


@table(("name", "text", "said"), ROWS["a mistake in the environment names the variable"])
def test_a_mistake_in_the_environment_names_the_variable(name, text, said):
    assert mistakes(None, {name: text})[0].startswith(f"{name}: {said}")


@pytest.mark.parametrize(
    ("name", "said"), ROWS["a variable that no part reads is named with the nearest that one does"]
)
def test_a_variable_that_no_part_reads_is_named_with_the_nearest_that_one_does(name, said):
    assert load(None, {name: "x"}) == Config()
    assert variables_without_effect({name: "x"}) == [f"{name}: this variable sets nothing{said}"]


def test_every_key_written_with_one_underscore_is_named_with_the_right_variable():
    for key in kinds_by_key():
        right = "TMPMAILD_" + key.upper().replace(".", "__")
        wrong = right.replace("__", "_")
        told = [] if wrong == right else [f"{wrong}: this variable sets nothing, did you mean {right}?"]
        assert variables_without_effect({right: "", wrong: ""}) == told


def test_variables_that_ours_or_kubernetes_set_are_not_named():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    ours = [ROOT / name for name in files if name.startswith(("tmpmaild/", "clients/typescript/src/"))]
    read = {name for file in ours for name in re.findall(rb"\bTMPMAILD_[A-Z_]*[A-Z]\b", file.read_bytes())}
    assert b"TMPMAILD_URL" in read
    assert variables_without_effect({name.decode(): "x" for name in read}) == []
    ports = {"PORT_25_TCP": "tcp://10.0.0.1:25", "PORT_25_TCP_PORT": "25", "PORT": "tcp://10.0.0.1:25"}
    service = {"SERVICE_HOST": "10.0.0.1", "SERVICE_PORT": "25", "SERVICE_PORT_SMTP": "25"}
    assert variables_without_effect({f"TMPMAILD_{name}": text for name, text in (ports | service).items()}) == []
    assert len(variables_without_effect({"TMPMAILD_PORT": "8025"})) == 1


def test_a_conflict_names_all_that_set_it(written):
    path = written("[smtp]\nlisten = ['[::1]:25']")
    (mistake,) = mistakes(path, {"TMPMAILD_HTTP__LISTEN": "[0::1]:25"})
    assert mistake == (
        f"{path} and TMPMAILD_HTTP__LISTEN: smtp.listen and http.listen: "
        "expected each place to listen once, found ::1 port 25 again"
    )


# What values become


@table(("text", "parts"), ROWS["a place to listen is taken apart"])
def test_a_place_to_listen_is_taken_apart(text, parts):
    assert parse_endpoint(text) == Endpoint(*parts)


@table("text", [*ROWS["a malformed place to listen is refused"], "unix:" + "a" * 108])
def test_a_malformed_place_to_listen_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - which words it has does not matter
        parse_endpoint(text)


@table(("name", "text", "expected"), ROWS["a value of the environment is brought into one form"])
def test_a_value_of_the_environment_is_brought_into_one_form(name, text, expected):
    found = in_environment(**{name: text})
    for part in name.lower().split("__"):
        found = getattr(found, part)
    assert (tuple(map(str, found)) if isinstance(found, tuple) else found) == expected


@table(("name", "text"), ROWS["an impossible value of the environment is refused"])
def test_an_impossible_value_of_the_environment_is_refused(name, text):
    assert len(mistakes(None, {f"TMPMAILD_{name}": text})) == 1


def test_free_ports_may_be_taken_twice_and_addresses_always_live_as_long_as_they_are_created_for():
    config = in_environment(HTTP__LISTEN="127.0.0.1:0,127.0.0.1:0", SMTP__LISTEN="127.0.0.1:0")
    assert len(config.http.listen) == 2
    assert Addresses(lifetime_seconds=7200).max_lifetime_seconds == 7200
    assert in_environment(ADDRESSES__LIFETIME_SECONDS="7200").addresses.max_lifetime_seconds == 7200
    assert Addresses(lifetime_seconds=1).max_lifetime_seconds == 3600


def test_a_wildcard_is_not_the_first_domain():
    told = "expected the first to be a name that new addresses can have, found '*.a.example'; put 'a.example' before it"
    assert mistakes(None, {"TMPMAILD_DOMAINS": "*.a.example"}) == [f"TMPMAILD_DOMAINS: domains: {told}"]


# The example and the documentation


def uncommented():
    text = (ROOT / "config.example.toml").read_text("utf-8")
    return re.sub(r"^#(?=[a-z_]+ = )", "", text, flags=re.MULTILINE)


def test_the_example_shows_every_key_commented_out_with_its_default(written):
    assert load(written(uncommented()), {}) == Config()
    tree = tomllib.loads(uncommented())
    shown = {f"{section}.{key}" for section, members in tree.items() if section != "domains" for key in members}
    assert shown | {"domains"} == set(kinds_by_key())
    untouched = tomllib.loads((ROOT / "config.example.toml").read_text("utf-8"))
    assert not any(untouched.values())


def test_the_example_and_the_documentation_are_what_is_made_of_the_settings(monkeypatch):
    assert configuration.EXAMPLE.read_text("utf-8") == configuration.example(), "run python tools/stable.py"
    text = configuration.PAGE.read_text("utf-8")
    assert text == configuration.page(text), "run python tools/stable.py"
    monkeypatch.setattr(configuration, "_texts", lambda _struct: {})
    with pytest.raises(ValueError, match=r"domains has no text below it in tmpmaild/config/settings\.py"):
        configuration.example()


def test_the_documentation_has_every_key_with_its_default():
    text = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    rows = dict(re.findall(r"^- `([a-z_.]+)` \(`(.+?)`\): ", text, flags=re.MULTILINE))
    assert set(rows) == set(kinds_by_key())
    tree = msgspec.to_builtins(Config())
    for key, default in rows.items():
        section, _, name = key.rpartition(".")
        value = (tree[section] if section else tree)[name]
        written_value = tomllib.loads(f"x = {default}")["x"]
        assert written_value == (list(value) if isinstance(value, tuple) else value), key


def test_the_mistakes_shown_in_the_documentation_are_what_is_said(written):
    text = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    shown = re.search(r"```text\n(.*?)```", text, flags=re.DOTALL)[1].replace("/etc/tmpmaild/config.toml", "FILE")
    path = written("[smtp]\nmax_message_bytes = '10M'\n[http]\nhostname = 'a'")
    found = mistakes(path, {"TMPMAILD_SMTP__AUTH": "yes"})
    assert shown.splitlines() == [mistake.replace(str(path), "FILE") for mistake in found]
