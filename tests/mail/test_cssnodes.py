"""CSS is parsed into nodes until the budget for its tokens is used up."""

import pytest

from tmpmaild.mail.budget import Budget
from tmpmaild.mail.cssnodes import affordable, declarations_of, mark, nodes_of, separated


@pytest.mark.parametrize(("steps", "read"), [(100, "a:b;c"), (12, "a:b;"), (6, "a:"), (2, "")])
def test_css_is_read_until_a_token_exceeds_the_budget(steps, read):
    budget = Budget(steps + 10)
    assert "a:b;c"[: affordable("a:b;c", budget, 10, 3)] == read
    assert budget.remaining >= 10
    assert budget.is_spent == (read != "a:b;c")


def test_nodes_have_no_comments_and_a_huge_number_has_no_value():
    assert [node.type for node in nodes_of("a/**/b")] == ["ident", "ident"]
    assert [node.value for node in nodes_of("9" * 5000)] == [0]


def test_only_declarations_are_found_among_rules_and_a_list_is_separated_at_its_commas():
    found = declarations_of(nodes_of("color:red;i{top:0}width:1px!important;x"))
    assert [(one.lower_name, one.important) for one in found] == [("color", False), ("width", True)]
    assert [[mark(node) for node in part] for part in separated(nodes_of("*,>+"))] == [["*"], [">", "+"]]
