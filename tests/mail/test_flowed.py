"""Flowed text: lines broken by a sender that follows RFC 3676 are rejoined; any other text is still readable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from tmpmaild.findings import links
from tmpmaild.mail import flowed, mime
from tmpmaild.mail.structure import Part

HEADER = b"Content-Type: text/plain; format=flowed; delsp=%s\r\n\r\n"
SIGNATURE = "-- "

paragraphs = st.tuples(st.integers(0, 3), st.text(" >-aé.F", max_size=20).map(lambda text: text.rstrip(" ")))


def part(delsp):
    return Part(parameters={"format": "flowed", "delsp": delsp})


@st.composite
def broken(draw, delsp):
    """Draw flowed lines, which may be broken wherever RFC 3676 §4.2 allows it, and the original text."""
    written, lines = [], []
    for depth, text in draw(st.lists(paragraphs)):
        quotes = ">" * depth
        written.append(f"{quotes} {text}" if depth and text else quotes + text)
        places = [at for at in range(1, len(text)) if delsp == "yes" or text[at - 1] == " "]
        cuts = sorted(draw(st.sets(st.sampled_from(places)))) if places else []
        pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        soft = [piece + " " if delsp == "yes" else piece for piece in pieces[:-1]]
        if SIGNATURE in soft:
            soft, pieces = [], [text]
        lines += [quotes + _stuffed(line, draw(st.booleans())) for line in (*soft, pieces[-1])]
    return "\n".join(lines), "\n".join(written)


def _stuffed(line, may_be):
    return f" {line}" if line.startswith((" ", ">", "From ")) or (may_be and line) else line


@pytest.mark.parametrize("delsp", ["yes", "no"])
@given(data=st.data())
def test_text_wrapped_by_a_sender_is_read_as_written(delsp, data):
    text, written = data.draw(broken(delsp))
    assert flowed.unflow(text, part(delsp)) == written


@pytest.mark.parametrize("delsp", ["yes", "no"])
@given(text=st.text(" >-a\n"))
def test_text_loses_only_soft_breaks_and_spaces(delsp, text):
    shown = flowed.unflow(text, part(delsp))
    assert shown.count("a") == text.count("a")
    assert shown.count("\n") <= text.count("\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a \nb", "a b"),
        ("a \n\nb", "a \n\nb"),  # according to the RFC, the empty line would end the paragraph and disappear
        ("a \n> b", "a \n> b"),
        ("> a \n>> b", "> a \n>> b"),
        (">a \n> b", "> a b"),
        ("a \n-- \nb", "a \n-- \nb"),
        ("> a \n> -- \n> b", "> a \n> -- \n> b"),
        (" > a", "> a"),
        ("  a", " a"),
        ("a ", "a "),
        ("", ""),
        (">", ">"),
    ],
)
def test_a_soft_break_joins_lines_of_one_level_only(text, shown):
    assert flowed.unflow(text, part("no")) == shown


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        (b"text/plain; format=flowed", "a b"),
        (b"TEXT/PLAIN; Format=Flowed", "a b"),
        (b'text/plain; format="flowed"; delsp="YES"', "ab"),
        (b"text/plain; format=fixed", "a \nb"),
        (b"text/plain; delsp=yes", "a \nb"),
        (b"text/plain", "a \nb"),
    ],
)
def test_only_text_declared_as_flowed_is_joined(fields, body):
    raw = b"Content-Type: " + fields + b"\n\na \nb"
    mail = mime.parse(raw)
    assert (mail.body if isinstance(mail.body, str) else raw[mail.body.start :].decode()) == body


def test_a_wrapped_link_is_complete():
    href = "https://shop.example.org/confirm?token=q7Zk2v9XwL4pR8tY1mN6bC3dF5gH0jK"
    raw = HEADER % b"yes" + f"Confirm your address:\r\n{href[:50]} \r\n{href[50:]}\r\n".encode()
    assert [link.href for link in links.find(mime.parse(raw).body, "")] == [href]


@pytest.mark.parametrize("pattern", [" \n", "\n", "> \n", ">" * 500 + "a \n", "-- \n", ">a \n>>b \n"])
def test_the_work_grows_with_the_text(pattern):
    assert_linear(lambda text: flowed.unflow(text, part("yes")), pattern * (mime.MAX_TEXT_BYTES // 4 // len(pattern)))
