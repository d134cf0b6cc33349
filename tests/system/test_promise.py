"""After a 250 reply, a message is never lost, even if the daemon is killed many times."""

from daemons import NO_LIMITS
from senders import prove_promise


def test_many_kills_lose_no_acknowledged_message(start, amount, figure):
    kills = amount(whole=200, quick=4)
    mails = prove_promise(lambda: start(**NO_LIMITS), kills)
    figure("`kill -9` under load", f"{kills} kills, {mails:,} mails acknowledged: 0 lost, 0 torn", "0 lost, 0 torn")
