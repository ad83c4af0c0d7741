"""A directory that is whole or absent, and never replaces anything."""

import errno
import os
import stat
from pathlib import Path

import pytest

from nmt_cli.export.new_directory import new_directory
from nmt_cli.system.errors import InputError


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


def test_an_empty_one_keeps_its_mode_and_who_stands_in_it_sees_the_files(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty").chmod(0o2750)
    monkeypatch.chdir(tmp_path / "empty")
    with new_directory(Path()) as unfinished:
        (unfinished / "a").write_text("x")
        (unfinished / "b").mkdir()
    assert sorted(os.listdir()) == ["a", "b"]
    assert stat.S_IMODE((tmp_path / "empty").stat().st_mode) == 0o2750
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_one_on_which_something_is_mounted_is_filled_from_within(tmp_path, monkeypatch):
    """Files cannot be moved there from beside it: it is another file system, such as a volume of a container."""
    (tmp_path / "volume").mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: path == tmp_path / "volume")
    with new_directory(tmp_path / "volume") as unfinished:
        assert unfinished.parent == tmp_path / "volume"
        (unfinished / "a").write_text("x")
    assert [path.name for path in (tmp_path / "volume").iterdir()] == ["a"]


def test_an_empty_one_is_empty_again_if_it_cannot_be_filled(tmp_path, monkeypatch):
    def refuse(source, target, rename=os.rename):
        if str(target).endswith("empty/b"):
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(source, target)

    def write(directory):
        (directory / "a").write_text("x")
        (directory / "b").write_text("x")

    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(InputError, match="empty: cannot be filled: invalid cross-device link"):
        fill(tmp_path / "empty", write)
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


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
