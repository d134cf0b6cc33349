"""Whatever a mail holds, others are served within half a second, and it itself within five; HTML costs little."""

import pytest

from htmlbombs import bomb_seconds
from mailbombs import MAILS, Victim, deliver_and_read

OTHERS_SECONDS = 0.5
ITSELF_SECONDS = 5
MEMORY_MIB = 200


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, start_in):
    return start_in(tmp_path_factory.mktemp("bombs"), is_warm=False)


@pytest.mark.parametrize("mail", MAILS.values(), ids=MAILS)
def test_a_mail_costs_others_half_a_second_and_itself_five(daemon, figure, request, mail):
    victim, address = Victim(daemon), daemon.create()
    itself = victim.during(deliver_and_read, daemon, address, mail)
    others = ", ".join(f"{use} {seconds:.2f} s" for use, seconds in victim.worst.items())
    name = f"{request.node.callspec.id} ({len(mail) / 1000:,.0f} kB)"
    figure(name, f"itself {itself:.1f} s; meanwhile {others}", f"≤ {ITSELF_SECONDS} s; ≤ {OTHERS_SECONDS} s")
    assert itself <= ITSELF_SECONDS
    assert max(victim.worst.values()) <= OTHERS_SECONDS
    assert daemon.memory_mib("VmHWM") <= MEMORY_MIB


def test_bombs_burst_within_two_seconds_and_200_mib(figure):
    seconds = bomb_seconds(1)
    figure(f"{len(seconds)} bombs of HTML, in 200 MiB", f"the worst {max(seconds.values()):.1f} s", "≤ 2 s")
    assert {bomb: cost for bomb, cost in seconds.items() if cost > 2} == {}
