"""Databases of earlier releases can be opened, still serve their messages, and remain usable.

``KEEP=1.1 .venv/bin/python -m pytest -n0 tests/http/test_app_upgrades.py`` stores databases of this version in
``tests/upgrades/1.1``, for the tests of later versions. Existing files are never changed.
"""

import asyncio
import gzip
import hashlib
import json
import os
import subprocess
from pathlib import Path

import anyio
import asyncpg
import msgspec
import pytest
import stores

import peers
from tmpmaild.model import (
    ArcVerdict,
    Authentication,
    Block,
    DkimVerdict,
    DmarcVerdict,
    DnsAnswer,
    Envelope,
    SmtpSession,
    SpfVerdict,
)
from tmpmaild.storage.engines import PostgresqlSettings, SqliteSettings, operator_mail
from tmpmaild.storage.postgresql.engine import migrations as postgresql_migrations
from tmpmaild.storage.sqlite.engine import migrations
from tmpmaild.webhooktargets import parse_rule

TESTS = Path(__file__).parents[1]
RELEASES = sorted(path.name for path in (TESTS / "upgrades").iterdir())
DAY_SECONDS = 86_400
DOMAIN, RETIRED = "mail.example.com", "second.test"
LIFETIME_SECONDS = 7200
RULES = {"webhooks": (parse_rule("hooks.example.org"),), "max_lifetime_seconds": LIFETIME_SECONDS}
KINDS = (
    *("plain", "lf-only", "html-only", "alternative", "related-inline-image", "mixed-with-attachments", "nested"),
    *("apple-mail", "signed", "bounce", "utf-16-with-bom", "raw-8bit-utf8", "no-header-at-all", "controls-and-nul"),
    *("filenames-that-attack", "empty"),
)
LARGE = b"Subject: large\r\n\r\n" + b"".join(b"line %d of a large mail\r\n" % number for number in range(3000))
SESSION = SmtpSession("EHLO", "TLSv1.3", "TLS_AES_256_GCM_SHA384", "PLAIN", "SIZE=100 SMTPUTF8", 1_790_000_000_000)
VERDICT = Authentication(
    SpfVerdict("pass", "bücher.example"),
    (DkimVerdict("fail", "bücher.example", "s1", "bad signature"),),
    DmarcVerdict("pass", "reject", "bücher.example"),
    ArcVerdict("none"),
    (DnsAnswer("bücher.example", "TXT", "v=spf1 -all"),),
)
STEPS = "migrations.json"
RENAMED = {"told_message_id": "reported_message_id", "told_verdict_id": "reported_verdict_id"}
"""Names in the recordings of earlier releases, with their names in the model now."""
FOUND_AT_READING = {"codes", "links"}  # the rules that find these may change between releases


async def fill(world, clock):
    """Store messages of every kind, and all other kinds of data; return the addresses with their tokens."""
    client = world.client()
    await world.storage.serve_domains((DOMAIN, RETIRED), now_ms=clock(), until_ms=clock())
    swept = await client.create(local_part="swept", expires_in_seconds=60)
    await world.deliver(swept["address"])
    clock.advance(seconds=60)
    while await world.storage.sweep(clock()):
        pass
    expired = await client.create(local_part="expired", expires_in_seconds=60)
    await world.deliver(expired["address"])
    clock.advance(seconds=60)
    wishes = {
        "open": {},
        "private": {"private": True},
        "called": {"webhook": {"url": "https://hooks.example.org/mail", "events": ["message"], "has": ["code"]}},
        "retired": {"domain": RETIRED},
        "deleted": {},
    }
    made = {
        name: await client.create(local_part=name, expires_in_seconds=LIFETIME_SECONDS, **wish)
        for name, wish in wishes.items()
    }
    await fill_inboxes(world, clock, [one["address"] for one in made.values()])
    await world.service.inboxes.delete(made["deleted"]["address"], made["deleted"]["token"])
    kinds = {"client": "192.0.2.0/24", "name": "taken", "sender": "spam.example", "target": "bad.example"}
    ends_ms = {"name": clock() + 1_000_000}
    await world.storage.change_blocks([Block(kind, value, clock(), ends_ms.get(kind)) for kind, value in kinds.items()])
    await world.storage.serve_domains((DOMAIN,), now_ms=clock(), until_ms=clock())
    return {one["address"]: one["token"] for one in (swept, expired, *made.values())}


