"""Several daemons on one PostgreSQL database, each with its own clock: followers see each message exactly once."""

from daemonsatonce import DAEMONS, MAILS, SENDERS, follow_four_daemons

NOW_MS = 1_790_000_000_000


async def test_followers_receive_all_messages_of_other_daemons(cluster, amount, figure):
    runs = amount(whole=20, quick=3)
    for _ in range(runs):
        await follow_four_daemons(cluster.parsed_url(cluster.database()), NOW_MS)
    figure(
        f"PostgreSQL, {DAEMONS} daemons whose clocks are a minute apart, {SENDERS} senders, {runs} runs",
        f"all {DAEMONS * SENDERS * MAILS * runs:,} messages seen, each once and in order",
        "none missed, none twice",
    )
