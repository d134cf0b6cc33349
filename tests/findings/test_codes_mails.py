"""Whole mails, in ``mails/*.txt``: which code and which link a reader in a hurry wants; a missed mail becomes a new case.

A case is written so, the HTML only where there is some:

    === what is special about it
    codes: 481516            the code wanted first, or "none"
    link: https://…          the link wanted first; may be left out
    Subject: Your code

    the text part

    --- html
    <p>the HTML</p>

``sentences/*.txt`` has one sentence a line, by language, each with ◊ where a number stands: in ``codes.txt`` it is a
code, in ``none.txt`` it is not. ``mails/not-reached.txt`` is what the rules are known to miss.
"""

import re
from pathlib import Path
from typing import NamedTuple

from tmpmaild.findings import codes, links
from tmpmaild.mail import htmltext

HERE = Path(__file__).parent
CODES_SHOWN = ("481516", "7302", "481 516")
OTHER_NUMBERS = ("481516", "48151623", "K7M3Q9")
FRAME = (
    "Hello Anna,\n\n{}\n\nAcme Corp, 1200 Example Ave, Suite 4815, Springfield 62704\n© 2026 Acme. Tel. 1-800-555-0199"
)


class Case(NamedTuple):
    name: str
    code: str
    link: str
    subject: str
    body: str
    html: str

    @property
    def text(self):
        return self.body or htmltext.to_text(self.html)


def read(path):
    for block in re.split(r"^=== ", path.read_text(), flags=re.MULTILINE)[1:]:
        head, _, rest = block.partition("\n\n")
        name, *lines = head.split("\n")
        fields = dict(line.split(": ", 1) for line in lines if ": " in line)
        body, _, html = f"\n{rest}".partition("\n--- html\n")
        yield Case(
            f"{path.stem}: {name}",
            fields["codes"],
            fields.get("link", ""),
            fields.get("Subject", ""),
            body.strip(),
            html,
        )


ALL = [case for path in sorted((HERE / "mails").glob("*.txt")) for case in read(path)]
NOT_REACHED = [case for case in ALL if case.name.startswith("not-reached")]
REACHED = [case for case in ALL if case not in NOT_REACHED]
WITH_CODE = [case for case in REACHED if case.code != "none"]
WITHOUT_CODE = [case for case in REACHED if case.code == "none"]
WITH_LINK = [case for case in REACHED if case.link]


def sentences(name):
    lines = (HERE / "sentences" / name).read_text().splitlines()
    return [line.replace("\\n", "\n") for line in lines if line and not line.startswith("#")]


def found(case):
    return [code.value for code in codes.find(case.subject, case.text)]


def test_the_code_comes_first():
    shown = {case.name: (case.code, found(case)[:1]) for case in WITH_CODE}
    assert {name: told for name, told in shown.items() if [told[0]] != told[1]} == {}


def test_nothing_is_invented():
    assert {case.name: found(case) for case in WITHOUT_CODE if found(case)} == {}
    assert {case.name: found(case) for case in NOT_REACHED if found(case)} == {}
    assert sum(len(codes.find(case.subject, case.text)) > 1 for case in WITH_CODE) <= len(WITH_CODE) / 100


def test_the_link_comes_first():
    shown = {case.name: (case.link, [link.href for link in links.find(case.body, case.html)][:1]) for case in WITH_LINK}
    assert {name: told for name, told in shown.items() if [told[0]] != told[1]} == {}


def test_every_kind_of_case_is_there_under_its_own_name():
    assert min(map(len, (WITH_CODE, WITHOUT_CODE, NOT_REACHED, WITH_LINK))) >= 10
    assert len({case.name for case in ALL}) == len(ALL)


def found_in(sentence, shown):
    return [code.value for code in codes.find("Acme", FRAME.format(sentence.replace("◊", shown)))]


def test_a_sentence_is_enough():
    said = {(one, shown): found_in(one, shown) for one in sentences("codes.txt") for shown in CODES_SHOWN}
    assert {key: values for key, values in said.items() if values != [key[1].replace(" ", "")]} == {}
    assert len(said) > 300


def test_other_numbers_are_left_alone():
    said = {(one, shown): found_in(one, shown) for one in sentences("none.txt") for shown in OTHER_NUMBERS}
    assert {key: values for key, values in said.items() if values} == {}
    assert len(said) > 300
