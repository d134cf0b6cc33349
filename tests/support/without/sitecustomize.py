"""If this folder is in its path, Python runs tmpmaild without the effect of the feature specified in ``$WITHOUT``.

The feature is one of ``configuration smtp.auth`` (the key is never set), ``metrics NAME`` (the metric is not served),
``api Kind.member`` (the member is omitted from JSON) and ``commands NAME`` (the command does nothing).
``tests/test_effects.py`` explains the purpose.
"""

import importlib.abc
import importlib.util
import os
import sys

KIND, _, NAME = os.environ.get("WITHOUT", "").partition(" ")


def without_key(module):
    add = module._Settings._add
    module._Settings._add = lambda self, given, origins: add(
        self, {key: value for key, value in given.items() if key != NAME}, origins
    )


def without_metric(module):
    collect = module.Exposition.collect
    module.Exposition.collect = lambda self: (one for one in collect(self) if one.name != NAME.removesuffix("_total"))


def without_member(module):
    encode, member = module.encode, NAME.partition(".")[2]

    def left(value):
        if isinstance(value, dict):
            return {name: left(inner) for name, inner in value.items() if name != member}
        return [left(one) for one in value] if isinstance(value, list) else value

    module.encode = lambda value, **given: encode(left(module.decode(encode(value))), **given)


def without_command(module):
    module.main.commands[NAME].callback = lambda **_: None


PATCHES = {
    "configuration": ("tmpmaild.config.file", without_key),
    "metrics": ("tmpmaild.host.metrics", without_metric),
    "api": ("msgspec.json", without_member),
    "commands": ("tmpmaild.cli.main", without_command),
}


class Finder(importlib.abc.MetaPathFinder):
    """Finds the module to change, and changes it after it has been loaded."""

    def find_spec(self, name, *_):
        if name != PATCHES[KIND][0]:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def changed(module):
            load(module)
            PATCHES[KIND][1](module)

        spec.loader.exec_module = changed
        return spec


if KIND:
    sys.meta_path.insert(0, Finder())
