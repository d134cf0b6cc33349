"""Codes in a message: every form of a code, misleading numbers, and hostile texts."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from tmpmaild.findings import codes
from tmpmaild.mail.htmltext import to_text

THIRTY_TWO_KI = 32 * 1024


def values(text, subject=""):
    return [code.value for code in codes.find(subject, text)]


@pytest.mark.parametrize(
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
def test_each_form_is_returned_as_a_person_would_type_it(shown, value):
    assert values(f"Your verification code is: {shown}") == [value]


@pytest.mark.parametrize(
    "marked",
    [
        "*◊*",
        "**◊**",
        "[◊]",
        "(◊)",
        "「◊」",
        "【◊】",
        "『◊』",
        "'◊'",
        '"◊"',
        "“◊”",
        "«◊»",
        "`◊`",
        "<b>◊</b>",
        ">◊<",
        "◊.",
        "◊,",
        "◊!",
        ":◊",
        "=◊",
        "◊です",
        "◊입니다",
        "'◊'dir",
        "#◊",
    ],
)
def test_marks_around_a_code_do_not_hide_it(marked):
    assert values("Your login code: " + marked.replace("◊", "481516")) == ["481516"]


@pytest.mark.parametrize(
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
        "© 2026",
        "(c) 2026",
    ],
)
def test_other_forms_are_not_codes_even_after_a_cue(shown):
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
def test_of_several_numbers_the_number_named_a_code_is_the_code(text, value):
    assert values(text)[0] == value


def test_a_code_that_occurs_several_times_is_listed_once():
    assert values("Your code is 481516.\n\n481 516\n\n481-516 is your login code", "481516 is your login code") == [
        "481516"
    ]


@pytest.mark.parametrize(
    "tag",
    [
        "[STAGING]",
        "[Staging2]",
        "[stg-2]",
        "[PROD-EU1]",
        "[EXTERN]",
        "[EXTERNAL]",
        "[EXT] [TEST]",
        "(TEST)",
        "【TEST】",
        "***SPAM***",
        "STAGING:",
        "TEST -",
        "QA |",
        "[ACME]",
        "[Acme Shop]",
    ],
)
def test_tags_before_a_subject_change_nothing(tag):
    assert values("Hello, your code is 481516.", f"{tag} Sign in") == ["481516"]
    assert values("Hello, the code is above.", f"{tag} 481516 is your login code") == ["481516"]
    assert values("Hello Anna,\n\n481516\n\nBye", f"{tag} Your login code") == ["481516"]
    assert values("Your verification code was entered. All is well.", f"{tag} Your code was right") == []


@pytest.mark.parametrize("text", ["", "\n", "481516", "code", "no digits at all", "481516 481516"])
def test_a_number_that_no_word_names_or_formatting_sets_apart_is_not_a_code(text):
    assert values(text) == []


def test_a_clearer_context_gives_more_confidence_and_words_need_more_than_the_word_code():
    sure = codes.find("", "Your one-time verification code is 481516")[0].confidence
    less = codes.find("", "code: 481516")[0].confidence
    assert 0 < less < sure <= 1
    assert values("The dress code is smart-casual-please") == []
    assert values("code: correct-horse-battery") == []
    assert values("Your login code: correct-horse-battery") == ["correct-horse-battery"]


PIECES = [
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
    "1",
    "a",
    "A",
    "-",
    ".",
    ",",
    ":",
    "(",
    ")",
    "[",
    "«",
    "*",
    "@",
    "#",
    "%",
    "'",
    "\n",
    "\t",
    "\r",
]


@pytest.mark.parametrize("piece", PIECES)
def test_finding_takes_linear_time(piece):
    def find(text):
        codes.find(text[:500], f"Your verification code:\n{text} 123456")

    assert_linear(find, piece * (THIRTY_TWO_KI // len(piece)))


TEXTS = st.text(max_size=300) | st.lists(
    st.sampled_from([*PIECES, "Your code is ", "验证码", "\n\n", "481 516", "WDJB-MJHT", "4\n8\n1\n5\n"]), max_size=40
).map("".join)


def typed(text):
    """Return a text as a person would type it, without separators."""
    narrow = unicodedata.normalize("NFKD", text)
    return "".join(
        str(int(character)) if character.isdecimal() else character for character in narrow if character.isalnum()
    )


@given(st.text(max_size=50), TEXTS)
def test_the_codes_of_any_text_occur_in_it(subject, text):
    found = codes.find(subject, text)
    assert [code.confidence for code in found] == sorted((code.confidence for code in found), reverse=True)
    assert len({code.value for code in found}) == len(found)
    for code in found:
        assert 0 < code.confidence <= 1
        assert typed(code.value) in typed(subject) + typed(text)
        assert code.value.isascii()


@given(st.integers(0, 10**8).map(str).filter(lambda digits: len(digits) >= 4))
def test_any_digits_are_a_code_when_plainly_called_a_code(digits):
    assert values(f"Your verification code is {digits}.")[:1] == [digits] * (len(digits) <= 8)


NAMED = [
    "A/c XX1245",
    "card XX1245",
    "card ending 1245",
    "Aadhaar (XX1234)",
    "PAN ABCPK1234F",
    "UHID AP12345",
    "PO-77812",
    "employee no. EMP1042",
    "your transaction at FLIPKART on ICICI Bank card XX1245",
    "user AB1234 on NETSUITE",
]
SAID = [
    "Your OTP for {named} is {code}.",
    "Dear customer, the verification code for {named} is: {code}",
    "OTP for {named}: {code}",
    "{code} is your OTP for {named}.",
    "Use OTP {code} to verify {named}.",
    "Ihr Bestätigungscode für {named} lautet {code}",
    "Votre code de validation pour {named} est {code}",
    "Su código de verificación para {named} es {code}",
    "Ваш код подтверждения для {named}: {code}",
    "{named}の認証コードは{code}です",
    "{named} 的验证码\uff1a{code}\uff0c请勿泄露",
]


@pytest.mark.parametrize("named", NAMED)
@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("code", ["811739", "4815"])
def test_the_number_after_the_word_is_wins_over_the_number_that_the_code_is_for(said, named, code):
    found = codes.find("Message", f"{said.format(named=named, code=code)}\n\nDo not share it with anyone.")
    assert [one.value for one in found] == [code]


@pytest.mark.parametrize(
    "label", ["Login", "* Login", "Username", "User ID", "Benutzername", "Identifiant", "ログインID", "用户名"]
)
@pytest.mark.parametrize("name", ["jsmith42", "bkeller7", "JSMITH42", "anna2023"])
def test_a_user_name_is_not_a_code(label, name):
    account = f"Your account information:\n\n{label}: {name}\nPassword: as chosen\n\nSign in to activate your account."
    assert codes.find("Your account activation", account) == ()
    (found,) = codes.find("Your account activation", f"{account}\n\nYour verification code is 481516")
    assert found.value == "481516"


@pytest.mark.parametrize("brand", ["Auth0", "Web3", "Log4Shell", "Office365", "WEB3", "Base44"])
def test_a_brand_with_a_digit_as_the_whole_subject_is_not_a_code(brand):
    assert codes.find(brand, "Verify your new device: enter the dashboard.") == ()


@pytest.mark.parametrize("code", ["481516", "K7M3Q9", "4815"])
def test_a_whole_subject_may_be_a_code(code):
    (found,) = codes.find(code, "Enter this code to sign in.")
    assert found.value == code


@pytest.mark.parametrize("date", ["20260714", "19991231", "31122026"])
def test_a_date_in_digits_is_a_code_only_if_the_text_says_so(date):
    assert codes.find("Message", f"Verification code\n\nYour email was used on {date}.") == ()
    (found,) = codes.find("Message", f"Your verification code is {date}")
    assert found.value == date


@pytest.mark.parametrize(
    "text", ["<#> 4815 is your code for Shop. {}", "4815 is your code for Shop.\n{}", "Your code: 4815\n\n{}"]
)
@pytest.mark.parametrize("app", ["s3LhKBB0M33", "FA+9qCX9VSu", "abc/DEF0123"])
def test_the_word_that_identifies_an_app_is_not_a_code(text, app):
    (found,) = codes.find("", text.format(app))
    assert found.value == "4815"


@pytest.mark.parametrize(
    "html",
    [
        "<p>Your verification code is</p><ul>" + "".join(f"<li>{one}</li>" for one in "481516") + "</ul>",
        "<p>Your verification code is</p><ol>" + "".join(f"<li>{one}" for one in "481516") + "</ol>",
        "<p>Your verification code is</p><ul>" + "".join(f"<li><p>{one}</p></li>" for one in "481516") + "</ul>",
        "<p>Your code: <del>112233</del> 481516",
        "<p>Your code: <s> 112233 </s> 481516",
        "<p>Your code: <span style='text-decoration:line-through'>112233</span> 481516",
        "<p><s>112233</s> 481516 is your verification code",
        "<p>Your verification code:<p><strike>112233</strike><p>481516",
    ],
)
def test_a_code_in_a_list_or_next_to_a_struck_out_code_is_found(html):
    assert [one.value for one in codes.find("Message", to_text(html))] == ["481516"]


@pytest.mark.parametrize(
    "word", ["outer", "inner", "first", "second", "last", "next", "final", "correct", "valid", "main"]
)
@pytest.mark.parametrize("text", ["{} code 481516", "Your {} code is 481516.", "The {} code:\n481516"])
def test_codes_that_are_distinguished_by_a_word_are_still_codes(word, text):
    assert [one.value for one in codes.find("Test", text.format(word))] == ["481516"]


@pytest.mark.parametrize("word", ["gym", "dress", "climate", "error", "country", "outer garage"])
def test_a_word_that_says_what_a_code_is_for_makes_it_another_kind_of_code(word):
    assert codes.find("Test", f"{word} code 481516") == ()


@pytest.mark.parametrize("code", ["4 u 8 k u f", "k 7 m 3 q 9", "a b c 1", "4 U 8 k U f 1 z"])
@pytest.mark.parametrize("text", ["TAN\n {}\nPlease check it.", "Your code:\n\n{}\n", "Enter this code to sign in\n{}"])
def test_lower_case_letters_and_digits_separated_by_spaces_are_a_code_if_they_fill_a_line(code, text):
    assert [one.value for one in codes.find("Test", text.format(code))] == [code.replace(" ", "")]


@pytest.mark.parametrize("line", ["a b c d e f", "v 7 n M Z S S H 6 l", "the a b c 1 of it", "a b c 1.", "I am 4 u 8"])
def test_other_lines_of_single_letters_are_not_codes(line):
    assert codes.find("Test", f"Your code:\n{line}\n") == ()
