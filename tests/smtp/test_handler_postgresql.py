"""Replies while PostgreSQL cannot store messages: always 4xx, and only acknowledged messages are stored."""

import asyncio

import asyncpg
import pytest

from tmpmaild.errors import StorageFull
from tmpmaild.inboxes.creating import NewAddress
from tmpmaild.smtp import replies

from .conftest import PATIENCE_SECONDS

STORED = "250 2.0.0 Ok: stored as "
SYSTEM_FULL = "452 4.3.1 Insufficient system storage, try again later"
OUR_FAULT = "451 4.3.0 Temporary failure, try again later"
WAITING = "wait_event_type = 'Lock' AND datname = current_database()"

pytestmark = pytest.mark.needs("postgresql")


@pytest.fixture
def engine_kind():
    return "postgresql"


@pytest.fixture
def disk_is_full(store):
    """Make every INSERT fail as if the server could not extend a file; yield a function that stops the failures."""
    store.execute(
        "CREATE FUNCTION disk_is_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$"
    )
    for table in ("content", "inbox"):
        store.execute(
            f"CREATE TRIGGER disk_is_full BEFORE INSERT ON {table} FOR EACH STATEMENT EXECUTE FUNCTION disk_is_full()"
        )
    end = "DROP FUNCTION IF EXISTS disk_is_full CASCADE"
    yield lambda: store.execute(end)
    store.execute(end)


async def test_a_full_disk_of_the_server_is_reported_until_there_is_room(talk, store, request):
    async with talk() as (house, client):
        end = request.getfixturevalue("disk_is_full")
        assert await client.deliver("abc") == SYSTEM_FULL
        with pytest.raises(StorageFull):
            await house.service.inboxes.create(NewAddress(), None)
        assert await client.say("NOOP") == ["250 2.0.0 Ok"]
        end()
        assert (await client.deliver("abc", mail="Subject: after")).startswith(STORED)
        assert [subject for subject, _ in store.mails()] == ["after"]


@pytest.mark.parametrize("end", ["pg_cancel_backend", "pg_terminate_backend"])
async def test_mail_is_refused_temporarily_if_an_administrator_ends_its_statement(serve, store, end, caplog):
    async with serve() as house:
        clients = [await house.greeted() for _ in range(5)]
        stranger = await asyncpg.connect(host=store.url.hosts[0], user=store.url.user, database=store.url.database)
        async with stranger.transaction():
            await stranger.execute("SELECT FROM inbox FOR UPDATE")
            sending = [asyncio.ensure_future(client.deliver("abc", mail="Subject: secret")) for client in clients]
            await house.until(lambda: store.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {WAITING}"))
            store.execute(f"SELECT {end}(pid) FROM pg_stat_activity WHERE {WAITING}")
            ended, _ = await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED)
            assert {task.result() for task in ended} == {OUR_FAULT}
        await stranger.close()
        said = await asyncio.gather(*sending)
        said.append(await clients[0].deliver("abc"))
        assert said[-1].startswith(STORED)
        assert {reply for reply in said if not reply.startswith(STORED)} == {OUR_FAULT}
        assert len(store.mails()) == len(said) - said.count(OUR_FAULT)
        assert "secret" not in caplog.text


async def test_mail_is_stored_and_shown_again_after_all_connections_to_the_server_were_ended(talk, store):
    async with talk() as (house, client):
        assert (await client.deliver("abc")).startswith(STORED)
        store.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE application_name = 'tmpmaild' AND datname = current_database()"
        )
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (said := await client.say("MAIL FROM:<>", "RCPT TO:<abc@ours.test>"))[1] != str(replies.RECIPIENT_OK):
                assert said[1] == OUR_FAULT
                await client.say("RSET")
            while not (await client.say("DATA", "Subject: after\r\n."))[1].startswith(STORED):
                await client.say("MAIL FROM:<>", "RCPT TO:<abc@ours.test>")
        assert [message.subject for message in await house.messages("abc")] == ["after", "x"]
        await house.until(lambda: not house.storage.reason_not_ready())
