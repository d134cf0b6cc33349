"""One of something is not said in the plural: neither by the helper, nor by text that does without it."""

import ast
import re
from pathlib import Path

from tmpmaild.counted import counted

PACKAGE = Path(__file__).parents[1] / "tmpmaild"
NOUNS = (
    "inboxes addresses mails messages lines times octets bytes seconds minutes signatures records files fields problems warnings"
    " connections sessions streams webhooks hosts clients blocks recipients questions lookups daemons requests attachments entries"
    " keys steps rows days"
)
_counts = re.compile(rf" (?:more )?(?:{'|'.join(NOUNS.split())})\b").match
# Bounds, numbers that are several there, debugging, and the reasons of verdicts, which are for machines too.
NEVER_ONE = {
    *("published.py: len(ours)", "waiting.py: self._goal.count", "handler.py: %d octets", "commands.py: %d octets"),
    *("signatures.py: length", "signatures.py: length - covered", "signatures.py: left", "signatures.py: len(record)"),
    *("sendinghosts.py: len(value)", "sendinghosts.py: spf.MAX_VOID_LOOKUPS", "views.py: self.size_bytes"),
    *("creating.py: addresses.MAX_ADDRESS_OCTETS",),
}


def test_a_number_comes_with_its_noun():
    told = [counted(0, "inbox", "inboxes"), counted(1, "inbox", "inboxes"), counted(2, "mail"), counted(1, "mail")]
    assert told == ["0 inboxes", "1 inbox", "2 mails", "1 mail"]
    assert counted(12_000, "mail", spec=",") == "12,000 mails"


def numbers_before_plurals(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for number, text in zip(node.values, node.values[1:], strict=False):
                if isinstance(number, ast.FormattedValue) and isinstance(text, ast.Constant) and _counts(text.value):
                    yield ast.unparse(number.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(rf"%d (?:{NOUNS.replace(' ', '|')})\b", node.value)


def test_no_text_has_a_number_before_a_plural_that_may_be_one():
    found = {
        f"{file.name}: {number}"
        for file in PACKAGE.rglob("*.py")
        for number in numbers_before_plurals(ast.parse(file.read_text()))
    }
    assert {one for one in found if not re.search(r": _?(MOST|MAX)_", one)} - NEVER_ONE == set()
