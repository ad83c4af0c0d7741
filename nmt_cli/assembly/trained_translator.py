"""A translator of trained models, opened as the options of a command say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from nmt_cli.assembly.model_options import PRECISIONS, named_models
from nmt_cli.assembly.normalization import open_normalizer
from nmt_cli.assembly.trained_model import load_model
from nmt_cli.confidence.calibration import Calibration
from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.experiment import Experiment
from nmt_cli.ops import native
from nmt_cli.system.console import command_line, log_once, warn
from nmt_cli.system.distributed import find_device, multiplies_bf16
from nmt_cli.system.errors import InputError
from nmt_cli.system.memory import keep_freed_memory
from nmt_cli.translation.confidence_estimator import ConfidenceEstimator
from nmt_cli.translation.glossary import Glossary
from nmt_cli.translation.shortlist import read_shortlist
from nmt_cli.translation.step_model import TrainedModels
from nmt_cli.translation.terms import TermEncoder, without_unsupported_steps
from nmt_cli.translation.translator import Translator


def open_translator(
    model_dirs: Sequence[Path | Experiment],
    *,
    checkpoint: str = "best",
    device: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    shortlist: Path | None = None,
    glossary: str | None = None,
    confidence: bool = False,
    in_memory: bool = False,
    **options: Any,
) -> Translator:
    """Return a translator with the models' own decoding defaults; `options` that are not None replace them.

    With `confidence` it estimates the probability that its words are right, by the calibration of the first model. With
    `in_memory` the weights are copied, so that the files are no longer needed.

    Raises:
        InputError: there is no such model, checkpoint or device; the models of an ensemble have different tokenizers;
            the shortlist is no shortlist, or one for other tokenizers; the glossary is wrong, or the models have no
            attention to place its terms; the first model has no calibration, and `confidence` needs one.
    """
    terms = None if glossary is None else Glossary.read(glossary)
    experiments = named_models(list(model_dirs))
    loaded = _load_models(experiments, checkpoint, device, precision, threads, shortlist, in_memory=in_memory)
    if terms is not None and not loaded.models.has_attention:
        raise InputError(f"{loaded.models.no_attention_message}, so --glossary is not possible")
    return _translator_in_direction(experiments[0], loaded, terms, confidence=confidence, **options)


def open_directions(experiments: Sequence[Experiment], **loading_options: Any) -> list[Translator]:
    """Return a translator for each direction of a model; all share its weights in memory and no longer need its files.

    A translator estimates confidence if its direction has a calibration. `loading_options` is as
    `ModelOptions.loading_options`.

    Raises:
        InputError: there is no such model, checkpoint or device, or a calibration is damaged.
    """
    loaded = _load_models(experiments[:1], **loading_options, shortlist=None, in_memory=True)
    return [
        _translator_in_direction(one, loaded, None, confidence=one.confidence_path.is_file()) for one in experiments
    ]


class _LoadedModels(NamedTuple):
    """The weights of one model or several, and the directory of the first model's checkpoint."""

    models: TrainedModels
    path: Path


def _load_models(
    experiments: Sequence[Experiment], checkpoint: str, device: str, precision: str, threads: int | None,
    shortlist: Path | None, *, in_memory: bool,
) -> _LoadedModels:  # fmt: skip
    """Return the weights of one model, or of the models of an ensemble, which must have the same tokenizers."""
    if precision not in PRECISIONS:
        raise InputError(f"--precision {precision}: must be one of {', '.join(PRECISIONS)}")
    found_device = _found_device(device, precision)
    keep_freed_memory()
    if threads:
        torch.set_num_threads(threads)
    first = experiments[0]
    configs = [experiment.config for experiment in experiments]  # all are read: each may be wrong
    for config in configs:
        config.data.require_one_direction()
    tokenizers = first.tokenizers
    for other in experiments[1:]:
        if other.fingerprints != first.fingerprints:
            raise InputError(
                f"{other.directory}: has another tokenizer than {first.directory}; an ensemble needs the same one"
            )
    loaded = [load_model(experiment, checkpoint) for experiment in experiments]
    if in_memory:
        loaded = [one.copy_to_memory() for one in loaded]
    words = None
    if shortlist is not None:
        sizes = (tokenizers[0].vocab_size, tokenizers[1].vocab_size)
        words = read_shortlist(shortlist, first.fingerprints, sizes).without(tokenizers[1].banned_ids())
    trained = TrainedModels(
        [model for model, _ in loaded],
        device=found_device,
        precision="fp32" if precision == "auto" else precision,
        shortlist=words,
        prediction_errors=[
            _divergence_message(experiment, path) for experiment, (_, path) in zip(experiments, loaded, strict=True)
        ],
    )
    return _LoadedModels(trained, loaded[0].path)


def _translator_in_direction(
    experiment: Experiment, loaded: _LoadedModels, terms: Glossary | None, *, confidence: bool, **options: Any
) -> Translator:
    """Return a translator with loaded weights for the direction, tokenizers and defaults of an experiment."""
    decoding, tokenizers = DecodingOptions.of(experiment.config.decoding, **options), experiment.tokenizers
    normalizer = without_unsupported_steps(
        open_normalizer(experiment, decoding), loaded.models, decoding, tokenizers[1]
    )
    estimator = _calibrated_estimator(experiment, loaded.path) if confidence else None
    return Translator(
        loaded.models, tokenizers, decoding, normalizer=normalizer.with_glossary(terms),
        terms=TermEncoder(tokenizers, terms), estimator=estimator,
    )  # fmt: skip


def _found_device(device: str, precision: str) -> torch.device:
    """Return the device of a name; warn if the precision or missing kernels make it slow, and refuse int8 on a GPU."""
    found = find_device(device)
    if precision == "int8" and found.type != "cpu":
        raise InputError("--precision int8: runs on the CPU; add --device cpu, or take bf16")
    if precision == "bf16" and not multiplies_bf16(found):
        warn("--precision bf16: is slower than fp32 here, because this hardware has no fast bf16")
    if found.type == "cpu" and not native.is_built():
        log_once(native.why_missing())
    return found


def _calibrated_estimator(experiment: Experiment, loaded: Path) -> ConfidenceEstimator:
    """Return the estimator of confidence by a model's calibration; warn if it was fitted to other weights.

    `loaded` is the directory of the checkpoint in use.

    Raises:
        InputError: the model has no calibration, or a damaged one.
    """
    path = experiment.confidence_path
    fit = command_line("nmt", "evaluate", "--calibrate", "--model", experiment.directory)
    if not path.is_file():
        raise InputError(
            f"{experiment.directory}: has no {path.name}, so it cannot tell how sure it is. This fits it to the dev "
            f"set: {fit}"
        )
    calibration = Calibration.read(path)
    if calibration.origin.model != experiment.fingerprint(loaded.name):
        warn(
            f"{path}: was fitted to other weights ({calibration.origin.checkpoint}) than those in use ({loaded.name}), "
            f"so the confidence may be wrong. To fit it again: {fit} --checkpoint {loaded.name}"
        )
    return ConfidenceEstimator(calibration)


def _divergence_message(experiment: Experiment, path: Path) -> str:
    """Return the message for a checkpoint that predicts probabilities that are not finite, with advice."""
    way_out = experiment.checkpoints.others(path) or "train again with a lower training.learning_rate"
    return f"{path}: the probabilities that this model predicts are not finite, so its training has diverged; {way_out}"
