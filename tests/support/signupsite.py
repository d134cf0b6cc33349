"""A sign-up website, which prompts for an address, sends a code and a link to it, and prompts for the code."""

import json
import smtplib
import threading
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

CODE = "481516"
EMPTY = "<!doctype html><title>{0}</title><div id=app></div><script src=/{0}.js></script>"


class SignUpSite:
    """Serves files by name, and a page for each script; ``addresses`` lists the addresses of sign-ups, in order."""

    def __init__(self, smtp_port, *folders):
        self._smtp_port, self._folders = smtp_port, folders
        self.addresses, self.pages = [], {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, path, host="shop.example"):
        return f"http://{host}:{self.port}{path}"

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def sign_up(self, address):
        self.addresses.append(address)
        self.mail(address, f"Your code is {CODE}.\n\nOr confirm here: {self.url('/confirm-link')}\n")

    def mail(self, address, text, subject="Confirm your e-mail address", html=None, sender="Shop"):
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = f"{sender} <no-reply@shop.example>", address, subject
        mail.set_content(text)
        if html:
            mail.add_alternative(html, subtype="html")
        with smtplib.SMTP("127.0.0.1", self._smtp_port) as client:
            client.sendmail("no-reply@shop.example", [address], mail.as_bytes())

    def get(self, path):
        """Return a page or a script, and its type."""
        name = path.strip("/")
        if path == "/confirm-link":
            return "Confirmed by link", "text/html"
        if path in self.pages:
            return self.pages[path], "text/html"
        for folder in self._folders:
            for file in (folder / name, folder / f"{name}.html"):
                if file.is_file():
                    return file.read_text(), "text/javascript" if file.suffix == ".js" else "text/html"
        return EMPTY.format(name), "text/html"

    def post(self, path, said):
        """Return the response to a form submission."""
        if path == "/plain/code":
            self.sign_up(parse_qs(said)["mail"][0])
            return self.get("/plain-code")
        if path == "/sign-up":
            self.sign_up(json.loads(said)["email"])
            return "sent", "text/plain"
        code = parse_qs(said)["code"][0] if path == "/plain/end" else json.loads(said)["code"]
        return ("Welcome" if code == CODE else f"Wrong code {code}"), "text/html"


def _handler(site):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self._answer(site.get(urlsplit(self.path).path))

        def do_POST(self):
            self._answer(site.post(self.path, self.rfile.read(int(self.headers["Content-Length"])).decode()))

        def _answer(self, answer):
            octets = answer[0].encode()
            self.send_response(200)
            self.send_header("Content-Type", f"{answer[1]}; charset=utf-8")
            self.send_header("Content-Length", str(len(octets)))
            self.end_headers()
            self.wfile.write(octets)

        def log_message(self, *_):
            pass

    return Handler
