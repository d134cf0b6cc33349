"""Finding the file, reading the settings in it and in the environment, and the error messages for mistakes."""

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.config.conftest import mistakes
from tmpmaild.config.file import find, load, variables_without_effect
from tmpmaild.config.settings import SECTIONS, Config, validators_by_key

pytestmark = pytest.mark.usefixtures("nowhere")  # ignore this machine's files

ROOT = Path(__file__).parents[2]


# Finding the configuration file


def test_without_a_file_or_with_an_empty_config_variable_the_defaults_are_used():
    assert find(None, {}) is None
    assert load(None, {}) == Config()
    assert find(None, {"TMPMAILD_CONFIG": ""}) is None


def test_only_the_first_existing_configuration_file_is_read(written, tmp_path):
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


def test_a_requested_file_must_exist_and_an_inaccessible_one_is_not_skipped(tmp_path, monkeypatch):
    missing = tmp_path / "missing.toml"
    expected = [f"{missing}: cannot be read: No such file or directory"]
    assert mistakes(missing) == expected
    assert mistakes(None, {"TMPMAILD_CONFIG": str(missing)}) == expected

    def refuse(_path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", refuse)
    assert find(None, {}) == tmp_path / "etc.toml"


# Configuration files that cannot be read


def test_a_file_that_is_not_utf8_is_reported_and_a_byte_order_mark_is_ignored(tmp_path, written):
    assert mistakes(tmp_path) == [f"{tmp_path}: cannot be read: Is a directory"]
    path = written(b"# caf\xe9\n")
    assert mistakes(path) == [f"{path}: is not UTF-8 (at byte 5)"]
    assert load(written(b"\xef\xbb\xbfdomains = ['a.example']"), {}).domains == ("a.example",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[http\n", "is not TOML: .*line 1"),
        ("[http]\n[smtp]\n[http]\n", "is not TOML: Cannot declare .*http.*; a .section. may occur only once"),
        (
            "domains = ['a']\ndomains = ['b']\n",
            r"is not TOML: Cannot overwrite a value \(at line 2, .*\): domains; a key may occur only once$",
        ),
        ("domains = 'a'\n[domains]\n", r".*\(at line 2, .*\): \[domains\]; a key may occur only once$"),
        ("http = {listen = 1, listen = 2}\n", r".*'listen' \(at line 1, .*\): http; a key may occur only once$"),
        ("# ü\r\n[log]\r\n 'level' = 1\r\n 'level' = 2\r\n", r".*\(at line 4, .*\): 'level'; a key may occur"),
        # Inside a statement with more than one line, there is no key on the reported line, so only the line is stated.
        ("domains = ['a']\ndomains = [\n'b=c',\n]\n", r".*\(at line 4, column \d\); a key may occur only once$"),
        ("domains = [\n'a=b' c\n]\n", r".*\(at line 2, column \d\); separate the items"),
        ("domains: ['a']\n", r".*\(at line 1, column 8\): domains; write KEY = VALUE$"),
        (
            "domains = a.example\n",
            r"is not TOML: Invalid value \(at line 1, .*\): domains; text must be in straight quotes",
        ),
        ("domains = [“a.example”]\n", r".*\(at line 1, .*\): domains; text must be in straight quotes"),
        ("domains = ['a'; 'b']\n", r".*: domains; separate the items of a list with commas, and close it with \]$"),
        (
            '[storage]\npath = "C:\\mail.db"\n',
            r".*line 2.*: path; put text that contains a backslash in single quotes$",
        ),
        (
            "[storage]\nmax_bytes = 10G\n",
            "is not TOML: Expected newline .*line 2.*: max_bytes; .*, and numbers have no unit$",
        ),
        (f"x = {'9' * 5000}", "is not TOML: "),
        (f"x = {'[' * 100_000}", "is (nested too deeply|not TOML)"),
    ],
)
def test_broken_toml_is_reported_in_one_line_with_its_position(written, text, said):
    path = written(text)
    (mistake,) = mistakes(path)
    assert re.match(f"{re.escape(str(path))}: {said}", mistake)


# Wrong values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http = 5", "http: expected a section, found 5"),
        ("[[http]]\nlisten = []", "http: expected a section, found [{'listen': []}]"),
        (
            "domains = 'a.example'",
            "domains: expected a list of at least one string, found 'a.example'; write [\"a.example\"]",
        ),
        (
            "domains = 'a.example, b.test'",
            'domains: expected a list of at least one string, found \'a.example, b.test\'; write ["a.example", "b.test"]',
        ),
        ("domains = []", "domains: expected a list of at least one string, found []"),
        ("[domains]\na = 1", "domains: expected a list of at least one string, found {'a': 1}"),
        ("domains = ['a.example', 5]", "domains[1]: expected a domain name, found 5"),
        ("domains = ['a b']", "domains[0]: expected a domain name, found 'a b'"),
        ("domains = ['a.']", "domains[0]: expected a domain name, found 'a.'"),
        ("domains = ['-a']", "domains[0]: expected a domain name, found '-a'"),
        ("domains = ['']", "domains[0]: expected a domain name, found ''"),
        # ONE DOT LEADER becomes a dot only through a mapping, which would produce a different name
        ("domains = ['a\u2024example']", "domains[0]: expected a domain name, found 'a\u2024example'"),
        # these names differ only in case
        ("domains = ['A.example', 'a.EXAMPLE']", "domains: expected each domain once, found 'a.example' again"),
        ("[http]\nlisten = []", "http.listen: expected a list of at least one string, found []"),
        ("[http]\nlisten = ['8025']", "http.listen[0]: expected host:port, [IPv6]:port or unix:PATH, found '8025'"),
        ("[smtp]\nlisten = ['unix:/x']", "smtp.listen[0]: expected host:port or [IPv6]:port, found 'unix:/x'"),
        (
            "[http]\npublic_url = 'mail.example'",
            "http.public_url: expected http(s)://host[:port][/path], or an empty string, found 'mail.example'",
        ),
        # True is an int in Python
        ("[http]\nmax_connections = true", "http.max_connections: expected a whole number, 0 or more, found true"),
        ("[http]\nmax_connections = -1", "http.max_connections: expected a whole number, 0 or more, found -1"),
        ("[http]\nmax_connections = 1.0", "http.max_connections: expected a whole number, 0 or more, found 1.0"),
        ("[http]\nrequire_token = 1", "http.require_token: expected true or false, found 1"),
        ("[http]\nrequire_token = 'true'", "http.require_token: expected true or false, found 'true'; write true"),
        ("[http]\nrequire_token = 'off'", "http.require_token: expected true or false, found 'off'"),
        ("[log]\naccess = 'false'", "log.access: expected true or false, found 'false'; write false"),
        (
            "[http]\nmax_connections = '5'",
            "http.max_connections: expected a whole number, 0 or more, found '5'; write 5",
        ),
        (
            "[limits]\nexempt = ['10.0.0.1/8']",
            "limits.exempt[0]: expected a network such as 10.0.0.0/8 or 2001:db8::/32, no host bits set, found '10.0.0.1/8'",
        ),
        (
            "[webhooks]\nallow = ['*.corp.example:8443', 'http://x/']",
            "webhooks.allow[1]: expected a host name, *.NAME or a network, each with :port or without, found 'http://x/'",
        ),
        (
            "[smtp]\nmax_message_bytes = '10M'",
            "smtp.max_message_bytes: expected a whole number, from 1024 to 104857600, found '10M'",
        ),
        (
            "[storage]\nurl = 'postgres//me:hunter2@host/mail'",
            "storage.url: expected postgresql://[user@]host[:port][,…]/database, or an empty string, found a different value (not shown: it may contain a password)",
        ),
        (
            "[storage]\nurl = 'postgresql://host/mail'\npath = 'mail.db'",
            "storage.url and storage.path: expected a database or a file, found both",
        ),
        (
            "[storage]\npassword_file = 'secret'",
            "storage.password_file and storage.url: a password has no effect without a URL",
        ),
        ("[storage]\npath = ''", "storage.path: expected the path of a file, found ''"),
        ("[storage]\npath = '.'", "storage.path: expected the path of a file, found '.'"),
        ("[storage]\npath = '/'", "storage.path: expected the path of a file, found '/'"),
        (
            "[storage]\nmax_bytes = 1048575",
            "storage.max_bytes: expected 0, or a whole number of at least 1048576, found 1048575",
        ),
        (
            "[addresses]\nlifetime_seconds = 0",
            "addresses.lifetime_seconds: expected a whole number, from 1 to 315360000, found 0",
        ),
        (
            "[addresses]\nmax_share_per_client = 0",
            "addresses.max_share_per_client: expected a number above 0, at most 1, found 0",
        ),
        (
            "[addresses]\nmax_share_per_client = nan",
            "addresses.max_share_per_client: expected a number above 0, at most 1, found nan",
        ),
        ("[rate_limit]\nburst = 0", "rate_limit.burst: expected a whole number, 1 or more, found 0"),
        ("[log]\nlevel = 'INFO'", "log.level: expected one of debug, info, warning, error, found 'INFO'"),
        ("[log]\nformat = 2026-01-01", "log.format: expected one of text, json, found datetime.date(2026, 1, 1)"),
        ("[smtp]\ntls_key = 'k'", "smtp.tls_certificate and smtp.tls_key: expected both or neither, found only one"),
        (
            "[smtp]\ntls_listen = ['127.0.0.1:465']",
            "smtp.tls_listen and smtp.tls_certificate: listening with TLS requires a certificate and its key",
        ),
        (
            "[smtp]\ntls_listen = ['unix:/run/x']",
            "smtp.tls_listen[0]: expected host:port or [IPv6]:port, found 'unix:/run/x'",
        ),
        (
            "[smtp]\ntls_listen = ['[::1]:80', '[::1]:80']",
            "smtp.tls_listen: expected each listening address once, found ::1 port 80 again",
        ),
        (
            "[http]\nlisten = ['127.0.0.1:1025']",
            "smtp.listen and http.listen: expected each listening address once, found 127.0.0.1 port 1025 again",
        ),
        (
            "[http]\nlisten = 'x'\nlisten2 = 1",
            "http.listen: expected a list of at least one string, found 'x'; write [\"x\"]",
        ),
        (f"domains = ['{'a' * 64}']", f"domains[0]: expected a domain name, found '{'a' * 64}'"),
    ],
)
def test_an_invalid_value_is_reported_with_the_expected_form(written, text, said):
    path = written(text)
    assert f"{path}: {said}" in mistakes(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("domain = ['a']", "domain: unknown key, did you mean domains?"),
        ("[htpp]\nlisten = []", "htpp: unknown section, did you mean http?"),
        ("[HTTP]\nlisten = []", "HTTP: unknown section, did you mean http?"),
        ("[smtp]\nmax_conections = 1", "smtp.max_conections: unknown key, did you mean smtp.max_connections?"),
        # the key exists in a different section
        ("[http]\nhostname = 'a'", "http.hostname: unknown key, did you mean smtp.hostname?"),
        ("lifetime_seconds = 5", "lifetime_seconds: unknown key, did you mean addresses.lifetime_seconds?"),
        ("[log]\npath = 'x'", "log.path: unknown key, did you mean storage.path?"),
        ("[http]\ndomains = ['a']", "http.domains: unknown key, did you mean domains?"),
        # other programs use these names
        ("[http]\nport = 80", "http.port: unknown key, did you mean http.listen?"),
        ("[smtp]\nbind = '::1'", "smtp.bind: unknown key, did you mean smtp.listen?"),
        ("[http]\ntrusted = []", "http.trusted: unknown key, did you mean http.trusted_proxies?"),
        # the names of sections are not suggested as keys
        ("smpt = 1", "smpt: unknown key"),
        ("[log]\nqqqq = 1", "log.qqqq: unknown key, [log] has level, format, access and audit"),
        ("[limits]\nqqqq = 1", "limits.qqqq: unknown key, [limits] has exempt"),
        ("qqqqqqqqqqqqqqqq = 1", "qqqqqqqqqqqqqqqq: unknown key"),
        ('"a\\nb" = 1', "'a\\nb': unknown key"),
    ],
)
def test_an_unknown_key_is_reported_with_the_nearest_known_key(written, text, said):
    path = written(text)
    assert mistakes(path) == [f"{path}: {said}"]


