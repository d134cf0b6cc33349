"""Messages as an Atom feed: it is always well-formed, and contains everything in a message as text."""

import re

import atomrules
import feedparser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmpmaild.http import feed
from tmpmaild.mail import mime
from tmpmaild.model import Code, Findings, Inbox, Link, Listing, Message

INBOX = Inbox("1", "a_b'c@mail.example.com", 0, 1, private=True, token_hash=None, message_count=1, full=False)
URLS = feed.FeedUrls("/feed/s&<", "/#a_b'c", "/messages")
HOSTILE = {
    "markup": "</title><script>steal()</script><![CDATA[",
    "the end of CDATA": "]]>",
    "an entity": "<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>&e;&amp;&#0;",
    "control characters": "a\x00b\x01c\x08d\x0be\x1b[2Jf\x7fg\x85h",
    "no characters": "\ufffe\uffff\U0001ffff",
    "halves of characters": "\ud800\udc00 \udfff",
    "turned around": "\u202egnp.exe\u2066",
    "line ends": "a\r\nb\rc\u2028d",
    "nothing": "",
    "blanks": " \t\n\u3000",
}
ANY = st.text(st.characters(), max_size=30) | st.sampled_from(sorted(HOSTILE.values()))


def message(number=0, **members):
    given = {"recipient": "", "from_address": "", "from_name": "", "subject": "", "body": ""} | members
    defaults = {"truncated": False, "size_bytes": 0, "has_html": False, "attachments": ()}
    return Message(f"msg_{number:026}", 1_790_000_000_000 + number, **{**defaults, **given})


def made(*messages):
    return feed.document(Listing(INBOX, messages, has_more=False), URLS)


def kept(text):
    """Return the characters of a text that XML 1.0 allows (production 2)."""
    ranges = ((0x20, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x10FFFF))
    return "".join(
        character for character in text if character in "\t\n" or any(a <= ord(character) <= b for a, b in ranges)
    )


@given(said=st.tuples(*[ANY] * 6))
def test_any_content_of_a_message_is_returned_as_text(said):
    subject, sender, name, body, code, href = said
    findings = Findings((Code(code, 1),), (Link(href, "", 1),))
    one = message(from_address=sender, from_name=name, subject=subject, body=body, findings=findings)
    ((entry, title, text),) = atomrules.entries(made(one))
    assert title == (kept(subject) if kept(subject).strip() else "(no subject)")
    assert text == kept(f"Code: {code}\nLink: {href}\n\n{body}")
    shown = [text for text in map(kept, (name, sender, "unknown sender")) if text.strip()]
    assert atomrules.texts(entry.find("{*}author"), "name") == shown[:1]


@given(
    raw=st.binary(max_size=200)
    | ANY.map(lambda text: f"From: {text}\nSubject: {text}\n\n{text}".encode("utf-8", "surrogatepass"))
)
def test_any_message_gives_a_valid_feed(raw):
    mail = mime.parse(raw)
    body = mail.body if isinstance(mail.body, str) else raw[mail.body.start : mail.body.end].decode()
    one = message(from_address=mail.from_address, from_name=mail.from_name, subject=mail.subject, body=body)
    ((_, title, _),) = atomrules.entries(made(one))
    assert title == (kept(mail.subject) if kept(mail.subject).strip() else "(no subject)")


@pytest.mark.parametrize("text", HOSTILE.values())
def test_no_hostile_text_becomes_markup(text):
    feed = made(message(from_address=text, from_name=text, subject=text, body=text)).decode()
    assert set(re.findall(r"<[!?/]?(\w+)", feed)) == {
        *("xml", "feed", "id", "title", "updated", "link", "generator"),
        *("entry", "published", "author", "name", "content"),
    }
    assert "]]>" not in feed


@pytest.mark.parametrize("text", HOSTILE.values())
def test_a_feed_parser_finds_no_error(text):
    """The parser treats U+0085 as a character of an old encoding, and strips white space."""
    read = feedparser.parse(made(message(subject=text, body=text, from_address="ann@example.org")))
    assert (read.bozo, read.version) == (False, "atom10")
    (entry,) = read.entries
    assert (entry.link, entry.author_detail.email) == ("/messages/msg_" + "0" * 26, "ann@example.org")
    assert entry.content[0].value.replace("…", "\x85") == kept(text).strip()


def test_long_texts_are_truncated_and_links_are_complete_or_omitted():
    ((_, title, _),) = atomrules.entries(made(message(subject="<&" * 500_000, from_name="n" * 1_000_000)))
    assert title == "<&" * 500
    assert len(made(message(subject="<&" * 500_000, from_address="n" * 1_000_000))) < 10_000
    long, longer, short = (f"https://a.example/{'x' * length}" for length in (3000, 2000, 1000))
    findings = Findings((), tuple(Link(href, "", 1) for href in (long, longer, short, *["http://b.example/"] * 9)))
    ((_, _, text),) = atomrules.entries(made(message(body="text", findings=findings)))
    shown = [line.removeprefix("Link: ") for line in text.splitlines()]
    assert shown == [long, short, *["http://b.example/"] * 3, "", "text"]
    ((_, _, text),) = atomrules.entries(made(message(body="text", truncated=True)))
    assert text == "text\n[…]"


@pytest.mark.parametrize(
    ("name", "address", "shown"),
    [
        ("Ann", "ann@example.org", ["Ann", "ann@example.org"]),
        ("", "ann@example.org", ["ann@example.org", "ann@example.org"]),
        ("Ann", "no address", ["Ann"]),
        ("\x00", "\x00", ["unknown sender"]),
    ],
)
def test_the_sender_is_the_author(name, address, shown):
    ((entry, _, _),) = atomrules.entries(made(message(from_name=name, from_address=address)))
    assert [child.text for child in entry.find("{*}author")] == shown
