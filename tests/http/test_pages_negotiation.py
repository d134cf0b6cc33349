"""What a client says it would rather have, and what it gets."""

from pathlib import Path

import pytest

from tmpmaild.http.pages import best_language, prefers_gzip

OFFERED = ("de", "en", "pt-br", "zh-hant")
GZIP, LANGUAGES = [
    [tuple(line.strip().partition(":")[::2]) for line in block.splitlines()[1:]]
    for block in Path(__file__).with_name("accepted.txt").read_text().split("\n\n")[1:]
]


@pytest.mark.parametrize(("chosen", "accepted"), GZIP)
def test_gzip_goes_to_those_who_want_it(chosen, accepted):
    assert prefers_gzip([accepted.strip()]) == (chosen == "yes")


@pytest.mark.parametrize(("chosen", "accepted"), [*LANGUAGES, ("en", "de" * 40), ("en", "de-" + "a-" * 5000)])
def test_a_language_is_looked_up(chosen, accepted):
    assert best_language([accepted.strip()], OFFERED, "en") == chosen


def test_several_fields_are_one_list_none_means_the_default_and_nobody_makes_us_read_a_long_one():
    assert best_language(["fr", "de;q=0.1"], OFFERED, "en") == "de"
    assert prefers_gzip(["br", "gzip"])
    assert not prefers_gzip(["gzip", "identity", "gzip;q=0"])
    assert best_language([], OFFERED, "en") == "en"
    assert not prefers_gzip([])
    assert best_language(["x," * 63 + "de"], OFFERED, "en") == "de"
    assert best_language(["x," * 64 + "de"], OFFERED, "en") == "en"
    assert not prefers_gzip(["x," * 64 + "gzip"])
