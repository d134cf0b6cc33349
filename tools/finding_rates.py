"""Prints how often the first code and link found in messages are correct: python tools/finding_rates.py FILE.jsonl...

The project's own files are in ``tests/findings/blind``. Each line of a file is a message in JSON: ``id``, ``subject``,
``text``, ``html``, the expected first ``code`` (or null), other spellings of it in ``also_accept``, and the expected
first ``link`` (or null). The output also lists each wrong code and link.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tmpmaild.findings import codes, links
from tmpmaild.mail import htmltext


class Mail(msgspec.Struct, frozen=True):
    """A message and the findings expected in it."""

    id: str
    subject: str
    text: str | None
    html: str | None
    code: str | None
    also_accept: list[str]
    link: str | None


class Rates(msgspec.Struct, frozen=True):
    """Rates (0 to 1) for messages with a code, without a code and with a link, and a text about each wrong finding."""

    first_code_right: float
    invented: float
    link_right: float
    wrong: list[str]


def read(path: Path) -> list[Mail]:
    """Return the messages in a file."""
    return [msgspec.json.decode(line, type=Mail) for line in path.read_bytes().splitlines()]


def measure(mails: list[Mail]) -> Rates:
    """Find the codes and links in all messages, and return the rates."""
    found = [(mail, _first_code(mail), _first_link(mail)) for mail in mails]
    codes_right = [code in {mail.code, *mail.also_accept} for mail, code, _ in found if mail.code]
    invented = [code is not None for mail, code, _ in found if not mail.code]
    links_right = [link == mail.link for mail, _, link in found if mail.link]
    return Rates(_share(codes_right), _share(invented), _share(links_right), list(_wrong(found)))


def _share(outcomes: list[bool]) -> float:
    return sum(outcomes) / len(outcomes)


def _first_code(mail: Mail) -> str | None:
    """Return the first code; as in the service, search the HTML only if the text contains no code."""
    html = htmltext.to_text(mail.html or "")
    found = codes.find(mail.subject, mail.text or html) or codes.find(mail.subject, html)
    return found[0].value if found else None


def _first_link(mail: Mail) -> str | None:
    html = mail.html or ""
    found = links.find(mail.text or htmltext.to_text(html), html)
    return found[0].href if found else None


def _wrong(found: list[tuple[Mail, str | None, str | None]]) -> Iterator[str]:
    for mail, code, link in found:
        if code not in {mail.code, *mail.also_accept}:
            yield f"{mail.id}: code {code} instead of {mail.code}"
        if mail.link and link != mail.link:
            yield f"{mail.id}: link {link} instead of {mail.link}"


def main() -> None:
    """Print the rates for each file."""
    for name in sys.argv[1:]:
        rates = measure(read(Path(name)))
        print(  # noqa: T201
            f"{name}: first code correct {rates.first_code_right:.0%}, invented {rates.invented:.0%},"
            f" link correct {rates.link_right:.0%}",
            *rates.wrong,
            sep="\n  ",
        )


if __name__ == "__main__":
    main()
