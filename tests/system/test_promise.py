"""A 250 is a promise: it is kept through many kills."""

from daemons import NO_LIMITS
from senders import prove_promise


def test_no_acknowledged_mail_is_lost_by_many_kills(start, amount, figure):
    kills = amount(whole=200, quick=4)
    mails = prove_promise(lambda: start(**NO_LIMITS), kills)
    figure("`kill -9` under load", f"{kills} kills, {mails:,} mails acknowledged: 0 lost, 0 torn", "0 lost, 0 torn")
