"""A database for one run: what it deletes at its end, and what it leaves alone."""

import pytest

from tmpmaild.errors import DatabaseError
from tmpmaild.storage.sqlite import opening
from tmpmaild.storage.sqlite.engine import open_storage
from tmpmaild.storage.sqlite.opening import temporary

from .conftest import settings


@pytest.fixture
def path(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    return folder / "mail.db"


async def test_the_database_is_gone_with_its_folder_when_it_was_used(path, clock):
    with temporary(path):
        async with open_storage(settings(path), clock):
            assert len(list(path.parent.iterdir())) > 1
    assert not path.parent.exists()


def test_other_files_in_the_folder_and_so_the_folder_stay(path):
    other = path.with_name("other.txt")
    other.touch()
    with pytest.raises(KeyError), temporary(path):
        raise KeyError
    assert list(path.parent.iterdir()) == [other]


def test_a_database_that_is_there_is_refused_and_stays(path):
    path.write_text("mail")
    with pytest.raises(DatabaseError, match="is there already"), temporary(path):
        pass
    assert path.read_text() == "mail"


def test_a_database_that_another_daemon_has_taken_over_stays(path):
    with temporary(path):
        taken_over = opening.lock(path)
        taken_over.__enter__()
    taken_over.__exit__(None, None, None)
    assert path.exists()


def test_a_folder_that_is_missing_in_the_beginning_is_told_and_in_the_end_is_fine(path):
    with temporary(path):
        path.unlink()
        path.parent.rmdir()
    with pytest.raises(DatabaseError, match="does not exist"), temporary(path):
        pass
