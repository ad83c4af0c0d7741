"""The model with which a training begins: drawn at random, with pretrained vectors, or with another run's weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from nmt_cli.assembly.training_inputs import vectors_needed
from nmt_cli.data.embeddings import load_embeddings
from nmt_cli.experiment import Experiment
from nmt_cli.model.build import build_model, freeze_rows, initialize
from nmt_cli.system.console import log
from nmt_cli.training.candidates import log_frequencies
from nmt_cli.training.checkpoints import MODEL_FILE, load_parameters
from nmt_cli.training.parent import load_parent

if TYPE_CHECKING:
    from torch import Tensor, nn

    from nmt_cli.config.schema import Config
    from nmt_cli.model.seq2seq import Seq2Seq


def first_model(
    experiment: Experiment, config: Config, target_counts: Tensor | None = None
) -> tuple[Seq2Seq, dict[str, list[list[int]]]]:
    """Return the model with its initial parameters, and the frozen rows of its embeddings.

    The parameters are drawn at random, or are pretrained vectors, or those of another run. With `target_counts`, which
    a sampled softmax has, the output bias begins with the log frequencies of the pieces. The frozen rows are piece ids,
    by path of the file of pretrained vectors: one list per side that uses the file. They are empty if none is frozen.
    """
    source, target = experiment.tokenizers
    model = build_model(config.model, source_vocab_size=source.vocab_size, target_vocab_size=target.vocab_size)
    initialize(model, seed=config.seed, scheme=config.model.initialization)
    if target_counts is not None:
        with torch.no_grad():
            model.output_bias.copy_(log_frequencies(target_counts, config.training.label_smoothing))
    found = {}
    for side, path in zip(("source", "target"), vectors_needed(experiment, config), strict=True):
        if path:
            tokenizer, table = (source if side == "source" else target), _embedding(model, side)
            pieces = tokenizer.pieces(range(tokenizer.vocab_size))
            found[side] = path, load_embeddings(Path(path), pieces, table)
            log(f"{path}: embeddings for {len(found[side][1]):,} of {len(pieces):,} pieces")
    if config.training.init_from and not experiment.has_begun:
        _load_weights(model, Experiment(Path(config.training.init_from)), experiment)
    frozen: dict[str, list[list[int]]] = {}
    if config.model.pretrained.freeze:
        for side, (path, rows) in found.items():
            freeze_rows(_embedding(model, side), rows)
            frozen.setdefault(path, []).append(rows)
    return model, frozen


def _load_weights(model: Seq2Seq, origin: Experiment, experiment: Experiment) -> None:
    """Copy the parameters of the run `origin` into the model; if the vocabularies differ, log how many pieces match."""
    path = origin.checkpoints.resolve("best") / MODEL_FILE
    if origin.fingerprints == experiment.fingerprints:
        load_parameters(model, path)
        log(f"weights: from {origin.directory}, {path.parent.name}")
        return
    pieces, parent_pieces = (
        [tokenizer.pieces(range(tokenizer.vocab_size)) for tokenizer in run.tokenizers] for run in (experiment, origin)
    )
    shared = load_parent(model, path, pieces=pieces, parent_pieces=parent_pieces)
    log(
        f"weights: from {origin.directory}, which has another vocabulary. It has {shared.source:,} of the "
        f"{shared.num_source_pieces:,} source pieces and {shared.target:,} of the {shared.num_target_pieces:,} target "
        "pieces; the embeddings of the others begin with random values"
    )


def _embedding(model: Seq2Seq, side: str) -> nn.Parameter:
    """Return the table of embeddings of one side (pieces, embedding size)."""
    return model.source_embedding if side == "source" else model.target_embedding