@given(st.sampled_from(sorted(SECTIONS)), st.from_regex(r"[a-z_]{1,20}", fullmatch=True))
def test_every_suggested_key_is_valid_in_its_place(section, name):
    if f"{section}.{name}" in validators_by_key():
        return
    (mistake,) = mistakes(None, {f"TMPMAILD_{section.upper()}__{name.upper()}": "x"})
    meant = re.search(r"did you mean (.+)[?]$", mistake)
    listed = re.search(r", \[(.+)\] has (.+)$", mistake)
    suggested = [meant[1]] if meant else [f"{listed[1]}.{key}" for key in re.split(", | and ", listed[2])]
    assert set(suggested) <= set(validators_by_key())


def test_all_mistakes_are_reported_at_once(written):
    path = written("domain = 1\n[http]\nlisten = 5\ntrusted_proxies = ['x', 'y']\n[log]\nlevel = 1")
    found = mistakes(path, {"TMPMAILD_EXPIRY__INTERVAL_SECONDS": "soon", "TMPMAILD_LOG__COLOUR": "red"})
    of_http = ["http.listen", "http.trusted_proxies[0]", "http.trusted_proxies[1]"]
    expected = ["domain", *of_http, "log.level", "expiry.interval_seconds", "log.colour"]
    assert [mistake.split(": ")[1] for mistake in found] == expected


