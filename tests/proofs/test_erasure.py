"""Nothing outlives its hour: of many inboxes, nothing that has expired stays in any file."""

from crowd import prove_erasure
from tmpmaild.storage.sqlite.engine import StorageSettings, open_storage


async def test_nothing_of_a_large_crowd_stays(tmp_path, clock, amount, figure):
    path = tmp_path / "mail.db"
    async with open_storage(StorageSettings(2**30, 1024, 100, 30 * 2**20, 0.5, path=path), clock) as storage:
        inboxes = amount(whole=100_000, quick=10_000)
        await prove_erasure(storage, path, clock, inboxes)
    figure("expired mail in the files", f"{inboxes:,} inboxes: nothing left", "nothing")
