"""The pages for languages without a client: each helper is short, handles a sign-up, and reports a missing message."""

import shutil
import smtplib
import threading
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

import daemons
import peers

EXAMPLES = Path(__file__).parents[1] / "examples"
JARS = "/usr/share/java/*"
XUNIT = Path(__file__).parents[1] / "support/xunit.cs"
ASSEMBLIES = "-r:System.Net.Http.dll -r:System.Runtime.Serialization.dll"
# The command that runs each language's tests.
COMMANDS = {
    "bats": ["bats", "sign-up.bats"],
    "csharp": ["sh", "-c", f"mcs -warnaserror {ASSEMBLIES} -out:test.exe *.cs {XUNIT} && mono test.exe"],
    "go": ["go", "test", "inbox_test.go", "sign_up_test.go"],
    "java": [
        "sh",
        "-c",
        f"javac -cp '{JARS}' *.java && java -cp '.:{JARS}' org.junit.platform.console.ConsoleLauncher --scan-class-path=.",
    ],
    "php": ["phpunit", "SignUpTest.php"],
    "ruby": ["ruby", "test_sign_up.rb"],
}
MAIL = "From: shop@shop.example\r\nSubject: Confirm\r\n\r\nYour verification code is 481516.\r\nOr: {link}\r\n"


class Shop(BaseHTTPRequestHandler):
    """An application that admits users who enter the code or follow the link from its message."""

    def __init__(self, smtp, domain, *given):
        self._smtp = smtp
        self._domain = domain
        super().__init__(*given)

    def do_GET(self):
        fields = parse_qs(urlsplit(self.path).query)
        self.answer("You are in.\n" if fields.get("code") == ["481516"] else "Wrong code.\n")

    def do_POST(self):
        fields = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        if self.path == "/sign-up":
            local_part, _, domain = fields["email"][0].partition("@")
            link = f"http://{self.headers['Host']}/confirm?code=481516"
            with (
                suppress(smtplib.SMTPRecipientsRefused),
                smtplib.SMTP(*self._smtp, local_hostname="shop.example") as server,
            ):
                server.sendmail("shop@shop.example", f"{local_part}@{self._domain or domain}", MAIL.format(link=link))
        self.answer("You are in.\n" if fields.get("code") == ["481516"] else "Look into your mail.\n")

    def answer(self, text):
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


@contextmanager
def serving(smtp, domain=""):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Shop, smtp, domain)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def run(language, folder, smtp, url, domain=""):
    """Run the tests of a language against a new application; return the exit code and the output."""
    with serving(smtp, domain) as shop_url:
        env = daemons.environment(TMPMAILD_URL=url, SHOP_URL=shop_url, GOFLAGS="-count=1")
        done = daemons.finished(COMMANDS[language], cwd=folder, env=env, timeout=120)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "language",
    [
        pytest.param(name, marks=[pytest.mark.needs(name), *[pytest.mark.proof] * (name in peers.ONLY_OF_PROOFS)])
        for name in COMMANDS
    ],
)
def test_a_sign_up_takes_a_helper_of_forty_lines_that_reports_why_no_message_arrived(language, service, tmp_path):
    url, smtp = (option.partition("=")[2] for option in service)
    host, _, port = smtp.partition(":")
    folder = shutil.copytree(EXAMPLES / language, tmp_path / language)
    (helper,) = [path for path in folder.iterdir() if path.stem.lower().startswith("inbox")]
    assert len(list(filter(None, helper.read_text().splitlines()))) <= 40
    status, text = run(language, folder, (host, int(port)), url)
    assert status == 0, text
    helper.write_text(helper.read_text().replace("wait=30", "wait=1"))
    status, text = run(language, folder, (host, int(port)), url, "mial.example.com")
    assert status != 0
    assert "@mial.example.com>: 550 5.7.1 Relaying denied" in text, text