def test_a_broken_file_or_a_wrong_value_neither_hides_nor_causes_other_errors(tmp_path, written):
    assert len(mistakes(tmp_path, {"TMPMAILD_LOG__LEVEL": "x"})) == 2
    path = written("[smtp]\ntls_key = 5\ntls_certificate = 'c'")
    assert len(mistakes(path)) == 1


@pytest.mark.parametrize("value", ["'" + "x" * 1000 + "'", "0x" + "f" * 5000])
def test_a_long_value_is_shown_in_short(written, value):
    (mistake,) = mistakes(written(f"[log]\nlevel = {value}"))
    found = mistake.partition("found ")[2]
    assert len(found) <= 80


# The environment


def test_the_environment_overrides_the_file(written):
    path = written("domains = ['file.example']\n[log]\nlevel = 'debug'\nformat = 'json'")
    config = load(path, {"TMPMAILD_DOMAINS": "a.example, b.example", "TMPMAILD_LOG__LEVEL": "error"})
    assert config.domains == ("a.example", "b.example")
    assert (config.log.level, config.log.format) == ("error", "json")


@pytest.mark.parametrize("name", ["TMPMAILD_URL", "TMPMAILD_", "TMPMAILD_LOG", "HTTP__LISTEN", "XTMPMAILD_A__B"])
def test_variables_with_other_names_are_ignored(name):
    assert load(None, {name: "x"}) == Config()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("TMPMAILD_HTPP__LISTEN", "x", "htpp.listen: unknown key, did you mean http.listen?"),
        ("TMPMAILD_SMTP__HOST_NAME", "x", "smtp.host_name: unknown key, did you mean smtp.hostname?"),
        ("TMPMAILD_HTTP__REQUIRE_TOKEN", "yes", "http.require_token: expected true or false, found 'yes'"),
        ("TMPMAILD_SMTP__LISTEN", "127.0.0.1:25,,", "smtp.listen[1]: "),
    ],
)
def test_an_error_in_the_environment_names_the_variable(name, text, said):
    assert mistakes(None, {name: text})[0].startswith(f"{name}: {said}")


