"""For all tests: one thread. Tiny models gain nothing from more, and lose much where another program has the core."""

import os

import pytest
import torch

os.environ["OMP_NUM_THREADS"] = "1"  # for the processes that tests start


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)
