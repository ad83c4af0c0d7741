"""Tensors in files."""

import stat

import torch

from nmt_cli.checkpoint import read_tensors, save_tensors


def test_a_file_may_be_read_by_whom_the_user_lets_read_files(tmp_path):
    """safetensors by itself makes files for their owner alone: a model in a shared directory that nobody can open."""
    (tmp_path / "ordinary").touch()
    save_tensors({"a": torch.arange(3)}, tmp_path / "tensors")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("ordinary", "tensors")}
    assert len(modes) == 1
    assert read_tensors(tmp_path / "tensors")["a"].tolist() == [0, 1, 2]
