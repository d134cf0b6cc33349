"""The first code and the first link of whole messages; a real message that was handled wrongly becomes a new case.

A case is a table in a file in ``mails/``: the ``subject``, ``text`` and ``html`` of a message, and the ``code`` and the
``link`` that a reader most likely wants. If ``code`` is missing, no code may be found in the message. The codes in
``mails/not-reached.toml`` are known to be missed by the rules.

``sentences/`` contains sentences by language, with ◊ in place of a number. The number is a code in ``codes.toml``, and
not a code in ``none.toml``.
"""

import tomllib
from pathlib import Path

from msgspec import Struct, convert

from tmpmaild.findings import codes, links
from tmpmaild.mail import htmltext

HERE = Path(__file__).parent
CODES_SHOWN = ("481516", "7302", "481 516")
OTHER_NUMBERS = ("481516", "48151623", "K7M3Q9")
FRAME = (
    "Hello Anna,\n\n{}\n\nAcme Corp, 1200 Example Ave, Suite 4815, Springfield 62704\n© 2026 Acme. Tel. 1-800-555-0199"
)


class Case(Struct, forbid_unknown_fields=True):
    name: str
    code: str = ""
    link: str = ""
    subject: str = ""
    text: str = ""
    html: str = ""

    def codes(self):
        return [code.value for code in codes.find(self.subject, self.text or htmltext.to_text(self.html))]


def cases(path):
    return convert(tomllib.loads(path.read_text())["message"], list[Case])


ALL = {path.stem: cases(path) for path in sorted((HERE / "mails").glob("*.toml"))}
NOT_REACHED = ALL["not-reached"]
REACHED = {(stem, case.name): case for stem in ALL if stem != "not-reached" for case in ALL[stem]}


def sentences(name):
    languages = tomllib.loads((HERE / "sentences" / name).read_text())
    return [sentence for one in languages.values() for sentence in one]


def test_the_code_is_first_and_rarely_followed_by_a_second_code():
    found = {name: (case.code, case.codes()) for name, case in REACHED.items() if case.code}
    assert {name: (code, values) for name, (code, values) in found.items() if values[:1] != [code]} == {}
    assert sum(len(values) > 1 for _, values in found.values()) <= len(found) / 100


def test_no_code_is_found_in_messages_without_one():
    assert {name: case.codes() for name, case in REACHED.items() if not case.code and case.codes()} == {}
    assert {case.name: case.codes() for case in NOT_REACHED if case.codes()} == {}


def test_the_expected_link_is_first():
    with_link = {name: case for name, case in REACHED.items() if case.link}
    found = {name: (case.link, links.find(case.text, case.html)[:1]) for name, case in with_link.items()}
    assert {name: both for name, both in found.items() if [both[0]] != [link.href for link in both[1]]} == {}


def test_every_kind_of_case_is_there_under_its_own_name():
    every = list(REACHED.values())
    with_code, with_link = [case for case in every if case.code], [case for case in every if case.link]
    assert min(map(len, (with_code, with_link, NOT_REACHED))) >= 10
    assert len(every) - len(with_code) > 900
    assert len(every) == sum(map(len, ALL.values())) - len(NOT_REACHED)


def found_in(sentence, shown):
    return [code.value for code in codes.find("Acme", FRAME.format(sentence.replace("◊", shown)))]


def test_a_code_is_found_in_each_sentence():
    found = {(one, shown): found_in(one, shown) for one in sentences("codes.toml") for shown in CODES_SHOWN}
    assert {key: values for key, values in found.items() if values != [key[1].replace(" ", "")]} == {}
    assert len(found) > 300


def test_other_numbers_are_not_codes():
    found = {(one, shown): found_in(one, shown) for one in sentences("none.toml") for shown in OTHER_NUMBERS}
    assert {key: values for key, values in found.items() if values} == {}
    assert len(found) > 300
