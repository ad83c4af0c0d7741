"""The description of a model by `nmt inspect` and `nmt card`: all keys that change what it computes."""

import pytest

from nmt_cli.config.architecture import architecture
from nmt_cli.config.loader import flat_values
from nmt_cli.config.model import ModelConfig

OF_TRAINING = ("dropout.", "pretrained.", "initialization", "attention.coverage_loss")
LUONG = {"decoder": {"recurrence": "luong"}}
CHANGES = [
    ("embedding_size", 128, {}),
    ("tied_embeddings", "target", {}),
    ("layer_norm", False, {}),
    ("lexical_model", True, {}),
    ("encoder.rnn_type", "lstm", {}),
    ("encoder.bidirectional", False, {}),
    ("encoder.hidden_size", 128, {}),
    ("encoder.num_layers", 2, {}),
    ("encoder.reverse_source", True, {}),
    ("decoder.rnn_type", "lstm", {}),
    ("decoder.recurrence", "luong", {}),
    ("decoder.hidden_size", 128, {}),
    ("decoder.num_layers", 2, {}),
    ("decoder.initial_state", "zero", {}),
    ("decoder.readout", "maxout", {}),
    ("decoder.readout_size", 100, {"tied_embeddings": "none"}),
    ("decoder.input_feeding", False, LUONG),
    ("attention.type", "location", {}),
    *(("attention.size", 128, {"attention": {"type": type_}}) for type_ in ("concat", "location", "multihead")),
    *(("attention.score", score, {"attention": {"type": "local-p"}}) for score in ("additive", "dot", "concat")),
    ("attention.window", 3, {"attention": {"type": "local-m"}}),
    ("attention.heads", 2, {"attention": {"type": "multihead"}}),
    ("attention.filters", 3, {"attention": {"type": "location"}}),
    ("attention.filter_width", 3, {"attention": {"type": "location"}}),
    ("attention.sharpening", 2.0, {"attention": {"type": "location"}}),
    ("attention.smoothing", True, {"attention": {"type": "location"}}),
    ("attention.coverage", "neural", {}),
    ("attention.context", "initial", {"attention": {"type": "none"}}),
]


def of(values, key=None, value=None):
    values = {name: dict(part) if isinstance(part, dict) else part for name, part in values.items()}
    if key is not None:
        section, _, name = key.rpartition(".")
        (values.setdefault(section, {}) if section else values)[name] = value
    return architecture(ModelConfig.model_validate(values))


@pytest.mark.parametrize(("key", "value", "base"), CHANGES)
def test_each_key_that_changes_the_model_changes_what_is_said_of_it(key, value, base):
    assert of(base, key, value) != of(base)


def test_no_key_is_forgotten():
    keys = {key for key in flat_values(ModelConfig().model_dump()) if not key.startswith(OF_TRAINING)}
    assert keys == {key for key, _, _ in CHANGES}


@pytest.mark.parametrize(
    ("values", "part", "line"),
    [
        ({}, "encoder", "bidirectional gru, 1 layer of 512 units in each direction"),
        ({"encoder": {"bidirectional": False, "num_layers": 2}}, "encoder", "gru, 2 layers of 512 units"),
        ({"encoder": {"reverse_source": True, "bidirectional": False}}, "encoder",
         "gru, 1 layer of 512 units, reads from the end"),
        ({}, "decoder", "gru, 1 layer of 512 units, recurrence: conditional"),
        ({"decoder": {"recurrence": "luong", "input_feeding": False}}, "decoder",
         "gru, 1 layer of 512 units, recurrence: luong without input feeding"),
        ({}, "first state", "mean"),
        ({"decoder": {"recurrence": "bahdanau"}}, "first state", "backward"),
        ({"decoder": {"recurrence": "bahdanau"}}, "readout", "maxout, 256 units"),
        (LUONG, "readout", "256 units"),
        ({"attention": {"type": "none"}}, "attention", "none; the source vector enters every step"),
        ({"attention": {"type": "none", "context": "initial"}}, "attention",
         "none; the source vector enters the first state alone"),
        ({"attention": {"coverage": "linguistic"}}, "attention", "additive, 512 units, linguistic coverage"),
        ({"attention": {"type": "general"}}, "attention", "general"),
        ({"attention": {"type": "local-m", "window": 1}}, "attention",
         "local-m, 1 position on either side, score: general"),
        ({"attention": {"type": "local-p", "score": "concat"}}, "attention",
         "local-p, 10 positions on either side, score: concat, 512 units"),
        ({"attention": {"type": "location", "sharpening": 2, "smoothing": True}}, "attention",
         "location, 512 units, 10 filters of width 11, sharpening 2, smoothing"),
        ({"attention": {"type": "multihead"}}, "attention", "multihead, 4 heads, 512 units"),
        ({"lexical_model": True}, "lexical model", "yes"),
    ],
)  # fmt: skip
def test_a_part_is_told_in_one_line(values, part, line):
    assert of(values)[part] == line
