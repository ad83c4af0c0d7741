"""New files that appear together or not at all, and that replace nothing."""

import errno
import gzip
import os
import stat

import pytest

from nmt_cli.data.output import check_prefix, open_new_outputs
from nmt_cli.system.errors import InputError
from nmt_cli.system.files import removed_on_failure


@pytest.fixture(params=("with hard links", "without hard links"))
def names(tmp_path, monkeypatch, request):
    """Three names of new files, on a file system that knows hard links, or does not."""
    if request.param == "without hard links":

        def refuse(*_):
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr(os, "link", refuse)
    return [tmp_path / name for name in ("report", "b.gz", "a")]


def there(paths):
    return sorted(path.name for path in paths[0].parent.iterdir())


def test_all_files_appear_when_the_block_ends_and_none_before(names):
    with open_new_outputs(names) as streams:
        for number, stream in enumerate(streams):
            stream.write(b"%d\n" % number)
        assert not any(path.exists() for path in names)
    assert there(names) == sorted(path.name for path in names)
    assert [names[0].read_bytes(), gzip.decompress(names[1].read_bytes()), names[2].read_bytes()] == [
        b"0\n", b"1\n", b"2\n",
    ]  # fmt: skip
    usual = names[0].with_name("usual")
    usual.touch()
    assert {stat.S_IMODE(path.stat().st_mode) for path in names} == {stat.S_IMODE(usual.stat().st_mode)}
    assert {path.stat().st_nlink for path in names} == {1}


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_fails_leaves_nothing(names, failure):
    with pytest.raises(failure), open_new_outputs(names):
        raise failure
    assert there(names) == []


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("is_link", [False, True])
def test_a_file_that_appears_meanwhile_stays_and_is_the_only_one(names, which, is_link):
    taken = names[which]
    outputs = open_new_outputs(names)
    with (
        pytest.raises(InputError, match="another program has made this file meanwhile, and it is not") as failed,
        outputs,
    ):
        taken.symlink_to("nowhere") if is_link else taken.write_bytes(b"theirs")
    assert str(failed.value).startswith(str(taken))
    assert there(names) == [taken.name]
    assert os.readlink(taken) == "nowhere" if is_link else taken.read_bytes() == b"theirs"


def test_what_is_there_already_is_refused_at_once(names):
    names[1].write_bytes(b"theirs")
    names[2].symlink_to("nowhere")
    with (
        pytest.raises(InputError, match=r"b\.gz, .*/a: exists already and is not overwritten"),
        open_new_outputs(names),
    ):
        raise AssertionError
    assert there(names) == ["a", "b.gz"]


def test_a_directory_that_takes_no_files_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no/a: there is no directory .*no; make it first"):
        open_new_outputs([tmp_path / "no" / "a"]).__enter__()
    with pytest.raises(InputError, match="cannot be written: file name too long"):
        open_new_outputs([tmp_path / ("a" * 300)]).__enter__()


def test_a_file_that_was_replaced_or_changed_is_not_removed(tmp_path):
    made = [tmp_path / name for name in "abcd"]
    for path in made:
        path.write_text("ours")

    def others_come_between():
        (tmp_path / "new").write_text("theirs")
        os.replace(tmp_path / "new", made[1])
        made[2].write_text("changed")
        made[3].unlink()
        raise ValueError

    with pytest.raises(ValueError), removed_on_failure(made):
        others_come_between()
    assert there(made) == ["b", "c"]


@pytest.mark.parametrize("prefix", ["", "-", "no/", "."])
def test_a_prefix_must_begin_a_name(prefix):
    with pytest.raises(InputError, match=r"must be the beginning of file names, such as -o clean for clean\.en"):
        check_prefix(prefix, example="-o clean for clean.en")
