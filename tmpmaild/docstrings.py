"""Reads the docstrings that descriptions are generated from, even if Python has removed them (``-OO``)."""

import ast
import inspect
import textwrap
from collections.abc import Callable


def docstring(described: Callable[..., object]) -> str:
    """Return the docstring of a function or class without indentation; "" if the docstring or the source is missing."""
    original = inspect.unwrap(described)
    if original.__doc__ is not None:
        return inspect.cleandoc(original.__doc__)
    try:
        source = textwrap.dedent(inspect.getsource(original))
    except OSError:
        return ""
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    return ast.get_docstring(definition) or ""
