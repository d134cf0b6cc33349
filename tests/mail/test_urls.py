"""Finding the start and end of a URL in a text, and resolving references in HTML."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from tmpmaild.mail import urls
from tmpmaild.mail.budget import Budget
from tmpmaild.mail.htmltokens import tokens

TOKEN = "https://x.example/verify?t=V1StGXR8Z5jdHi6BmyT"


def found(text):
    return [text[start:end] for start, end in urls.occurrences(text)]


@pytest.mark.parametrize("last", "AZaz09-_~*$&+=/%@#")
def test_a_token_keeps_a_last_character_that_may_be_its_own(last):
    """RFC 3986: unreserved characters, and reserved characters that do not end sentences."""
    assert found(f"Open {TOKEN}{last}") == found(f"Open {TOKEN}{last} now") == [f"{TOKEN}{last}"]
    assert found(f"Open {TOKEN}{last}.\n") == [f"{TOKEN}{last}"]


@pytest.mark.parametrize("mark", ["*", "**", "_", "__", "~~", "***"])
@pytest.mark.parametrize("text", ["{}", "{}Reset: ", "see {}this, or ", "{}one{} and {}", "({}"])
def test_emphasis_that_is_opened_before_a_url_is_closed_after_it(mark, text):
    assert found(text.replace("{}", mark) + TOKEN + mark) == [TOKEN]
    assert found(text.replace("{}", mark) + TOKEN + mark[0] + mark) == [TOKEN + mark[0]]


@pytest.mark.parametrize(
    "before",
    ["* ", "2 * 3, ", "snake_case ", "_one_ ", "*\n", "https://x.example/_next/ and ", "~~old~~ ", "**Reset** "],
)
@pytest.mark.parametrize("mark", "*_~")
def test_a_mark_without_an_opening_mark_belongs_to_the_url(before, mark):
    assert found(f"{before}{TOKEN}{mark}")[-1] == f"{TOKEN}{mark}"


def test_emphasis_around_two_urls_ends_after_the_second():
    assert found(f"_Open {TOKEN}_ or https://x.example/_") == [f"{TOKEN}", "https://x.example/_"]
    assert found(f"_Open {TOKEN}/a_b or https://x.example/a_") == [f"{TOKEN}/a_b", "https://x.example/a"]


LONG = "https://x.example/index.php?action=register;sa=activate;u=1;code=V1StGXR8Z5"


@pytest.mark.parametrize("rest", ["jdHi6B", "jdHi6B" * 11 + "\nmyT", "j" * 90 + "\n" + "d" * 60 + "\nH"])
@pytest.mark.parametrize("around", ["<{}>", "<{}>.", "Confirm: <{}> now", "a <b> <{}>"])
def test_a_url_in_angle_brackets_continues_after_a_long_line(rest, around):
    """RFC 3986, appendix C: line breaks added to a long URL are ignored."""
    (address,) = found(around.format(f"{LONG}\n{rest}"))
    assert urls.joined(address) == LONG + rest.replace("\n", "")


@pytest.mark.parametrize(
    "text", [f"{LONG}\njdHi6B>", f"<{LONG}\n jdHi6B>", f"<{LONG}\njdHi6B", f"<{LONG}\n\njdHi6B>", f"<{LONG}\n<jdHi6B>"]
)
def test_a_line_break_of_the_author_ends_a_url(text):
    assert found(text) == [LONG]
    assert found("<https://x.example/a\nnext>") == ["https://x.example/a"]


@pytest.mark.parametrize(
    "piece", ["<" + LONG + "\n", LONG + "\n", "<" + LONG + "\n" + "a" * 60 + "\n", "a" * 60 + "\n"]
)
def test_looking_for_broken_urls_takes_linear_time(piece):
    assert_linear(lambda text: list(urls.occurrences("<" + LONG + text)), piece * (200_000 // len(piece)))


PUNCTUATION = [
    chr(code)
    for code in range(0x80, 0x20000)
    if unicodedata.category(chr(code))[0] in "PSZC"
    and unicodedata.category(chr(code)) not in ("Pc", "Cn", "Co", "Cs")
    and code not in (0x2118, 0x212E)  # these can continue an identifier in Unicode
]


def test_punctuation_symbols_spaces_and_invisible_characters_of_all_scripts_end_a_url():
    """The general categories P, S, Z, Cc and Cf, except for connectors, which continue identifiers (UAX #31)."""
    assert len(PUNCTUATION) > 5000
    wrong = [hex(ord(one)) for one in PUNCTUATION if found(f"Open {TOKEN}{one} now") != [TOKEN]]
    wrong += [hex(ord(one)) for one in PUNCTUATION if found(f"{TOKEN}{one}next") != [TOKEN]]
    assert wrong == []


@pytest.mark.parametrize(
    "behind",
    [
        *(
            "،",
            "؛",
            "؟",
            "।",
            "॥",
            "—thanks",
            "\u2013",
            "\u203a",
            "»",
            "•",
            "…",
            "。",
            "」",
            "·next",
            "².",
            "።",
            "။",
            "។",
        ),
        *("\u200b", "\u200e", "\u200f", "\u202c", "\u2060", "\u2069", "\ufeff", "\u00ad", "\ufe0f", "\u00a0"),
        *("\u200c\u0631\u0627", "\u200d", "👈", "→"),
    ],
)
def test_text_after_a_url_in_a_sentence_is_excluded(behind):
    assert found(f"{TOKEN}{behind}") == found(f"{TOKEN}{behind} more") == [TOKEN]


@pytest.mark.parametrize("behind", ["をクリック", "请点击", "를 누르세요", "คลิก", "ກົດ", "ကိုနှိပ်", "ចុច"])
def test_a_word_of_a_script_without_spaces_ends_a_url(behind):
    assert found(f"{TOKEN}{behind}") == [TOKEN]
    assert found(f"https://x.example{behind}") == ["https://x.example"]


@pytest.mark.parametrize(
    "address",
    [
        "https://例子.example/verify",
        "https://例子.中国/a?b=c",
        "http://kisa.한국/",
        "https://日本語4u.example/a",
        "https://a日本.example/",
        "https://ไทย.ไทย/x",
        "https://เว็บ.example/x",
        "https://пример.example/путь",
        "https://مثال.example/تأكيد",
        "https://fa.example/می\u200c\u062e\u0648\u0627\u0647\u0645",
        "https://x.example/हिंदी",
        "https://ca.example/Col·lecció",
        "https://münchen.example/ä",
        "https://x.example:8443/a",
        "https://u:p@x.example/a",
        "https://[2001:db8::1]/a",
        "https://x.example/TD-W9970(EU)_V2.pdf",
        "https://x.example/?a[0]=1&b[]={c}",
        "HTTP://X.example/A",
    ],
)
@pytest.mark.parametrize(
    "around", ["{}", "see {}.", "({})", "「{}」", "[x]({})", "{}،", "\u2066{}\u2069", "<{}>", "“{}”, so"]
)
def test_a_url_is_found_completely(address, around):
    assert found(around.format(address)) == [address]


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("<https://x.example/a—b.>", ["https://x.example/a—b."]),
        ("<https://x.example/a b>", ["https://x.example/a"]),
        ("[EN](https://x.example/a)/[DE](https://x.example/b)", ["https://x.example/a", "https://x.example/b"]),
        ("https://x.example/a)b", ["https://x.example/a"]),
        ("https://x.example/(a]", ["https://x.example/(a"]),
        ("https://x.example/a(", ["https://x.example/a"]),
        ("https://x.example.감사합니다", ["https://x.example"]),
        ("https://localhostを開いて", ["https://localhost"]),
        ("https:// https://[ https://. http://", []),
        ("ftp://x.example mailto:a@x.example www.x.example", []),
    ],
)
def test_brackets_and_hosts_delimit_a_url(text, addresses):
    assert found(text) == addresses


