"""Keys that are set and would never be read are named, and no others."""

from pathlib import Path

import pytest

from nmt_cli.config.loader import load_config
from nmt_cli.config.unused_keys import OPTIONS, unused_keys

GOOD = """
name: x
model_dir: x
data: {source_lang: en, target_lang: de, train: [{source: a, target: b}], dev: {source: c, target: d}}
"""
OTHER = {
    "model.attention.score": "dot", "model.attention.context": "initial", "model.attention.smoothing": "true",
    "model.attention.filter_width": "7", "model.decoder.input_feeding": "false", "model.attention.window": "3",
    "model.attention.heads": "2", "model.attention.filters": "3", "training.plateau_patience": "3",
}  # fmt: skip
"""Values that are not the default; for the other keys 0.0005 is none."""
CASES = [
    (choice, readers, key) for choice, options in OPTIONS.items() for readers, keys in options.items() for key in keys
]


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(GOOD, encoding="utf-8")
    return lambda *overrides: unused_keys(load_config(path, overrides))


@pytest.mark.parametrize(("choice", "readers", "key"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_an_option_is_told_of_unless_its_choice_is_made(lines, choice, readers, key):
    setting = f"{key}={OTHER.get(key, '0.0005')}"
    lexical = "model.lexical_model=false"
    for reader in readers:
        assert lines(lexical, f"{choice}={reader}", setting) == []
    outside = {"model.attention.type": "dot", "model.decoder.recurrence": "bahdanau", "training.schedule": "constant"}
    other = outside.get(choice, "sgd" if "sgd" not in readers else "adadelta")
    expected = f"{key}: does nothing with {choice} {other}; it is an option of {', '.join(readers)}"
    assert lines(lexical, f"{choice}={other}", setting) == [expected]


def test_a_weight_of_alignments_needs_alignments(lines):
    weight = "training.guided_alignment_weight=0.9"
    assert lines(weight) == [
        "training.guided_alignment_weight: does nothing, because no corpus of data.train has an alignment"
    ]
    assert lines(weight, "data.train.0.alignment=links") == []
    assert lines("training.guided_alignment_weight=0") == []


def test_vectors_that_are_not_given_cannot_be_frozen(lines):
    freeze = "model.pretrained.freeze=true"
    assert lines(freeze) == ["model.pretrained.freeze: does nothing, because no vectors are given"]
    assert lines(freeze, "model.pretrained.target=vectors") == []


def test_vectors_do_nothing_where_another_run_has_the_embeddings(lines):
    setting = ("training.init_from=other", "model.pretrained.source=vectors")
    told = "model.pretrained.source: does nothing with training.init_from, whose embeddings are taken"
    assert lines(*setting) == [told]
    assert lines(*setting, "model.pretrained.freeze=true") == []


def test_nothing_is_judged_without_a_dev_set(lines):
    settings = ("training.patience=3", "training.early_stopping_metric=loss", "training.keep_best=2")
    keys = ("training.early_stopping_metric", "training.patience", "training.keep_best")
    told = [f"{key}: does nothing without data.dev, so no checkpoint is judged" for key in keys]
    assert lines("data.dev=null", *settings) == told
    assert lines("data.dev=null", "training.patience=null", "training.validation_freq=9") == []
    assert lines(*settings) == []


@pytest.mark.parametrize("path", sorted(Path("configs").rglob("*.yaml")), ids=str)
def test_no_configuration_that_we_ship_sets_a_key_for_nothing(path):
    assert unused_keys(load_config(path, ())) == []


def test_dropout_of_states_that_nobody_reads_is_told(lines):
    told = ["model.dropout.annotation: does nothing with model.attention.type none, which reads no annotations"]
    none, dropout = ("model.attention.type=none", "model.lexical_model=false"), "model.dropout.annotation=0.3"
    assert lines(*none, dropout) == told
    assert lines(*none, dropout, "model.attention.context=initial") == told
    assert lines(*none) == lines(*none, "model.dropout.annotation=0.0") == []
    assert lines(*none, dropout, "model.decoder.initial_state=mean") == []
    assert lines(dropout) == []
