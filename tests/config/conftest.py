"""Fixtures for the configuration tests."""

import pytest

from tmpmaild.config import file as configfile
from tmpmaild.config.file import load
from tmpmaild.errors import ConfigError


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """Hide the configuration files of the machine that runs the tests."""
    monkeypatch.setattr(configfile, "IN_CURRENT_FOLDER", tmp_path / "here.toml")
    monkeypatch.setattr(configfile, "IN_ETC", tmp_path / "etc.toml")


@pytest.fixture
def written(tmp_path):
    def write(text, name="given.toml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def mistakes(path, environ=()):
    with pytest.raises(ConfigError) as caught:
        load(path, dict(environ))
    assert all("\n" not in mistake for mistake in caught.value.mistakes)
    return list(caught.value.mistakes)


def in_environment(**variables):
    return load(None, {f"TMPMAILD_{name}": value for name, value in variables.items()})
