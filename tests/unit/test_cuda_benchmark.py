"""The benchmark on a GPU, as far as it goes without one."""

import sys

import pytest
import torch

from benchmarks import cuda
from nmt_cli.ops import native

TINY = {"embedding": 4, "hidden": 4, "attention": 4, "vocab": 20, "tokens": 20, "length": 4}


def test_without_a_gpu_it_says_so_in_a_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["cuda"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as end:
        cuda.main()
    assert end.value.code == 2
    assert capsys.readouterr().err == "benchmarks.cuda: there is no CUDA device that torch can use\n"


def test_updates_are_measured():
    with native.path(native.PLAIN):  # as on a GPU
        speed = cuda.measured(torch.device("cpu"), TINY, rounds=1, num_batches=2)
    assert speed.tokens_per_second > speed.updates_per_second > 0