async def fill_inboxes(world, clock, addresses):
    opened, private, *others = addresses
    for kind in KINDS:
        clock.advance(seconds=1)
        await world.deliver(opened, (TESTS / f"mails/{kind}.eml").read_bytes(), session=SESSION)
    message_id = await world.deliver(others[0], LARGE, recipient=f"Called+tag@{DOMAIN.upper()}")
    inboxes = [await world.service.access.find(address) for address in (*others, opened)]
    await world.storage.set_authentication(inboxes[0].id, VERDICT, message_id=message_id)
    await world.deliver(private)
    await world.deliver(f"postmaster@{DOMAIN}", b"Subject: to the operator\r\n\r\nhello\r\n")
    envelope = Envelope("", tuple(inbox.address for inbox in inboxes), "mx.example.org", "2001:db8::7", tls=False)
    raw = b"Subject: to several\r\n\r\nYour code is 481516\r\n"
    await world.service.deliverer.deliver(envelope, [inbox.id for inbox in inboxes], raw)


async def answers(client, tokens):
    """Return the responses for the addresses and for each of their messages, by path."""
    found = {}
    for address, token in tokens.items():
        bearer = {"Authorization": f"Bearer {token}"}
        paths = [f"/api/v1/addresses/{address}", f"/api/v1/addresses/{address}/messages"]
        for path in paths:
            answer = await client.get(path, bearer)
            is_json = answer.header("content-type") == "application/json"
            found[path] = [answer.status, answer.json() if is_json else answer.body.decode("latin-1")]
            if path == paths[1] and answer.status == 200:
                messages = [f"{path}/{message['id']}" for message in answer.json()["messages"]]
                paths += [f"{message}{tail}" for message in messages for tail in ("", "/raw")]
    return {path: [status, said if status == 200 else None] for path, (status, said) in found.items()}


async def downloaded(client, told):
    """Download each attachment in the list, and return how many there are."""
    count = 0
    for address, token in told["tokens"].items():
        status, listed = told["answers"].get(f"/api/v1/addresses/{address}/messages", (404, None))
        for attachment in (
            [one for message in listed["messages"] for one in message["attachments"]] if status == 200 else []
        ):
            answer = await client.get(attachment["url"], {"Authorization": f"Bearer {token}"})
            assert hashlib.sha256(answer.body).hexdigest() == attachment["sha256"], attachment
            count += 1
    return count


async def what_the_operator_sees(world, store, clock):
    is_file = store.engine == "sqlite"
    settings = SqliteSettings(path=store.path) if is_file else PostgresqlSettings(url=store.url)
    mail = await anyio.to_thread.run_sync(lambda: operator_mail(settings).messages())
    webhooks = await world.storage.list_webhooks()
    retired = await world.storage.serve_domains((DOMAIN,), now_ms=clock(), until_ms=clock())
    seen = {"mail": mail, "webhooks": webhooks, "blocks": await world.storage.blocks(), "retired": retired}
    return msgspec.to_builtins(seen)


async def seen(world, store, clock, tokens):
    """Return everything in the database that the API and the operator can see, as JSON."""
    told = {
        "now_ms": clock(),
        "tokens": tokens,
        "answers": await answers(world.client(), tokens),
        "operator": await what_the_operator_sees(world, store, clock),
    }
    return json.loads(msgspec.json.encode(told))


def lost(then, now, where=""):
    """Yield the data in ``then`` that is missing or different in ``now``."""
    if isinstance(then, dict) and isinstance(now, dict):
        for name in then.keys() - FOUND_AT_READING:
            yield from lost(then[name], now.get(RENAMED.get(name, name), "nothing"), f"{where} {name}")
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for place, (one, other) in enumerate(zip(then, now, strict=True)):
            yield from lost(one, other, f"{where} {place}")
    elif then != now:
        yield f"{where}: was {then!r}, is {now!r}"


def tables(store):
    """Return the row count of each table, except partitions and tables that do not survive a crash."""
    sql = {
        "sqlite": "SELECT name FROM sqlite_schema WHERE type = 'table'",
        "postgresql": "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
        " AND relpersistence = 'p'"
        " AND NOT relispartition AND NOT EXISTS (SELECT 1 FROM pg_inherits WHERE inhrelid = pg_class.oid)",
    }
    names = [name for (name,) in store.read(sql[store.engine])]
    return {name: store.read(f"SELECT count(*) FROM {name}")[0][0] for name in names}


