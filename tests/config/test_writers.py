"""The check that no other user could have written a configuration file found in the current folder."""

import grp
import os
import pwd

import pytest

from tmpmaild.config import file as configfile
from tmpmaild.config.writers import others_who_write
from tmpmaild.errors import ConfigError

SOMEBODY = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of files")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the current folder, which contains a configuration file that no other user can write to."""
    (here := tmp_path / "here").mkdir(mode=0o755)
    (here / "tmpmaild.toml").write_text("")
    (here / "tmpmaild.toml").chmod(0o644)
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    monkeypatch.chdir(here)
    return here


def link_to(folder, target):
    (folder / "tmpmaild.toml").unlink()
    (folder / "tmpmaild.toml").symlink_to(target)


def give_away(path):
    os.chown(path, SOMEBODY, SOMEBODY, follow_symlinks=False)


def linked_into_a_folder_of_everybodys(folder):
    target = folder.parent / "elsewhere"
    (target / "x.toml").write_text("")
    target.chmod(0o1777)
    link_to(folder, target / "x.toml")


def linked_to_a_file_of_somebodys(folder):
    target = folder.parent / "elsewhere/x.toml"
    target.write_text("")
    give_away(target)
    link_to(folder, target)


def somebodys_link(folder):
    target = folder.parent / "elsewhere/x.toml"
    target.write_text("")
    link_to(folder, target)
    give_away(folder / "tmpmaild.toml")


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda _: None, ""),
        (lambda folder: (folder / "tmpmaild.toml").chmod(0o600), ""),
        (lambda folder: (folder / "tmpmaild.toml").chmod(0o646), "tmpmaild.toml: everyone may write it"),
        (lambda folder: folder.chmod(0o757), "here: everyone may write here"),
        (lambda folder: folder.chmod(0o1777), "here: everyone may write here"),
        (linked_into_a_folder_of_everybodys, "elsewhere: everyone may write here"),
        pytest.param(lambda folder: give_away(folder / "tmpmaild.toml"), "belongs to user 54321", marks=as_root),
        pytest.param(give_away, "here: belongs to user 54321", marks=as_root),
        pytest.param(linked_to_a_file_of_somebodys, "elsewhere/x.toml: belongs to user 54321", marks=as_root),
        pytest.param(somebodys_link, "tmpmaild.toml: belongs to user 54321", marks=as_root),
    ],
    ids=range(10),
)
def test_everyone_who_may_write_or_replace_the_file_is_considered(folder, prepare, reason):
    prepare(folder)
    found = others_who_write(configfile.IN_CURRENT_FOLDER)
    assert reason in found
    assert bool(found) == bool(reason)


@as_root
@pytest.mark.parametrize(
    ("gid", "group", "is_own"),
    [
        (0, None, True),
        (SOMEBODY, None, False),
        (SOMEBODY, ("root", []), True),
        (SOMEBODY, ("root", ["root"]), True),
        (SOMEBODY, ("root", ["root", "other"]), False),
        (SOMEBODY, ("staff", []), False),
    ],
)
def test_a_group_may_write_if_only_root_or_the_user_is_in_it(folder, monkeypatch, gid, group, is_own):
    def found(_gid):
        if group is None:
            raise KeyError
        return grp.struct_group((group[0], "x", SOMEBODY, group[1]))

    user = pwd.struct_passwd(("root", "x", 0, SOMEBODY, "", "/root", "/bin/sh"))
    monkeypatch.setattr(grp, "getgrgid", found)
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: user)
    for place in (folder / "tmpmaild.toml", folder):
        os.chown(place, -1, gid)
        place.chmod(0o775)
        assert (others_who_write(configfile.IN_CURRENT_FOLDER) == "") == is_own
        place.chmod(0o755)


def test_a_configuration_that_others_may_write_is_refused_unless_it_was_specified(folder):
    (folder / "tmpmaild.toml").write_text("domains = ['mine.example']")
    assert configfile.load(None, {}).domains == ("mine.example",)
    folder.chmod(0o777)
    with pytest.raises(ConfigError, match=r"everyone may write here; another user .* --config \./tmpmaild\.toml$"):
        configfile.load(None, {})
    named = configfile.IN_CURRENT_FOLDER
    assert configfile.load(named, {}) == configfile.load(None, {"TMPMAILD_CONFIG": str(named)})
    link_to(folder, "nowhere")
    with pytest.raises(ConfigError, match="cannot be inspected: No such file"):
        configfile.load(None, {})


def test_etc_is_used_if_the_current_folder_cannot_be_entered(folder, monkeypatch):
    (etc := folder.parent / "etc.toml").write_text("")
    monkeypatch.setattr(configfile, "IN_ETC", etc)
    assert (configfile.find(None, {}), configfile.current_folder_obstacle()) == (configfile.IN_CURRENT_FOLDER, "")
    (folder / "tmpmaild.toml").unlink()
    folder.rmdir()
    assert configfile.find(None, {}) == etc
    assert (
        "the current directory: No such file or directory; tmpmaild.toml is not" in configfile.current_folder_obstacle()
    )
