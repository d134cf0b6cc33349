"""What a client says it would rather have, and what it gets."""

from tables import table
from tmpmaild.http.pages import best_language, prefers_gzip

OFFERED = ("de", "en", "pt-br", "zh-hant")

WANTS_GZIP = [
    ("gzip", True),
    ("GZIP", True),
    ("deflate, gzip, br", True),
    ("gzip;q=0.5", True),
    ("gzip ; q=1.000", True),
    ("x-gzip", True),
    ("*", True),
    ("br;q=1, *;q=0.1", True),
    ("identity;q=0.5, gzip", True),
    ("gzip;q=0", False),
    ("gzip;Q=0.000", False),
    ("gzip;q=0, *", False),  # what is named is not meant by the star
    ("identity, gzip;q=0.5", False),
    ("br", False),
    ("identity", False),
    ("", False),
    ("gzip;q=2", False),  # malformed: as if it were not there
    ("gzip;q=nan", False),
    ("gzip;level=9", False),
    ("gzipped", False),
]

LANGUAGES = [
    ("de", "de"),
    ("DE", "de"),
    ("de-AT", "de"),  # lookup goes from the special to the general …
    ("de-Latn-AT-1996-x-own", "de"),
    ("pt", "en"),  # … and never back
    ("pt-BR", "pt-br"),
    ("pt-PT", "en"),
    ("zh-Hant-TW", "zh-hant"),
    ("zh-TW", "en"),
    ("deu", "en"),
    ("fr, de", "de"),
    ("en, de", "en"),
    ("de, en", "de"),  # of equals the first
    ("en;q=0.8, de;q=0.9", "de"),
    ("fr;q=1, de-CH;q=0.2, *;q=0.1", "de"),
    ("de;q=0.001, en;q=0", "de"),
    ("fr", "en"),
    ("*", "en"),
    ("*, de;q=0.1", "de"),  # RFC 4647 §3.4: the star is for when nothing else is found
    ("de-AT, de;q=0", "en"),
    ("de;q=0", "en"),
    ("en;q=0, *", "de"),
    ("en;q=0, de;q=0, fr", "pt-br"),
    ("de;q=0, en;q=0, pt-BR;q=0, zh-Hant;q=0", "en"),
    ("", "en"),
    (",,, ,", "en"),
    ("de;q=2", "en"),  # malformed: as if it were not there
    ("de;q=-1", "en"),
    ("de;q=1e0", "en"),
    ("de;quality=1", "en"),
    ("de_AT", "en"),
    ("dé", "en"),
    ("-de", "en"),
    ("--, de;q=0.1", "de"),
    ("d e", "en"),
    ("de" * 40, "en"),
    ("de-" + "a-" * 5000, "en"),
]


@table(("accepted", "packed"), WANTS_GZIP)
def test_gzip_goes_to_those_who_want_it(accepted, packed):
    assert prefers_gzip([accepted]) == packed


@table(("accepted", "language"), LANGUAGES)
def test_a_language_is_looked_up(accepted, language):
    assert best_language([accepted], OFFERED, "en") == language


def test_several_fields_are_one_list():
    assert best_language(["fr", "de;q=0.1"], OFFERED, "en") == "de"
    assert prefers_gzip(["br", "gzip"])
    assert not prefers_gzip(["gzip", "identity", "gzip;q=0"])


def test_who_says_nothing_gets_the_default():
    assert best_language([], OFFERED, "en") == "en"
    assert not prefers_gzip([])


def test_nobody_makes_us_read_a_long_list():
    assert best_language(["x," * 63 + "de"], OFFERED, "en") == "de"
    assert best_language(["x," * 64 + "de"], OFFERED, "en") == "en"
    assert not prefers_gzip(["x," * 64 + "gzip"])
