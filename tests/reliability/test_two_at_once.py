"""Reading from a directory in which a training goes on."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from nmt_cli.assembly.trained_model import load_model
from nmt_cli.experiment import Experiment
from nmt_cli.training.checkpoints import Checkpoints, Index, RankedCheckpoint, Snapshot


def test_a_reader_gets_all_of_one_checkpoint_though_better_ones_replace_it(model: Path, tmp_path: Path):
    """Fails if a checkpoint that has gone between being named and being open is an error."""
    directory = tmp_path / "run"
    shutil.copytree(model, directory, ignore=shutil.ignore_patterns("cache", "logs"))
    experiment = Experiment(directory)
    shapes = {name: parameter.shape for name, parameter in load_model(experiment).model.named_parameters()}
    checkpoints, tokenizers = experiment.checkpoints, experiment.fingerprints
    ended = threading.Event()

    def train() -> None:
        for step in range(101, 151):
            weights = {name: torch.full(shape, float(step)) for name, shape in shapes.items()}
            checkpoints.save(Snapshot(step, weights, {}, {}), tokenizers)
            index = Index(step, (RankedCheckpoint(step, "bleu", step),), (step,))
            checkpoints.write_index(index)
            checkpoints.prune(index)
        ended.set()

    writer = threading.Thread(target=train)
    writer.start()
    seen = []
    while not ended.is_set():
        for name in ("best", "last"):
            loaded = load_model(Experiment(directory), name).model
            values = torch.cat([parameter.flatten() for parameter in loaded.parameters()])
            if values[0] >= 101:
                assert values.min() == values.max()
                seen.append(int(values[0]))
    writer.join()
    assert seen == sorted(seen)
    assert len(set(seen)) > 5


@pytest.mark.parametrize("which", ["--last", "--best"])
def test_an_average_is_of_checkpoints_that_are_there_though_a_training_goes_on(
    nmt, model: Path, tmp_path: Path, monkeypatch, which: str
):
    """The training saves a checkpoint and removes the one before each time when the index has just been read."""
    directory = tmp_path / "run"
    shutil.copytree(model, directory, ignore=shutil.ignore_patterns("cache", "logs"))
    experiment = Experiment(directory)
    shapes = {name: parameter.shape for name, parameter in load_model(experiment).model.named_parameters()}
    read, coming = Checkpoints.index, [101, 102, 103]

    def index(self: Checkpoints) -> Index:
        found = read(self)
        if coming:
            step = coming.pop(0)
            weights = {name: torch.full(shape, float(step)) for name, shape in shapes.items()}
            self.save(Snapshot(step, weights, {}, {}), experiment.fingerprints)
            self.write_index(new := Index(step, (RankedCheckpoint(step, "bleu", step),), (step,)))
            self.prune(new)
        return found

    monkeypatch.setattr(Checkpoints, "index", index)
    result = nmt("average", "--model", directory, which, "1", "--name", "mean")
    assert result.code == 0, result.err
    assert "mean of the checkpoints 103 -> " in result.err
    mean = load_file(directory / "checkpoints/mean/model.safetensors")
    assert all((tensor == 103).all() for tensor in mean.values())
