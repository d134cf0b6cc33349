"""Cells behind the Caddy configuration in docs/proxy, on other ports: routing by domain, adding and draining cells."""

import http.client
import json
from contextlib import closing, contextmanager

import pytest

from daemons import NO_LIMITS, Answer, finished
from patience import PATIENCE_SECONDS
from proxies import PROXY, changed, environment, free_port, running

pytestmark = pytest.mark.needs("caddy")

HOST = "tmp.example.org"
ADDRESSES = "/api/v1/addresses"
DOMAINS = {"a": "one.example.org", "b": "two.example.org,*.two.example.org", "c": "three.example.org"}
ADMIN = "\n{{\n\tadmin unix/{folder}/admin.sock\n\tauto_https off\n\tdefault_bind 127.0.0.1\n\tlog default {{"
MAIL = b"Subject: %s\r\n\r\nHello\r\n"
ADD_C = {
    "to {a} {b}": "to {a} {b} {c}",
    "\t\timport cell b": "\t\timport cell c {c} three\\.example\\.org\n\t\timport cell b",
    "{b} b\n": "{b} b\n\t\t\t\t{c} c\n",
}
DRAIN_A = {"to {a} {b} {c}": "to {b} {c}", "\t\timport cell a": "\t\timport drained a\n\t\timport cell a"}


class Cells:
    """Daemons by cell name, with Caddy in front of them."""

    def __init__(self, folder, start):
        self.folder, self._start = folder, start
        self.port = free_port()
        self.daemons, self.at = {}, {}
        self._text = (PROXY / "Caddyfile.cells").read_text()
        self.add("a", "b")
        self.edit({f"\n{HOST} {{": f"\nhttp://{HOST}:{self.port} {{", "10.0.1.1:8025": "{a}", "10.0.2.1:8025": "{b}"})

    def add(self, *names):
        for name in names:
            (self.folder / name).mkdir()
            self.daemons[name] = self._start(
                self.folder / name,
                **NO_LIMITS,
                TMPMAILD_DOMAINS=DOMAINS[name],
                TMPMAILD_HTTP__PUBLIC_URL=f"http://{HOST}:{self.port}/{name}",
                TMPMAILD_HTTP__TRUSTED_PROXIES="127.0.0.1/32",
            )
            self.at[f"{{{name}}}"] = f"127.0.0.1:{self.daemons[name].http_port}"

    def edit(self, changes):
        """Change the configuration; ``{a}`` is replaced by the address of that cell's daemon."""
        self._text = changed(self._text, changes)
        config = changed(self._text, {**self.at, "\n{\n\tlog default {": ADMIN.format(folder=self.folder)})
        (self.folder / "Caddyfile").write_text(config)

    def command(self, verb, *more):
        return ["caddy", verb, "--adapter", "caddyfile", "--config", self.folder / "Caddyfile", *more]

    def reload(self, changes):
        self.edit(changes)
        where = ("--address", f"unix/{self.folder}/admin.sock")
        done = finished(self.command("reload", *where), env=environment(self.folder))
        assert done.returncode == 0, done.stderr

    @contextmanager
    def asking(self, path, method="GET", body=None, headers=()):
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)) as connection:
            connection.request(method, path, body, {"Host": HOST, **dict(headers)})
            yield connection

    def ask(self, *request):
        try:
            return self._ask(*request)
        except ConnectionResetError:  # a connection that Caddy has not accepted yet when it reloads (docs/scaling.md)
            return self._ask(*request)

    def _ask(self, *request):
        with self.asking(*request) as connection:
            return answered(connection)

    def create(self, times):
        """Create addresses without choosing a cell; return the responses by cell name."""
        made = [self.ask(ADDRESSES, "POST") for _ in range(times)]
        assert {one.status for one in made} == {201}
        return {one.headers["Location"].split("/")[1]: one.json for one in made}

    def subjects(self, address):
        return [one["subject"] for one in self.ask(f"{ADDRESSES}/{address}/messages").json["messages"]]


def answered(connection):
    answer = connection.getresponse()
    octets = answer.read()
    is_json = answer.headers.get("Content-Type", "").endswith("json")
    return Answer(answer.status, answer.headers, json.loads(octets) if is_json else octets)


@pytest.fixture
def cells(tmp_path, start):
    cells = Cells(tmp_path, start)
    with running(cells.command("run"), tmp_path, cells.port):
        yield cells


def next_line(stream, text):
    """Return the stream's next line that contains a text, or "" if the stream ends first."""
    return next((line for line in iter(stream.readline, b"") if text in line), b"")


def test_each_address_is_found_by_its_domain(cells):
    named = {"local_part": "alice", "domain": "acme.two.example.org"}
    assert cells.daemons["b"].request(ADDRESSES, "POST", named).status == 201
    made = cells.create(2)
    assert set(made) == {"a", "b"}
    for name, address in [*((name, one["address"]) for name, one in made.items()), ("b", "alice@acme.two.example.org")]:
        cells.daemons[name].deliver_raw(address, MAIL % b"hello")
        local_part, _, domain = address.partition("@")
        in_capitals = f"{local_part}+Tag@{domain}".upper()
        for form in (address, f"%22{local_part}%22@{domain}", in_capitals, in_capitals.replace("@", "%40")):
            assert cells.subjects(form) == ["hello"]
    for nowhere in (
        "alice@acme.one.example.org",
        "alice@acme.two-example.org",
        "alice@acme.two.example.org%2F",
        "a@b.example",
    ):
        assert cells.ask(f"{ADDRESSES}/{nowhere}").json["code"] in {"address-not-found", "not-found"}


def test_a_cell_is_added_without_a_pause_and_a_different_cell_is_drained_and_stopped(cells):
    made = cells.create(2)
    kept, moved = made["a"]["address"], made["b"]["address"]
    with (
        cells.asking(f"{ADDRESSES}/{kept}/events") as following,
        cells.asking(f"{ADDRESSES}/{moved}/messages?wait=50") as waiting,
    ):
        stream = following.getresponse()
        assert next_line(stream, b"retry")
        cells.add("c")
        cells.reload(ADD_C)
        assert set(cells.create(3)) == {"a", "b", "c"}
        cells.daemons["a"].deliver_raw(kept, MAIL % b"one")
        assert b"one" in next_line(stream, b"data: ")

        cells.reload(DRAIN_A)
        assert set(cells.create(6)) == {"b", "c"}
        assert cells.ask(f"/a{ADDRESSES}", "POST").json["code"] == "storage-full"
        assert cells.ask("/").headers["Location"] in {"/b/", "/c/"}
        cells.daemons["a"].deliver_raw(kept, MAIL % b"two")
        assert b"two" in next_line(stream, b"data: ")
        assert cells.subjects(kept) == ["two", "one"]

        token = {"Authorization": f"Bearer {made['a']['token']}", "Content-Type": "application/json"}
        assert cells.ask(f"{ADDRESSES}/{kept}", "PATCH", b'{"expires_in_seconds": 1}', token).status == 200
        assert next_line(stream, b"event: expired")
        assert cells.ask(f"{ADDRESSES}/{kept}").status == 410
        assert cells.daemons["a"].stop() == 0
        assert set(cells.create(4)) == {"b", "c"}
        cells.daemons["b"].deliver_raw(moved, MAIL % b"three")
        (mail,) = answered(waiting).json["messages"]
        assert mail["subject"] == "three"
