"""A process among others."""

from __future__ import annotations

import pytest
import torch

from nmt_cli.system.distributed import DistributedWorld
from nmt_cli.system.errors import InputError


@pytest.mark.parametrize("number", [None, "two"])
def test_a_process_that_does_not_know_which_gpu_is_its_own_says_so(monkeypatch, number):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if number:
        monkeypatch.setenv("LOCAL_RANK", number)
    world = object.__new__(DistributedWorld)  # without the others, whom it need not ask
    world.size = 4
    with pytest.raises(InputError) as caught:
        world.take_device("auto")
    assert str(caught.value) == (
        "WORLD_SIZE is 4, but LOCAL_RANK has no number, so it is not clear which GPU this process takes; start the "
        "processes with torchrun, or set training.device to cpu"
    )


def test_processes_of_one_machine_refuse_to_share_a_gpu(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    world = object.__new__(DistributedWorld)
    world.size = 2
    with pytest.raises(InputError) as caught:
        world.take_device("cuda:0")
    assert str(caught.value) == (
        "training.device: cuda:0 is one GPU, and each process of this machine needs its own; set it to cuda"
    )
