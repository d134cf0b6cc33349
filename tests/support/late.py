"""Modules that are loaded when a test first asks for something in them: each worker collects all tests and runs few."""

import importlib


class Late:
    """Stands for a module that takes long to load and that few tests need; what is in it can be read only."""

    __slots__ = ("_name",)

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name.startswith("_"):  # pytest looks for marks of its own in all that a module of tests has
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)
