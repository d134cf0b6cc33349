"""Which declarations of a hostile mail stay, and how they are written."""

from sheets import assert_harmless_style
from tables import rows_of, table
from tmpmaild.mail.budget import Budget
from tmpmaild.mail.declarations import MAX_ATTRIBUTE_CHARACTERS, PROPERTIES, StyleAttributes, style

ROWS = rows_of(__file__)


@table(("text", "kept"), ROWS["what mails are made of stays"])
def test_what_mails_are_made_of_stays(text, kept):
    assert style(text) == (text if kept is None else kept)
    assert_harmless_style(style(text))
    assert style(style(text)) == style(text)


@table("text", ROWS["what could load cover or deceive goes"])
def test_what_could_load_cover_or_deceive_goes(text):
    assert style(text) == ""
    assert style(f"color:red;{text}").removeprefix("color:red") == ""


def test_what_takes_a_thing_out_of_its_place_is_no_property():
    assert PROPERTIES.isdisjoint(
        {"position", "top", "left", "inset", "z-index", "transform", "content", "filter", "all"}
    )


def test_the_attributes_of_a_mail_are_read_up_to_a_bound_and_equal_ones_once():
    budget = Budget(1000)
    styles = StyleAttributes(budget)
    assert styles.written("x:y;" * (MAX_ATTRIBUTE_CHARACTERS // 4) + "color:red") == ""
    assert styles.written("color:red") == "color:red"
    assert not budget.is_spent
    while styles.written(f"width:{len(styles._written)}px"):
        pass
    assert budget.is_spent
    assert 100 < len(styles._written) < 200
    assert styles.written("color:red") == "color:red"
