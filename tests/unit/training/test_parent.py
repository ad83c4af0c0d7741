"""Parameters of a parent with another vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from nmt_cli.system.errors import ModelError
from nmt_cli.training.parent import load_parent


class Tables(nn.Module):
    """The parameters of a model that have a row for each piece."""

    def __init__(self, num_source: int, num_target: int) -> None:
        super().__init__()
        self.source_embedding = nn.Parameter(torch.randn(num_source, 3))
        self.target_embedding = nn.Parameter(torch.randn(num_target, 3))


@pytest.mark.parametrize("num_rows", [2, 3, 5])
def test_a_parent_with_other_rows_than_pieces_is_refused(tmp_path: Path, num_rows: int):
    """Seen to be accepted where it had as many rows as the child."""
    path = tmp_path / "model.safetensors"
    save_file(dict(Tables(4, num_rows).named_parameters()), path)
    with pytest.raises(ModelError, match=r"target_embedding has the shape .*has 4 pieces; the model is damaged"):
        load_parent(Tables(3, 3), path, pieces=("abc", "abx"), parent_pieces=("abcd", "abcd"))


def test_the_rows_of_common_pieces_are_the_parents(tmp_path: Path):
    path, parent, child = tmp_path / "model.safetensors", Tables(4, 4), Tables(3, 3)
    save_file(dict(parent.named_parameters()), path)
    before = child.target_embedding.clone()
    shared = load_parent(child, path, pieces=("dba", "xcy"), parent_pieces=("abcd", "abcd"))
    assert shared == (3, 1, 3, 3)
    assert child.source_embedding.equal(parent.source_embedding[[3, 1, 0]])
    assert child.target_embedding[1].equal(parent.target_embedding[2])
    assert child.target_embedding[[0, 2]].equal(before[[0, 2]])
