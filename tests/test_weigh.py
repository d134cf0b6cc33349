"""What counts as a line of code."""

from weigh import code_lines, weigh

SOURCE = '''"""A module,
with a docstring."""

# A comment.
import os  # one line

LIMIT = (
    1,

    2,
)
"""What it is."""


def function():
    """Do it."""
    text = """two
lines"""
    return os.sep + text
'''


def test_comments_docstrings_and_empty_lines_do_not_count():
    assert code_lines(SOURCE) == 1 + 4 + 1 + 3


def test_each_folder_is_a_room_with_all_below_it_and_the_rest_is_the_words(tmp_path):
    for name in ("times.py", "mail/mime.py", "mail/css/tokens.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(SOURCE)
    assert weigh(tmp_path) == {"mail": (18, 2), "words": (9, 1)}
