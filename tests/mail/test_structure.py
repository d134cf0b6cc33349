"""Selecting a message's text parts, HTML parts and attachments (RFC 8621 §4.1.4)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from tmpmaild.mail import structure
from tmpmaild.mail.structure import Multipart, Part


def part(name, content_type="text/plain", disposition="", **more):
    """Return a part, which is blank if its name starts with "blank", and a file if its name contains a dot."""
    filename = name if "." in name else ""
    return Part(content_type, disposition=disposition, filename=filename, stated={"name": name}, **more)


def text(name, disposition=""):
    return part(name, "text/plain", disposition)


def html(name, disposition=""):
    return part(name, "text/html", disposition)


def image(name, **more):
    return part(name, "image/png", **more)


def multipart(subtype, *children, **more):
    return Multipart(subtype, children=list(children), **more)


def leaves(node):
    return [node] if isinstance(node, Part) else [leaf for child in node.children for leaf in leaves(child)]


def names(parts):
    return " ".join(one.stated["name"] for one in parts)


def chosen(tree):
    roles = structure.choose(tree, leaves(tree), lambda one: not one.stated["name"].startswith("blank"))
    return names(roles.text), names(roles.html), names(roles.attached)


def mixed(*children):
    return multipart("mixed", *children)


def alternative(*children):
    return multipart("alternative", *children)


def related(*children, **more):
    return multipart("related", *children, **more)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        # A message with a single part.
        (text("a"), ("a", "", "")),
        (html("a"), ("a", "a", "")),
        (text("a.txt"), ("a.txt", "", "")),
        (text("a", "attachment"), ("", "", "a")),
        (image("a"), ("", "", "a")),
        (text("blank"), ("blank", "", "")),
        # The example in RFC 8621.
        (
            mixed(
                text("A"),
                mixed(
                    alternative(mixed(text("B"), image("C"), text("D")), related(html("E"), image("F"))),
                    image("G", disposition="attachment"),
                    part("H", "application/x-excel"),
                    part("J", "message/rfc822"),
                ),
                text("K"),
            ),
            ("A B D K", "A E K", "C F G H J"),
        ),
        # Messages with several text parts.
        (mixed(text("a"), image("i"), text("b")), ("a b", "", "i")),
        (alternative(text("t"), mixed(html("a"), image("i"), html("b"))), ("t", "a b", "i")),
        (mixed(html("a"), alternative(text("t"), html("b"))), ("a t", "a b", "")),
        (mixed(alternative(text("t"), html("h")), text("footer")), ("t footer", "h footer", "")),
        (mixed(html("h"), text("footer")), ("h footer", "h footer", "")),
        # A gateway added its banner to one of two alternatives; the other alternative must not be lost.
        (alternative(text("t"), mixed(text("banner"), html("h"))), ("t banner h", "banner h", "")),
        # A blank part counts as absent, and is not an attachment.
        (alternative(text("blank"), html("h")), ("h", "h", "")),
        (alternative(text("t"), html("blank")), ("t", "", "")),
        (mixed(alternative(text("blank")), text("t")), ("t", "", "")),
        (mixed(text("blank1"), text("t"), text("blank.txt")), ("t", "", "blank.txt")),
        (mixed(text("blank1"), html("blank2")), ("blank1 blank2", "blank1 blank2", "")),
        # A text part with a file name is an attachment, unless there is no other text.
        (mixed(html("h"), text("log.txt")), ("h", "h", "log.txt")),
        (mixed(html("h"), text("log.txt", "inline")), ("h", "h", "log.txt")),
        (mixed(text("t"), html("report.html")), ("t", "", "report.html")),
        (mixed(text("log.txt"), alternative(text("t"), html("h"))), ("t", "h", "log.txt")),
        (mixed(text("first.txt"), text("second.txt")), ("first.txt", "", "second.txt")),
        (mixed(text("blank"), html("mail.html")), ("mail.html", "mail.html", "")),
        (alternative(text("mail.txt"), html("mail.html")), ("mail.txt", "mail.html", "")),
        # An unknown disposition counts as attachment (RFC 2183 §2.8).
        (mixed(text("t"), html("h", "signature")), ("t", "", "h")),
        # Only the root of a "related" multipart is shown.
        (related(html("h"), text("more"), image("i")), ("h", "h", "more i")),
        (related(image("i"), html("h")), ("h", "h", "i")),
        (related(html("other"), part("h", "text/html", content_id="r"), root="r"), ("h", "h", "other")),
        (
            related(image("i"), multipart("alternative", text("t"), html("h"), content_id="r"), root="r"),
            ("t", "h", "i"),
        ),
        (related(html("h"), image("i", content_id="r"), root="r"), ("h", "h", "i")),
        (related(text("blank"), html("h"), image("i")), ("h", "h", "i")),
        # Other multipart types are treated as "mixed" (RFC 2046 §5.1.3).
        (multipart("report", text("t"), part("s", "message/delivery-status")), ("t", "", "s")),
        (
            multipart("signed", alternative(text("t"), html("h")), part("s", "application/pgp-signature")),
            ("t", "h", "s"),
        ),
        (mixed(part("a", "text/calendar"), part("b", "text/markdown")), ("", "", "a b")),
        (mixed(), ("", "", "")),
    ],
)
def test_text_html_and_attachments_are_chosen_as_mail_programs_do(tree, expected):
    assert chosen(tree) == expected


LEAVES = st.builds(
    part,
    st.sampled_from(["a", "blank", "a.txt", "blank.txt"]),
    st.sampled_from(["text/plain", "text/html", "image/png", "application/pdf"]),
    st.sampled_from(["", "inline", "attachment"]),
)
TREES = st.recursive(
    LEAVES,
    lambda children: st.builds(
        lambda subtype, some: multipart(subtype, *some),
        st.sampled_from(["mixed", "alternative", "related"]),
        st.lists(children, max_size=4),
    ),
    max_leaves=12,
)


@given(TREES)
def test_no_part_with_text_is_lost_or_repeated(tree):
    all_parts = leaves(tree)
    roles = structure.choose(tree, all_parts, lambda one: not one.stated["name"].startswith("blank"))
    for parts in (roles.text, roles.html, roles.attached):
        assert len(set(parts)) == len(parts)
        assert sorted(parts, key=all_parts.index) == parts
    assert set(roles.attached).isdisjoint([*roles.text, *roles.html])
    gone = set(all_parts) - {*roles.text, *roles.html, *roles.attached}
    assert {one.stated["name"] for one in gone} <= {"blank"}
    assert all(one.content_type in ("text/plain", "text/html") for one in (*roles.text, *roles.html))


@pytest.mark.parametrize("subtype", ["mixed", "alternative", "related"])
def test_choosing_takes_linear_time(subtype):
    def choose(parts):
        structure.choose(multipart(subtype, *parts), parts, lambda _: True)

    assert_linear(choose, [html("a") for _ in range(20_000)])
