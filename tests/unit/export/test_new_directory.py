"""A directory that is whole or absent, and never replaces anything."""

import pytest

from nmt_cli.errors import InputError
from nmt_cli.files import new_directory


def fill(path, write):
    with new_directory(path) as unfinished:
        write(unfinished)


def test_it_is_whole(tmp_path):
    with new_directory(tmp_path / "above/new") as unfinished:
        (unfinished / "a").write_text("x")
        assert not (tmp_path / "above/new").exists()
    assert [path.name for path in (tmp_path / "above").iterdir()] == ["new"]
    assert (tmp_path / "above/new/a").read_text() == "x"


def test_it_takes_the_place_of_an_empty_one(tmp_path):
    (tmp_path / "empty").mkdir()
    with new_directory(tmp_path / "empty") as unfinished:
        (unfinished / "a").write_text("x")
    assert (tmp_path / "empty/a").read_text() == "x"


def test_a_failure_leaves_nothing(tmp_path):
    def fail(directory):
        (directory / "a").write_text("x")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fill(tmp_path / "new", fail)
    assert list(tmp_path.iterdir()) == []


def test_what_somebody_else_writes_meanwhile_is_kept(tmp_path):
    def somebody_else(_):
        (tmp_path / "new").mkdir()
        (tmp_path / "new/theirs").write_text("kept")

    with pytest.raises(InputError, match="new: exists already and is not replaced"):
        fill(tmp_path / "new", somebody_else)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert (tmp_path / "new/theirs").read_text() == "kept"


@pytest.mark.parametrize("kind", ["file", "link", "full"])
def test_what_is_there_is_kept(tmp_path, kind):
    path = tmp_path / "there"
    (tmp_path / "other").mkdir()
    if kind == "file":
        path.write_text("kept")
    elif kind == "link":
        path.symlink_to(tmp_path / "other")
    else:
        path.mkdir()
        (path / "mine").write_text("kept")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="there: exists already and is not replaced; give a directory that is new or"):
        with new_directory(path):
            pass
    assert sorted(tmp_path.rglob("*")) == before