def keep(folder, store, told):
    """Save a closed database, the data seen in it, and the digests of its schema steps."""
    folder.mkdir(parents=True, exist_ok=True)
    octets = store.path.read_bytes() if store.engine == "sqlite" else dumped(store.url)
    for name, content in ((store.engine, octets), (f"{store.engine}.json", json.dumps(told).encode())):
        (folder / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
    (folder / STEPS).write_text(json.dumps(digests(), indent=2) + "\n")


def digests():
    """Return the SHA-256 of each schema step, by engine and name."""
    steps = {"sqlite": migrations(), "postgresql": postgresql_migrations()}
    files = {f"{engine}/{file.name}": file for engine, some in steps.items() for file in some.values()}
    return {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items()}


def dumped(url):
    chosen = ["--inserts", "--no-owner", "--host", url.hosts[0], "--username", url.user, url.database]
    script = subprocess.run([peers.postgresql() / "pg_dump", *chosen], capture_output=True, check=True).stdout
    # Omit lines that an older server does not support, or that only psql understands.
    left_out = (b"SET transaction_timeout", b"\\")
    return b"".join(line for line in script.splitlines(keepends=True) if not line.startswith(left_out))


@pytest.mark.parametrize("engine_kind", stores.ENGINES)
async def test_a_database_with_every_kind_of_data_can_be_stored(open_world, store, clock):
    async with open_world(domains=(DOMAIN, RETIRED), **RULES) as world:
        tokens = await fill(world, clock)
        told = await seen(world, store, clock, tokens)
        statuses = [status for status, _ in told["answers"].values()]
    assert {status: statuses.count(status) for status in (200, 410)} == {200: 2 * (4 + len(KINDS) + 5), 410: 6}
    assert [name for name, count in tables(store).items() if not count] == []
    if "KEEP" in os.environ:
        keep(TESTS / "upgrades" / os.environ["KEEP"], store, told)


def kept(release, name):
    return gzip.decompress((TESTS / "upgrades" / release / f"{name}.gz").read_bytes())


@pytest.fixture
def store(store, request):
    """Return the storage of a release, if the test's parameters name one."""
    release = getattr(request.node, "callspec", None) and request.node.callspec.params.get("release")
    if release and store.engine == "sqlite":
        store.path.write_bytes(kept(release, "sqlite"))
    elif release:
        cluster = request.getfixturevalue("cluster")
        store = stores.PostgresqlStore(cluster, cluster.parsed_url(cluster.database()))
        asyncio.run(run_script(store.url, kept(release, "postgresql").decode()))
    return store


async def run_script(url, script):
    connection = await asyncpg.connect(host=url.hosts[0], user=url.user, database=url.database)
    await connection.execute(script)
    await connection.close()


@pytest.mark.parametrize("engine_kind", stores.ENGINES)
@pytest.mark.parametrize("release", RELEASES)
async def test_a_database_of_a_release_is_served_as_before_and_continues(open_world, store, clock, release):
    told = json.loads(kept(release, f"{store.engine}.json"))
    clock.now_ms = told["now_ms"]
    async with open_world(**RULES) as world:
        assert list(lost(told, await seen(world, store, clock, told["tokens"]))) == []
        assert await downloaded(world.client(), told) > 10
        address = f"private@{DOMAIN}"
        path = f"/api/v1/addresses/{address}/messages"
        before = [message["id"] for message in told["answers"][path][1]["messages"]]
        added = await world.deliver(address)
        answer = await world.client().get(path, {"Authorization": f"Bearer {told['tokens'][address]}"})
        assert [message["id"] for message in answer.json()["messages"]] == [added, *before]
        clock.advance(seconds=31 * DAY_SECONDS)
        while await world.storage.sweep(clock()):
            pass
        assert await world.storage.erase()
    assert (store.mails(), store.sources()) == ([], [])
    assert store.read("SELECT id FROM inbox") == [(1,)]
    assert store.engine != "sqlite" or b"of a large mail" not in store.path.read_bytes()


@pytest.mark.parametrize("release", RELEASES)
def test_no_released_schema_step_has_changed_not_even_in_a_comment(release):
    released = json.loads((TESTS / "upgrades" / release / STEPS).read_text())
    assert digests() == digests() | released, "a released step must never change: add a new step"
