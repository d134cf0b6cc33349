"""A number with its noun, for people: in the log, in what commands print. A module of its own since all rooms count."""


def counted(number: int, noun: str, plural: str = "", *, spec: str = "") -> str:
    """Return such as ``1 inbox``; ``plural`` is the noun with an s if not given, ``spec`` as in format()."""
    return f"{number:{spec}} {noun if number == 1 else plural or noun + 's'}"
