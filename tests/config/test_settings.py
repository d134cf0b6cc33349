"""The example file and the documentation are generated from the settings."""

import re
import tomllib
from pathlib import Path

import msgspec
import pytest

import configuration
from tests.config.conftest import mistakes
from tmpmaild.config.file import load
from tmpmaild.config.settings import Config, validators_by_key

pytestmark = pytest.mark.usefixtures("nowhere")  # ignore this machine's files

ROOT = Path(__file__).parents[2]


def uncommented():
    text = (ROOT / "config.example.toml").read_text("utf-8")
    return re.sub(r"^#(?=[a-z_]+ = )", "", text, flags=re.MULTILINE)


def test_the_example_shows_every_key_commented_out_with_its_default(written):
    assert load(written(uncommented()), {}) == Config()
    tree = tomllib.loads(uncommented())
    shown = {f"{section}.{key}" for section, members in tree.items() if section != "domains" for key in members}
    assert shown | {"domains"} == set(validators_by_key())
    untouched = tomllib.loads((ROOT / "config.example.toml").read_text("utf-8"))
    assert not any(untouched.values())


def test_the_example_and_the_documentation_are_generated_from_the_settings(monkeypatch):
    assert configuration.EXAMPLE.read_text("utf-8") == configuration.example(), "run python tools/stable.py"
    text = configuration.PAGE.read_text("utf-8")
    assert text == configuration.page(text), "run python tools/stable.py"
    monkeypatch.setattr(configuration, "_texts", lambda _struct: {})
    with pytest.raises(ValueError, match=r"domains has no description below it in tmpmaild/config/settings\.py"):
        configuration.example()


def test_the_documentation_has_every_key_with_its_default():
    text = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    rows = dict(re.findall(r"^- `([a-z_.]+)` \(`(.+?)`\): ", text, flags=re.MULTILINE))
    assert set(rows) == set(validators_by_key())
    tree = msgspec.to_builtins(Config())
    for key, default in rows.items():
        section, _, name = key.rpartition(".")
        value = (tree[section] if section else tree)[name]
        written_value = tomllib.loads(f"x = {default}")["x"]
        assert written_value == (list(value) if isinstance(value, tuple) else value), key


def test_the_documented_mistakes_have_the_real_messages(written):
    text = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    shown = re.search(r"```text\n(.*?)```", text, flags=re.DOTALL)[1].replace("/etc/tmpmaild/config.toml", "FILE")
    path = written("[smtp]\nmax_message_bytes = '10M'\n[http]\nhostname = 'a'")
    found = mistakes(path, {"TMPMAILD_SMTP__AUTH": "yes"})
    assert shown.splitlines() == [mistake.replace(str(path), "FILE") for mistake in found]
