"""One-time passwords and verification codes in a mail, found without any model; links are found in ``links.py``."""

from tmpmaild.findings.codes.finder import find

__all__ = ["find"]
