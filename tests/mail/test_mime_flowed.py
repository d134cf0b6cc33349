"""Flowed text: what a sender that keeps to RFC 3676 has broken is read as it was written; anything else is read, too."""

from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from tables import rows_of, table
from tmpmaild.findings import links
from tmpmaild.mail import mime
from tmpmaild.mail.mime import Part

ROWS = rows_of(__file__)

HEADER = b"Content-Type: text/plain; format=flowed; delsp=%s\r\n\r\n"
SIGNATURE = "-- "

paragraphs = st.tuples(st.integers(0, 3), st.text(" >-aé.F", max_size=20).map(lambda text: text.rstrip(" ")))


def part(delsp):
    return Part(parameters={"format": "flowed", "delsp": delsp})


@st.composite
def broken(draw, delsp):
    """Draw what was written, and the lines of a sender that breaks it wherever it may (RFC 3676 §4.2)."""
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


@table("delsp", ["yes", "no"])
@given(data=st.data())
def test_what_a_sender_has_broken_is_read_as_it_was_written(delsp, data):
    text, written = data.draw(broken(delsp))
    assert mime.unflow(text, part(delsp)) == written


@table("delsp", ["yes", "no"])
@given(text=st.text(" >-a\n"))
def test_no_text_loses_anything_but_soft_breaks_and_spaces(delsp, text):
    shown = mime.unflow(text, part(delsp))
    assert shown.count("a") == text.count("a")
    assert shown.count("\n") <= text.count("\n")


@table(("text", "shown"), ROWS["a soft break joins lines of one level only"])
def test_a_soft_break_joins_lines_of_one_level_only(text, shown):
    assert mime.unflow(text, part("no")) == shown


@table(("fields", "body"), ROWS["only what is said to be flowed is put together"])
def test_only_what_is_said_to_be_flowed_is_put_together(fields, body):
    raw = b"Content-Type: " + fields + b"\n\na \nb"
    mail = mime.parse(raw)
    assert (mail.body if isinstance(mail.body, str) else raw[mail.body.start :].decode()) == body


def test_a_link_that_was_broken_is_whole():
    href = "https://shop.example.org/confirm?token=q7Zk2v9XwL4pR8tY1mN6bC3dF5gH0jK"
    raw = HEADER % b"yes" + f"Confirm your address:\r\n{href[:50]} \r\n{href[50:]}\r\n".encode()
    assert [link.href for link in links.find(mime.parse(raw).body, "")] == [href]


@table("pattern", [" \n", "\n", "> \n", ">" * 500 + "a \n", "-- \n", ">a \n>>b \n"])
def test_the_work_grows_with_the_text(pattern):
    assert_linear(lambda text: mime.unflow(text, part("yes")), pattern * (mime.MAX_TEXT_BYTES // 4 // len(pattern)))
