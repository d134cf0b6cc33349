"""HTML that is small costs little to show."""

from htmlbombs import bomb_seconds


def test_bombs_burst_within_two_seconds_and_200_mib(figure):
    seconds = bomb_seconds(1)
    figure(f"{len(seconds)} bombs of HTML, in 200 MiB", f"the worst {max(seconds.values()):.1f} s", "≤ 2 s")
    assert {bomb: cost for bomb, cost in seconds.items() if cost > 2} == {}
