"""The choice of the service for the tests, and of the server that accepts mail for it."""

import pytest

from tmpmaild.pytest_plugin import embedded


class Unconfigured:
    """The configuration of a pytest session without any options."""

    def getoption(self, _name):
        return None

    def getini(self, _name):
        return ""


TESTS = """
def test_it(tmpmail, tmpmail_smtp):
    print("asked", tmpmail.url, *tmpmail_smtp)
"""
INI = "tmpmaild_url = http://ini.test:8025\ntmpmaild_smtp = mx.ini.test\n"
ENVIRONMENT = {"TMPMAILD_URL": "https://env.test/tmp", "TMPMAILD_SMTP": "[::1]:2525"}
OPTIONS = ("--tmpmaild-url=http://option.test", "--tmpmaild-smtp=mx.option.test:26")


def test_a_service_is_taken_from_the_option_then_the_ini_key_then_the_environment(run, tmp_path, monkeypatch):
    status, text = run("-rP", tests=TESTS, ini=INI, **ENVIRONMENT)
    assert (status, "asked http://ini.test:8025 mx.ini.test 25\n" in text) == (0, True), text

    # This run uses the option. It also checks that an installed plugin is loaded by name, and only once.
    installed = tmp_path / "installed-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[pytest11]\ntmpmaild = tmpmaild.pytest_plugin\n")
    given = {"plugin": "tmpmaild", "python_path": tmp_path, **ENVIRONMENT}
    status, text = run("-rP", *OPTIONS, tests=TESTS, ini=INI, **given)
    assert (status, "asked http://option.test mx.option.test 26\n" in text) == (0, True), text

    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    service = embedded.given(Unconfigured())
    assert (service.url, service.smtp) == ("https://env.test/tmp", ("::1", 2525))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("localhost", ("localhost", 1025)),
        ("127.0.0.9", ("127.0.0.9", 1025)),
        ("[::1]", ("::1", 1025)),
        ("mx.example.org", ("mx.example.org", 25)),
        ("192.0.2.7:2525", ("192.0.2.7", 2525)),
    ],
)
def test_a_mail_server_without_a_port_uses_1025_on_this_machine_and_25_elsewhere(text, place):
    assert embedded.smtp_server(text) == place


@pytest.mark.parametrize(
    "text", ["", ":25", "mx.test:smtp", "mx.test:99999", "mx.test:0", "mx.test/path", "smtp://mx.test", "::1"]
)
def test_an_invalid_mail_server_is_reported(text):
    with pytest.raises(embedded.NoService, match="is not a mail server, expected HOST or HOST:PORT"):
        embedded.smtp_server(text)


def test_an_invalid_url_is_reported_without_a_traceback(run):
    status, text = run("--tmpmaild-url=mail.example.org:8025", tests=TESTS)
    assert (status, "Traceback" in text) == (1, False)
    assert "tmpmaild: 'mail.example.org:8025' is not the URL of a service, such as http://127.0.0.1:8025" in text


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "ftp://x", "http://user:secret@x", "http://x/?x=1"])
def test_a_url_that_no_client_accepts_is_refused(monkeypatch, url):
    monkeypatch.setenv("TMPMAILD_URL", url)
    with pytest.raises(embedded.NoService, match="URL") as refused:
        embedded.given(Unconfigured())
    assert "secret" not in str(refused.value)
