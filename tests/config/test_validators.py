"""Values of settings: how they are converted, and which are rejected."""

import pytest

from tests.config.conftest import in_environment, mistakes
from tmpmaild.config.settings import Addresses
from tmpmaild.config.validators import Endpoint, parse_endpoint

pytestmark = pytest.mark.usefixtures("nowhere")  # ignore this machine's files


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("127.0.0.1:25", ("127.0.0.1", 25)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:8025", ("::1", 8025)),
        ("unix:/run/tmpmaild/http.sock", ("", 0, "/run/tmpmaild/http.sock")),
    ],
)
def test_a_listen_address_is_parsed(text, parts):
    assert parse_endpoint(text) == Endpoint(*parts)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":25",
        "*:25",
        "25",
        "a",
        "a:",
        "a:x",
        "a:²",
        "a:-1",
        "a:65536",
        "::1:25",
        "[::1]",
        "[x]:1",
        "unix:",
        "a:1\n",
        "a b:1",
        "unix:a\0b",
        "tcp://a:1",
        "unix:" + "a" * 108,
    ],
)
def test_a_malformed_listen_address_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - the text of the error does not matter
        parse_endpoint(text)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("HTTP__PUBLIC_URL", "https://Mail.Example", "https://mail.example"),
        ("HTTP__PUBLIC_URL", "https://mail.example:443/", "https://mail.example"),
        ("HTTP__PUBLIC_URL", "http://[::1]:8080/a/b/", "http://[::1]:8080/a/b"),
        ("HTTP__PUBLIC_URL", "https://bücher.example/~x", "https://xn--bcher-kva.example/~x"),
        ("HTTP__REQUIRE_TOKEN", "True", True),
        ("HTTP__TRUSTED_PROXIES", "10.0.0.0/8,2001:db8::/32", ("10.0.0.0/8", "2001:db8::/32")),
        ("HTTP__CORS_ORIGINS", "", ()),
        (
            "HTTP__CORS_ORIGINS",
            "https://App.Example:443,http://localhost:3000",
            ("https://app.example", "http://localhost:3000"),
        ),
        ("HTTP__ALLOWED_HOSTS", "Mail.Example,192.0.2.1,[2001:DB8::1]", ("mail.example", "192.0.2.1", "2001:db8::1")),
        ("RATE_LIMIT__REQUESTS_PER_MINUTE", "0", 0),
        ("ADDRESSES__MAX_SHARE_PER_CLIENT", "1", 1.0),
        ("ADDRESSES__LIFETIME_SECONDS", "1", 1),
        ("ADDRESSES__MAX_MESSAGES", "1000000", 1000000),
        ("EXPIRY__INTERVAL_SECONDS", "1", 1),
        ("STORAGE__MAX_BYTES", "1048576", 1048576),
        ("SMTP__HOSTNAME", "MX.Example", "mx.example"),
        ("DOMAINS", "Bücher.Example,straße.example", ("xn--bcher-kva.example", "xn--strae-oqa.example")),
        ("DOMAINS", "a.example,*.Bücher.example", ("a.example", "*.xn--bcher-kva.example")),
    ],
)
def test_a_value_from_the_environment_is_normalised(name, text, expected):
    found = in_environment(**{name: text})
    for part in name.lower().split("__"):
        found = getattr(found, part)
    assert (tuple(map(str, found)) if isinstance(found, tuple) else found) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("HTTP__PUBLIC_URL", "ftp://a"),
        ("HTTP__PUBLIC_URL", "https://"),
        ("HTTP__PUBLIC_URL", "https://a?q"),
        ("HTTP__PUBLIC_URL", "https://a/#f"),
        ("HTTP__PUBLIC_URL", "https://u:p@a"),
        ("HTTP__PUBLIC_URL", "https://a//b"),
        ("HTTP__PUBLIC_URL", "https://a/b c"),
        ("HTTP__PUBLIC_URL", "//a"),
        ("HTTP__PUBLIC_URL", "https://a:99999"),
        ("HTTP__PUBLIC_URL", "https://a\n"),
        ("HTTP__PUBLIC_URL", "https://a/ü"),
        ("HTTP__PUBLIC_URL", "javascript:alert(1)"),
        ("HTTP__CORS_ORIGINS", "*"),
        ("HTTP__CORS_ORIGINS", "null"),
        ("HTTP__CORS_ORIGINS", "https://a/"),
        ("HTTP__CORS_ORIGINS", "https://a/b"),
        ("HTTP__CORS_ORIGINS", "a.example"),
        ("HTTP__ALLOWED_HOSTS", "mail.example:80"),
        ("DOMAINS", "a.example,*"),
        ("DOMAINS", "a.example,*."),
        ("DOMAINS", "a.example,a.*.example"),
        ("DOMAINS", "a.example,*a.example"),
        ("DOMAINS", "a.example,**.a.example"),
        ("DOMAINS", "a.example,*.*.a.example"),
    ],
)
def test_an_impossible_value_from_the_environment_is_refused(name, text):
    assert len(mistakes(None, {f"TMPMAILD_{name}": text})) == 1


def test_free_ports_may_be_listed_twice_and_a_maximum_lifetime_is_at_least_the_default():
    config = in_environment(HTTP__LISTEN="127.0.0.1:0,127.0.0.1:0", SMTP__LISTEN="127.0.0.1:0")
    assert len(config.http.listen) == 2
    assert Addresses(lifetime_seconds=7200).max_lifetime_seconds == 7200
    assert in_environment(ADDRESSES__LIFETIME_SECONDS="7200").addresses.max_lifetime_seconds == 7200
    assert Addresses(lifetime_seconds=1).max_lifetime_seconds == 3600


def test_a_wildcard_is_not_the_first_domain():
    told = "expected the first domain to be a name, not a wildcard, found '*.a.example'; put 'a.example' before it"
    assert mistakes(None, {"TMPMAILD_DOMAINS": "*.a.example"}) == [f"TMPMAILD_DOMAINS: domains: {told}"]
