"""A trained model: the network of a model directory, with the weights of one of its checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

from nmt_cli.config.model import ModelConfig
from nmt_cli.experiment import Experiment
from nmt_cli.model.build import build_model
from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.system.errors import InputError, ModelError
from nmt_cli.training.checkpoints import MODEL_FILE, load_parameters, read_meta


class LoadedModel(NamedTuple):
    """A model and the directory of the checkpoint that its weights come from."""

    model: Seq2Seq
    path: Path

    def copy_to_memory(self) -> LoadedModel:
        """Copy the weights into memory, and return this model. Before, they lie in the memory-mapped file, and the
        program dies if that file is overwritten."""
        for tensor in (*self.model.parameters(), *self.model.buffers()):
            tensor.data = tensor.data.clone()
        return self


def load_model(experiment: Experiment, checkpoint: str = "best") -> LoadedModel:
    """Return a model with its weights, on the CPU. All weights are of one checkpoint, even during a training.

    Raises:
        InputError: there is no such checkpoint.
        ModelError: the directory is damaged, or its parts do not belong together.
    """
    config, checkpoints = experiment.config.model, experiment.checkpoints
    return checkpoints.retry_read(lambda: _load_checkpoint(experiment, config, checkpoints.resolve(checkpoint)))


def _load_checkpoint(experiment: Experiment, config: ModelConfig, path: Path) -> LoadedModel:
    """Load the weights of a checkpoint; if this fails, the error names the other checkpoints."""
    try:
        return LoadedModel(_load(experiment, config, path), path)
    except InputError as error:
        if others := experiment.checkpoints.others(path):
            raise ModelError(f"{error}; {others}") from error
        raise


def _load(experiment: Experiment, config: ModelConfig, path: Path) -> Seq2Seq:
    """Return the model with the weights of a checkpoint, which stay in the mapped file."""
    read_meta(path, experiment.fingerprints)
    source, target = experiment.tokenizers
    with torch.device("meta"):  # sizes come from a file: no memory is taken before the weights are seen to fit
        model = build_model(config, source_vocab_size=source.vocab_size, target_vocab_size=target.vocab_size)
    load_parameters(model, path / MODEL_FILE)
    return model.requires_grad_(False)
