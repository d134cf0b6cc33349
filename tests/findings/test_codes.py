"""Codes in a mail: each shape, each trap, and texts that somebody made to hurt."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from growth import assert_linear
from tables import table
from tmpmaild.findings import codes

THIRTY_TWO_KI = 32 * 1024


def values(text, subject=""):
    return [code.value for code in codes.find(subject, text)]


@table(
    ("shown", "value"),
    [
        ("4815", "4815"),
        ("48151", "48151"),
        ("481516", "481516"),
        ("4815162", "4815162"),
        ("48151623", "48151623"),
        ("004815", "004815"),
        ("481 516", "481516"),
        ("481\u00a0516", "481516"),
        ("481-516", "481516"),
        ("481 - 516", "481516"),
        ("48 15 16", "481516"),
        ("4815-1623", "48151623"),
        ("4 8 1 5 1 6", "481516"),
        ("4-8-1-5-1-6", "481516"),
        ("4 | 8 | 1 | 5", "4815"),
        ("\n4\n8\n1\n5\n1\n6\n", "481516"),
        ("\n\n4\n\n8\n\n1\n\n5\n", "4815"),
        ("K7M3Q9", "K7M3Q9"),
        ("k7m3q9", "k7m3q9"),
        ("aB3xY9", "aB3xY9"),
        ("K 7 M 3 Q 9", "K7M3Q9"),
        ("K7M3", "K7M3"),
        ("KXQWPZ", "KXQWPZ"),
        ("WDJB-MJHT", "WDJB-MJHT"),
        ("K7M3-Q9XZ-48KL", "K7M3-Q9XZ-48KL"),
        ("ABC-123", "ABC-123"),
        ("G-481516", "G-481516"),
        ("FB-48151", "FB-48151"),
        ("BMS 3PT", "BMS3PT"),
        ("16 903 427", "16903427"),
        ("RABE-4821-NX", "RABE-4821-NX"),
        ("\nVERRE 0618\n", "VERRE0618"),
        ("\nKP.418.7Z\n", "KP.418.7Z"),
        ("5528-1190-37", "5528119037"),
        ("Kx!7aB2q", "Kx!7aB2q"),
        ("2025", "2025"),
        ("20250114", "20250114"),
        ("9f8a03bc77d1", "9f8a03bc77d1"),
        ("c4r2ab-9f8a03bc77d14be1c90f2a0011223344", "c4r2ab-9f8a03bc77d14be1c90f2a0011223344"),
        ("correct-horse-battery", "correct-horse-battery"),
        ("correct-horse-battery-42", "correct-horse-battery-42"),
        ("\uff14\uff18\uff11\uff15\uff11\uff16", "481516"),
        ("٤٨١٥١٦", "481516"),
        ("४८१५१६", "481516"),
        ("\U0001d7d2\U0001d7d6\U0001d7cf\U0001d7d3", "4815"),
        ("4️⃣8️⃣1️⃣5️⃣", "4815"),
        ("4\u200b8\u200b1\u200b5\u200b1\u200b6", "481516"),
        ("\uff2b\uff31\uff17\uff2d\uff13\uff38", "KQ7M3X"),
    ],
)
def test_each_shape_becomes_what_is_typed(shown, value):
    assert values(f"Your verification code is: {shown}") == [value]


@table(
    "marked",
    "*◊* **◊** [◊] (◊) 「◊」 【◊】 『◊』 '◊' \"◊\" “◊” «◊» `◊` <b>◊</b> >◊< ◊. ◊, ◊! :◊ =◊ ◊です ◊입니다 '◊'dir #◊".split(),
)
def test_marks_around_a_code_do_not_hide_it(marked):
    assert values("Your login code: " + marked.replace("◊", "481516")) == ["481516"]


@table(
    "shown",
    [
        "481",
        "481516234",
        "12:45:10",
        "$4815",
        "4815 €",
        "4,815.16",
        "48.15",
        "4815%",
        "481516 points",
        "3600 seconds",
        "2026-01-14",
        "14/01/2026",
        "14.01.2026",
        "+49 30 481516",
        "(0800) 481516",
        "0800 481516",
        "1-800-555-0199",
        "****4242",
        "•••• 4242",
        "203.0.113.77",
        "v4.8.15",
        "https://x.example/481516",
        "www.x.example/481516",
        "a481516@x.example",
        "481516@x.example",
        "481516.pdf",
        "invoice_481516.pdf",
        "x.example/481516",
        "481516/2026",
        "F7QK2-9XWMZ-3HTRP-LV8CN-D4B6J",
        "DE89 3704 0044 0532 0130 00",
        "600x800px",
        "1080p",
        "VERIFY",
        "here",
        "one-time",
    ],
)
def test_what_does_not_look_like_a_code_is_none_even_where_one_is_due(shown):
    assert values(f"Your verification code is {shown}") == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Order 998877: your login code is 481516", "481516"),
        ("Your login code for order 998877 is 481516", "481516"),
        ("Your login code is 481516, your order is 998877", "481516"),
        ("481516 is your login code for account 998877", "481516"),
        ("On 14 January 2026 you asked for a login code: 481516", "481516"),
        ("Old code: 998877\nNew login code: 481516", "481516"),
        ("Your old login code 998877 has expired. Your new login code is 481516.", "481516"),
        ("Coupon code: 998877\nLogin code: 481516", "481516"),
        ("Case 998877\n\nYour login code:\n481516\n\nTel. 0800 112233\n94043", "481516"),
        ("Login code 481516 (expires in 10 minutes, reference 998877)", "481516"),
    ],
)
def test_of_several_numbers_the_one_called_so_is_the_code(text, value):
    assert values(text)[0] == value


def test_a_code_that_stands_several_times_is_listed_once():
    assert values("Your code is 481516.\n\n481 516\n\n481-516 is your login code", "481516 is your login code") == [
        "481516"
    ]


def test_the_subject_alone_is_enough():
    assert values("Hello, the code is above.", "481516 is your login code") == ["481516"]


def test_the_subject_may_name_what_the_text_shows():
    assert values("Hello Anna,\n\n481516\n\nBye", "Your login code") == ["481516"]
    assert values("Hello Anna,\n\nOrder:\n481516\n\nBye", "Your parcel") == []


def test_a_number_set_apart_needs_no_name():
    assert values("Saluton Anna,\n\n481516\n\nBonan tagon", "Preskau finita") == ["481516"]
    assert values("Saluton Anna,\n\n481516\n\n20418\n\n$ 12.00\n\nBonan tagon", "Preskau finita") == []


@pytest.mark.parametrize("text", ["", "\n", "481516", "code", "no digits at all", "481516 481516"])
def test_without_a_name_or_a_place_a_number_is_no_code(text):
    assert values(text) == []


def test_a_surer_code_has_more_confidence():
    sure = codes.find("", "Your one-time verification code is 481516")[0].confidence
    less = codes.find("", "code: 481516")[0].confidence
    assert 0 < less < sure <= 1


def test_words_need_more_than_the_word_code():
    assert values("The dress code is smart-casual-please") == []
    assert values("code: correct-horse-battery") == []
    assert values("Your login code: correct-horse-battery") == ["correct-horse-battery"]


PIECES = [
    *"1 a A - . , : ( ) [ « * @ # % ' \n \t \r".split(" "),
    " ",
    "12",
    "1234 ",
    "481516\n",
    "481516, ",
    "1 ",
    "1 1x",
    "4 - ",
    "4·",
    "a-",
    "A-",
    "A1-",
    "A1 ",
    "A1!a",
    "ABC 1D2 ",
    "12-3-",
    "> ab\n",
    "K7M3Q9 ",
    "code ",
    "code: ",
    "code code 1234 ",
    "code 481516 ",
    "verification code is 481516. ",
    "481516 is your code ",
    "order 481516 ",
    "enter 481516\n",
    "use id ",
    "enter the number below 4815\n",
    "parcel locker code 4815 ",
    "481516,5分",
    "sign in ",
    "TAN ",
    "no. ",
    "https://x.example/481516 ",
    "a@b ",
    "\u0301",
    "e\u0301\u0316",
    "\u200b",
    "\uff14",
    "٤",
    "码",
    "验证码481516",
    "인증번호 ",
    "あ",
    "İ",
    "₤481516",
    "\ud800",
    "\U0001d7ce",
    "-",
    "*",
    "\n----",
    "> 481516\n",
]


@table("piece", PIECES)
def test_finding_takes_linear_time(piece):
    def find(text):
        codes.find(text[:500], f"Your verification code:\n{text} 123456")

    assert_linear(find, piece * (THIRTY_TWO_KI // len(piece)))


TEXTS = st.text(max_size=300) | st.lists(
    st.sampled_from([*PIECES, "Your code is ", "验证码", "\n\n", "481 516", "WDJB-MJHT", "4\n8\n1\n5\n"]), max_size=40
).map("".join)


def typed(text):
    """Return a text as somebody would type it, without what may group the characters of a code."""
    narrow = unicodedata.normalize("NFKD", text)
    return "".join(
        str(int(character)) if character.isdecimal() else character for character in narrow if character.isalnum()
    )


@settings(deadline=None)
@given(st.text(max_size=50), TEXTS)
def test_any_text_gives_codes_that_stand_in_it(subject, text):
    found = codes.find(subject, text)
    assert [code.confidence for code in found] == sorted((code.confidence for code in found), reverse=True)
    assert len({code.value for code in found}) == len(found)
    for code in found:
        assert 0 < code.confidence <= 1
        assert typed(code.value) in typed(subject) + typed(text)
        assert code.value.isascii()


@settings(deadline=None)
@given(st.integers(0, 10**8).map(str).filter(lambda digits: len(digits) >= 4))
def test_any_digits_are_a_code_when_plainly_called_one(digits):
    assert values(f"Your verification code is {digits}.")[:1] == [digits] * (len(digits) <= 8)
