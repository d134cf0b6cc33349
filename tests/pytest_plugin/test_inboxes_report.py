"""The messages in the report of a failed test."""

import json
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.joinpath("suites/inboxes_report.py").read_text()


@pytest.fixture(scope="module")
def shown(run_in, service, tmp_path_factory):
    """Return the reports of all tests by name."""
    folder = tmp_path_factory.mktemp("report")
    text = run_in(folder, *service, "-p", "anyio.pytest_plugin", "-l", tests=TESTS, ini="anyio_mode = auto\n").text
    parts = re.split(r"^_+ (?:ERROR at setup of )?(test_\w+)\S* _+$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def listing(text):
    """Return the lines below the title of each of our sections."""
    sections = re.findall(
        r"^-+ tmpmaild: messages of \S+@mail\.example\.com -+\n((?:(?![-_=]{3}).*\n?)*)", text, re.MULTILINE
    )
    return [one.splitlines() for one in sections]


@pytest.mark.parametrize("name", ["test_plain", "test_whose_fixture_fails"])
def test_a_failure_shows_sender_subject_code_link_and_text_without_control_sequences(shown, name):
    ((first, *rest),) = listing(shown[name])
    assert re.fullmatch(r"2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00  shop@shop\.example  Wel\ufffd\[31mcome", first)
    assert rest == [
        "  code: 481516",
        "  link: https://shop.example/confirm?t=1",
        "  | Your code is 481516.\ufffd[2J\ufffd",
        "  | https://shop.example/confirm?t=1",
    ]


def test_a_failure_shows_every_inbox_but_never_its_token(shown):
    (token,) = re.findall(r"^token (\S+)$", shown["test_plain"], re.MULTILINE)
    assert len(token) > 30
    assert shown["test_plain"].count(token) == 1
    ((mail,),) = listing(shown["test_with_await"])
    assert mail.endswith("  shop@shop.example  awaited")
    empty, (mail,) = listing(shown["test_several"])
    assert empty == ["no messages"]
    assert mail.endswith("second")
    assert listing(shown["test_without"]) == []
    assert "test_good" not in shown


def test_the_report_has_a_limited_length(shown):
    ((older, *lines),) = listing(shown["test_many"])
    assert older == "(older messages are left out; these are the 10 newest)"
    assert [line.rpartition(" ")[2] for line in lines if "  number " in line] == [str(one) for one in range(2, 12)]
    assert len(lines) < 200
    assert max(map(len, lines)) < 220


def test_refusals_by_the_mail_server_during_the_test_are_shown(shown):
    lines = re.search(
        r"^-+ tmpmaild: refused by the mail server in the meantime -+\n(.*)\n(.*)\n",
        shown["test_refused"],
        re.MULTILINE,
    )
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d  127\.0\.0\.1  RCPT TO:<no-one@mail\.example\.com>  550 5\.1\.1 No such address here", lines[1]
    )
    assert lines[2].endswith("RCPT TO:<kate@mial.example.com>  550 5.7.1 Relaying denied")
    assert [name for name, text in shown.items() if "refused by the mail server" in text] == ["test_refused"]


def test_an_unreadable_inbox_is_reported_below_the_failure(shown):
    ((line,),) = listing(shown["test_deleted"])
    assert "assert False" in shown["test_deleted"]
    assert re.fullmatch(r"the messages cannot be read: .*\(410 address-expired\)", line)


ATTACHED = Path(__file__).parent.joinpath("suites/inboxes_report_attached.py").read_text()


def test_pytest_html_and_allure_get_text_sanitised_html_and_source(run, service, tmp_path):
    plugins = ("-p", "pytest_html.plugin", "-p", "pytest_metadata.plugin", "-p", "allure_pytest.plugin")
    status, text = run(*service, *plugins, "--html=report/index.html", "--alluredir=allure", tests=ATTACHED)
    assert (status, "1 failed" in text) == (1, True), text
    in_html = {
        path.suffix: path.read_text() for path in (tmp_path / "report/assets").iterdir() if "_0_" not in path.name
    }
    assert in_html.keys() >= {".txt", ".html", ".eml"}, sorted((tmp_path / "report/assets").iterdir())
    results = json.loads(next((tmp_path / "allure").glob("*-result.json")).read_text())
    files = {one["name"].partition(" mail ")[2]: one for one in results["attachments"] if " mail " in one["name"]}
    assert {name: one["type"] for name, one in files.items()} == {
        "1 text": "text/plain",
        "1 HTML": "text/html",
        "1 source": "message/rfc822",
    }
    assert len([one for one in results["attachments"] if " mail " in one["name"]]) == 5
    shown = (tmp_path / "allure" / files["1 HTML"]["source"]).read_text()
    assert "481516" in shown
    assert "<script" not in shown
    assert "<script>alert(1)" not in (tmp_path / "report/index.html").read_text()
