"""The PostgreSQL primary is lost under load again and again, killed or hung, and its standby promoted: no mail is lost."""

import signal

from failover import Pair, lose

from daemons import NO_LIMITS

MOST_SECONDS = 10


def test_no_acknowledged_mail_is_lost_when_a_standby_takes_over(start, amount, figure):
    pair = Pair()
    rounds = amount(20, 4)
    try:
        daemon = start(**NO_LIMITS, TMPMAILD_STORAGE__URL=pair.url)
        lost, taken = [], []
        for number in range(rounds):
            how = (signal.SIGKILL, signal.SIGSTOP)[number % 2]
            missing, seconds = lose(pair, daemon, how, senders=8)
            lost += missing
            taken.append(seconds)
            pair.rebuild()
    finally:
        pair.remove()
    figure(f"acknowledged mails lost with the primary in {rounds} failovers", len(lost), 0)
    figure("longest time from promotion to service", f"{max(taken):.1f} s", f"at most {MOST_SECONDS} s")
    assert lost == []
    assert max(taken) <= MOST_SECONDS
