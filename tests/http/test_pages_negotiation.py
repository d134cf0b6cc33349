"""Content negotiation: clients' preferences in header fields, and the resulting responses."""

import pytest

from tmpmaild.http.pages import best_language, prefers_gzip

OFFERED = ("de", "en", "pt-br", "zh-hant")


@pytest.mark.parametrize(
    "accepted",
    [
        "gzip",
        "GZIP",
        "deflate, gzip, br",
        "gzip;q=0.5",
        "gzip ; q=1.000",
        "x-gzip",
        "*",
        "br;q=1, *;q=0.1",
        "identity;q=0.5, gzip",
    ],
)
def test_clients_that_accept_gzip_get_it(accepted):
    assert prefers_gzip([accepted])


@pytest.mark.parametrize(
    "accepted",
    [
        "gzip;q=0",
        "gzip;Q=0.000",
        "gzip;q=0, *",
        "identity, gzip;q=0.5",
        "br",
        "identity",
        "",
        "gzip;q=2",
        "gzip;q=nan",
        "gzip;level=9",
        "gzipped",
    ],
)
def test_other_clients_do_not_get_gzip(accepted):
    assert not prefers_gzip([accepted])


@pytest.mark.parametrize(
    ("accepted", "chosen"),
    [
        ("de", "de"),
        ("DE", "de"),
        ("de-AT", "de"),
        ("de-Latn-AT-1996-x-own", "de"),
        ("pt", "en"),
        ("pt-BR", "pt-br"),
        ("pt-PT", "en"),
        ("zh-Hant-TW", "zh-hant"),
        ("zh-TW", "en"),
        ("deu", "en"),
        ("fr, de", "de"),
        ("en, de", "en"),
        ("de, en", "de"),
        ("en;q=0.8, de;q=0.9", "de"),
        ("fr;q=1, de-CH;q=0.2, *;q=0.1", "de"),
        ("de;q=0.001, en;q=0", "de"),
        ("fr", "en"),
        ("*", "en"),
        ("*, de;q=0.1", "de"),
        ("de-AT, de;q=0", "en"),
        ("de;q=0", "en"),
        ("en;q=0, *", "de"),
        ("en;q=0, de;q=0, fr", "pt-br"),
        ("de;q=0, en;q=0, pt-BR;q=0, zh-Hant;q=0", "en"),
        ("", "en"),
        (",,, ,", "en"),
        ("de;q=2", "en"),
        ("de;q=-1", "en"),
        ("de;q=1e0", "en"),
        ("de;quality=1", "en"),
        ("de_AT", "en"),
        ("dé", "en"),
        ("-de", "en"),
        ("--, de;q=0.1", "de"),
        ("d e", "en"),
        ("dededededededededededededededededededededededededededededededededededededededede", "en"),
        ("de" * 40, "en"),
        ("de-" + "a-" * 5000, "en"),
    ],
)
def test_a_language_is_looked_up(accepted, chosen):
    assert best_language([accepted], OFFERED, "en") == chosen


def test_several_fields_form_one_list_without_fields_the_default_applies_and_long_lists_are_ignored():
    assert best_language(["fr", "de;q=0.1"], OFFERED, "en") == "de"
    assert prefers_gzip(["br", "gzip"])
    assert not prefers_gzip(["gzip", "identity", "gzip;q=0"])
    assert best_language([], OFFERED, "en") == "en"
    assert not prefers_gzip([])
    assert best_language(["x," * 63 + "de"], OFFERED, "en") == "de"
    assert best_language(["x," * 64 + "de"], OFFERED, "en") == "en"
    assert not prefers_gzip(["x," * 64 + "gzip"])
