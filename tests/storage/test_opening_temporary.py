"""A temporary database: the files that are deleted when it is closed, and the files that are not touched."""

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


async def test_the_database_is_deleted_with_its_folder(path, clock):
    with temporary(path):
        async with open_storage(settings(path), clock):
            assert len(list(path.parent.iterdir())) > 1
    assert not path.parent.exists()


def test_other_files_in_the_folder_and_the_folder_are_kept(path):
    other = path.with_name("other.txt")
    other.touch()
    with pytest.raises(KeyError), temporary(path):
        raise KeyError
    assert list(path.parent.iterdir()) == [other]


def test_an_existing_database_is_refused_and_kept(path):
    path.write_text("mail")
    with pytest.raises(DatabaseError, match="already exists"), temporary(path):
        pass
    assert path.read_text() == "mail"


def test_a_database_taken_over_by_a_different_daemon_is_kept(path):
    with temporary(path):
        taken_over = opening.lock(path)
        taken_over.__enter__()
    taken_over.__exit__(None, None, None)
    assert path.exists()


def test_a_missing_folder_is_an_error_at_the_start_and_ignored_at_the_end(path):
    with temporary(path):
        path.unlink()
        path.parent.rmdir()
    with pytest.raises(DatabaseError, match="does not exist"), temporary(path):
        pass