PIECES = [
    *("https://", "x.example", "/", ")", "(", "[", "_", "*", " ", "\n", "—", "例", "я", "\u200c", "می", "l·l"),
    *("<", ">", "."),
]


@pytest.mark.parametrize(
    "piece", [*PIECES, "https://)", "https://例", "_https://x ", "<https://", "https://x/l·", "*https://x_"]
)
def test_urls_are_found_in_linear_time(piece):
    assert_linear(lambda text: list(urls.occurrences(text)), piece * (64 * 1024 // len(piece)))


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=60))
def test_urls_do_not_overlap_and_begin_with_their_scheme(text):
    last = 0
    for start, end in urls.occurrences(text):
        assert last <= start < end <= len(text)
        assert text[start:end].lower().startswith(("http://", "https://"))
        assert not any(one.isspace() for one in text[start:end])
        last = end


@pytest.mark.parametrize(
    ("base", "reference", "address"),
    [
        ("https://x.example/a/", "../b?t=1", "https://x.example/b?t=1"),
        ("https://x.example/a/c", "b", "https://x.example/a/b"),
        ("https://x.example/a/c", "/b", "https://x.example/b"),
        ("https://x.example/a/c", "?b", "https://x.example/a/c?b"),
        ("https://x.example", "b", "https://x.example/b"),
        ("http://x.example/", "//y.example/b", "http://y.example/b"),
        ("https://x.example/a/", "\\b\\c?d=\\", "https://x.example/b/c?d=\\"),
        ("https://x.example/a/", " b\n/c ", "https://x.example/a/b/c"),
        ("https://x.example/a/", "http://y.example/", "http://y.example/"),
        ("", "https:\\\\y.example/a", "https://y.example/a"),
        ("", "HTTPS:y.example", "HTTPS://y.example"),
    ],
)
def test_a_reference_leads_where_a_browser_would_go(base, reference, address):
    assert urls.resolve(base, reference) == address


@pytest.mark.parametrize(
    "reference", ["", "#top", "javascript:alert(1)", "mailto:a@x.example", "data:,x", "cid:1", "//["]
)
def test_a_reference_to_anything_but_a_web_page_gives_no_url(reference):
    assert urls.resolve("https://x.example/", reference) == ""
    assert urls.resolve("", f"{reference}x/y") == ""


@pytest.mark.parametrize(
    ("html", "base"),
    [
        ('<base href="https://x.example/a/">', "https://x.example/a/"),
        ("<p>late <BASE target=_blank><base HREF=http://x.example><base href=http://y.example>", "http://x.example"),
        ('<!-- <base href="https://x.example/"> --><basefont>', ""),
        ('<base href="javascript:alert(1)//"><base href="https://x.example/">', ""),
        ('<base href="/a/">', ""),
        ("<title><base href=https://x.example/></title>", ""),
    ],
)
def test_the_first_base_with_a_url_counts(html, base):
    assert urls.base_of(tokens(html, Budget())) == base
