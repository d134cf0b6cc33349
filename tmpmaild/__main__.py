"""``python -m tmpmaild`` is the same as ``tmpmaild``."""

from tmpmaild.cli import main

main(prog_name="tmpmaild")
