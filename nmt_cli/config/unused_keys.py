"""Finds keys that are set without effect, such as options of an optimizer that is not the chosen one."""

from __future__ import annotations

from nmt_cli.config.loader import differing_json_keys
from nmt_cli.config.model import ModelConfig
from nmt_cli.config.schema import Config, TrainingConfig

OPTIONS: dict[str, dict[tuple[str, ...], tuple[str, ...]]] = {
    "model.attention.type": {
        ("local-m", "local-p"): ("model.attention.score", "model.attention.window"),
        ("multihead",): ("model.attention.heads",),
        ("location",): (
            *("model.attention.filters", "model.attention.filter_width"),
            *("model.attention.sharpening", "model.attention.smoothing"),
        ),
        ("none",): ("model.attention.context",),
    },
    "model.decoder.recurrence": {("luong",): ("model.decoder.input_feeding",)},
    "training.optimizer": {
        ("adam", "adamw"): ("training.adam_beta1", "training.adam_beta2"),
        ("adadelta",): ("training.adadelta_rho",),
        ("sgd",): ("training.momentum",),
        ("adam", "adamw", "adadelta"): ("training.epsilon",),
    },
    "training.schedule": {
        ("linear", "cosine"): ("training.final_learning_rate",),
        ("plateau",): ("training.plateau_factor", "training.plateau_patience"),
    },
}
"""For each key with several choices: groups of its values, and the keys that only these values use.
`model.attention.size` is not among them: `nmt init` writes it, and it may stay where another attention is tried."""

DEV_SET_KEYS = ("training.early_stopping_metric", "training.patience", "training.keep_best")
"""Keys that have no effect without a dev set. Others, such as the number of samples that are shown, may stay where the
dev set is taken away."""


def unused_keys(config: Config) -> list[str]:
    """Return a message for each key that is not at its default and has no effect; it says why."""
    values = {
        "model": config.model.model_dump(mode="json"),
        "training": config.training.model_dump(mode="json"),
    }
    defaults = {"model": ModelConfig().model_dump(mode="json"), "training": TrainingConfig().model_dump(mode="json")}
    is_set = set(differing_json_keys(values, defaults))

    def value(key: str) -> object:
        found: object = values
        for name in key.split("."):
            assert isinstance(found, dict)
            found = found[name]
        return found

    lines = [
        f"{key}: does nothing with {choice} {value(choice)}; it is an option of {', '.join(readers)}"
        for choice, options in OPTIONS.items()
        for readers, keys in options.items()
        if value(choice) not in readers
        for key in keys
        if key in is_set
    ]
    is_guided = any(corpus.alignment for corpus in config.data.train)
    guidance = "training.guided_alignment_weight"
    if guidance in is_set and config.training.guided_alignment_weight and not is_guided:
        lines.append(f"{guidance}: does nothing, because no corpus of data.train has an alignment")
    if "model.pretrained.freeze" in is_set and not (config.model.pretrained.source or config.model.pretrained.target):
        lines.append("model.pretrained.freeze: does nothing, because no vectors are given")
    if config.training.init_from and not config.model.pretrained.freeze:
        lines += [
            f"{key}: does nothing with training.init_from, whose embeddings are taken"
            for key in ("model.pretrained.source", "model.pretrained.target")
            if key in is_set
        ]
    attention, dropout = config.model.attention, "model.dropout.annotation"
    reads_none = attention.type == "none" and config.model.decoder.initial_state != "mean"
    if dropout in is_set and reads_none and config.model.dropout.annotation:
        lines.append(f"{dropout}: does nothing with model.attention.type none, which reads no annotations")
    if config.data.dev is None:
        lines += [
            f"{key}: does nothing without data.dev, so no checkpoint is judged"
            for key in DEV_SET_KEYS
            if key in is_set and value(key) is not None
        ]
    return lines
