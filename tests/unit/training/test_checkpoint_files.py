"""Tensors in files."""

import errno
import os
import shutil
import stat
from pathlib import Path

import pytest
import torch

from nmt_cli.system.files import atomic_directory
from nmt_cli.system.storage import read_tensors, save_tensors
from nmt_cli.training.checkpoints import Checkpoints, Index
from nmt_cli.training.metrics_log import MetricsLog


def test_a_file_may_be_read_by_whom_the_user_lets_read_files(tmp_path):
    """safetensors by itself makes files for their owner alone: a model in a shared directory that nobody can open."""
    (tmp_path / "ordinary").touch()
    save_tensors({"a": torch.arange(3)}, tmp_path / "tensors")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "tensors")}
    assert len(modes) == 1
    assert read_tensors(tmp_path / "tensors")["a"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("number", [3, 7, 21, 30, 33, 12345678])
def test_a_step_and_what_is_left_of_it_go_together(tmp_path, number):
    """Breaks, in some orders of the directory, where a step is removed by way of a name that is looked at later."""
    left = (f".step-{number:08d}.tmp", f".step-{number:08d}.old.tmp")
    for name in (f"step-{number:08d}", *left, "step-00000001", "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.json").write_text("{}")
    Checkpoints(tmp_path).prune(Index(last=1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "step-00000001"]


def test_a_directory_is_never_there_in_part_while_another_takes_its_place(tmp_path, monkeypatch):
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "old").touch()
    removed, real = [], shutil.rmtree

    def rmtree(path, *arguments, **options):
        removed.append((Path(path).name, [file.name for file in whole.iterdir()]))
        real(path, *arguments, **options)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    with atomic_directory(whole) as directory:
        (directory / "new").touch()
    assert removed == [(".whole.old.tmp", ["new"])]
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]


def test_a_kill_between_the_renames_loses_nothing(tmp_path, monkeypatch):
    """The old directory had no name of its own then, and the next attempt removed it first."""
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "old").touch()

    def replaced(content):
        with atomic_directory(whole) as directory:
            (directory / content).touch()
            if content == "failed":
                raise OSError(errno.ENOSPC, "no space left on device")

    def killed(one, other, real=os.replace):
        if Path(other) == whole:
            raise KeyboardInterrupt
        real(one, other)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            replaced("new")
    assert not whole.exists()
    with pytest.raises(OSError, match="no space"):
        replaced("failed")
    assert [path.name for path in whole.iterdir()] == ["old"]
    replaced("newer")
    assert [path.name for path in whole.iterdir()] == ["newer"]
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]


def test_a_checkpoint_that_cannot_be_written_leaves_nothing(tmp_path):
    def fails():
        with atomic_directory(tmp_path / "deep/avg") as directory:
            (directory / "model.safetensors").write_bytes(bytes(99))
            raise OSError(errno.ENOSPC, "no space left on device")

    with pytest.raises(OSError, match="no space"):
        fails()
    assert list((tmp_path / "deep").iterdir()) == []


def test_a_full_disk_is_named_by_the_directory_or_the_log_that_it_is_full_for(tmp_path):
    def is_full(write):
        with pytest.raises(OSError, match="No space left") as found:
            write()
        return found.value.filename

    def fill():
        with atomic_directory(tmp_path / "whole") as directory:
            (directory / "a").symlink_to("/dev/full")
            (directory / "a").write_text("a")

    assert is_full(fill) == str(tmp_path / "whole")
    (tmp_path / "log").symlink_to("/dev/full")
    log = MetricsLog(tmp_path / "log")
    assert is_full(lambda: log.write("train", 1, loss=1.0)) == str(tmp_path / "log")