@pytest.mark.parametrize("text", ['["a.example"]', "'a.example'", "a.example;b.example", "a.example b.example"])
def test_a_list_in_the_environment_that_is_written_in_a_different_syntax_is_reported_with_the_right_one(written, text):
    hint = "; in a variable, separate items with commas, and omit quotes and brackets"
    (mistake,) = mistakes(None, {"TMPMAILD_DOMAINS": text})
    assert mistake.endswith(f"found {text!r}{hint}")
    (mistake,) = mistakes(None, {"TMPMAILD_DOMAINS": "a_b"})
    assert mistake.endswith("found 'a_b'")
    (mistake,) = mistakes(written('domains = ["a b"]'), {})
    assert mistake.endswith("found 'a b'")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("TMPMAILD_HTTP_LISTEN", ", did you mean TMPMAILD_HTTP__LISTEN?"),
        ("TMPMAILD_RATE_LIMIT_BURST", ", did you mean TMPMAILD_RATE_LIMIT__BURST?"),
        ("TMPMAILD_DOMAIN", ", did you mean TMPMAILD_DOMAINS?"),
        ("TMPMAILD_SMTP_HOST_NAME", ", did you mean TMPMAILD_SMTP__HOSTNAME?"),
        ("TMPMAILD_CONFG", ", did you mean TMPMAILD_CONFIG?"),
        ("TMPMAILD_QQQQQQQQ", ""),
    ],
)
def test_an_unused_variable_is_reported_with_the_nearest_used_variable(name, said):
    assert load(None, {name: "x"}) == Config()
    assert variables_without_effect({name: "x"}) == [f"{name}: this variable has no effect{said}"]


