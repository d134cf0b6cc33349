"""No data outlives its lifetime: with many inboxes, no file contains expired data."""

from crowd import prove_erasure
from tmpmaild.storage.engines import SqliteSettings
from tmpmaild.storage.sqlite.engine import open_storage


async def test_no_data_of_many_expired_inboxes_remains(tmp_path, clock, amount, figure):
    path = tmp_path / "mail.db"
    async with open_storage(
        SqliteSettings(
            max_bytes=2**30,
            reserve_bytes=1024,
            max_messages_per_inbox=100,
            max_bytes_per_inbox=30 * 2**20,
            max_share_per_creator=0.5,
            path=path,
        ),
        clock,
    ) as storage:
        inboxes = amount(whole=100_000, quick=10_000)
        await prove_erasure(storage, path, clock, inboxes)
    figure("expired mail in the files", f"{inboxes:,} inboxes: nothing left", "nothing")