def test_every_key_written_with_one_underscore_is_named_with_the_right_variable():
    for key in validators_by_key():
        right = "TMPMAILD_" + key.upper().replace(".", "__")
        wrong = right.replace("__", "_")
        told = [] if wrong == right else [f"{wrong}: this variable has no effect, did you mean {right}?"]
        assert variables_without_effect({right: "", wrong: ""}) == told


def test_variables_set_by_our_tools_or_kubernetes_are_not_reported():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    ours = [ROOT / name for name in files if name.startswith(("tmpmaild/", "clients/typescript/src/"))]
    read = {name for file in ours for name in re.findall(rb"\bTMPMAILD_[A-Z_]*[A-Z]\b", file.read_bytes())}
    assert b"TMPMAILD_URL" in read
    assert variables_without_effect({name.decode(): "x" for name in read}) == []
    ports = {"PORT_25_TCP": "tcp://10.0.0.1:25", "PORT_25_TCP_PORT": "25", "PORT": "tcp://10.0.0.1:25"}
    service = {"SERVICE_HOST": "10.0.0.1", "SERVICE_PORT": "25", "SERVICE_PORT_SMTP": "25"}
    assert variables_without_effect({f"TMPMAILD_{name}": text for name, text in (ports | service).items()}) == []
    assert len(variables_without_effect({"TMPMAILD_PORT": "8025"})) == 1


def test_a_conflict_names_all_its_sources(written):
    path = written("[smtp]\nlisten = ['[::1]:25']")
    (mistake,) = mistakes(path, {"TMPMAILD_HTTP__LISTEN": "[0::1]:25"})
    assert mistake == (
        f"{path} and TMPMAILD_HTTP__LISTEN: smtp.listen and http.listen: "
        "expected each listening address once, found ::1 port 25 again"
    )
