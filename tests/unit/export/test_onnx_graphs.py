"""The exported graphs compute what the torch model computes, with every attention and every recurrence."""

import numpy as np
import pytest
import torch
from unit.export.onnx_models import encoded, sessions, step, torch_steps
from unit.model.tiny_models import (
    EVERY_OPTION,
    VOCAB_SIZE,
    every_attention,
    every_kind,
    name_of,
    random_ids,
    tiny_config,
    tiny_model,
    valid_of,
)

from nmt_cli.config.model import AttentionConfig, DecoderConfig, EncoderConfig
from nmt_cli.export.onnx.graphs import Graphs
from nmt_cli.model.build import build_model, initialize
from nmt_cli.system.errors import InputError

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
LENGTHS, ROWS, STEPS = [5, 1, 3], 2, 4


def check(kind, **options):
    model = tiny_model(kind, dtype=torch.float32, **options)
    encoder, decoder = sessions(model)
    source_BS, valid_BS = random_ids((3, 5)), valid_of(LENGTHS)
    inputs_NT = random_ids((3 * ROWS, STEPS), seed=2)
    carried = encoded(encoder, source_BS.numpy(), LENGTHS)
    # In its first step every row continues the only one of its source.
    parents = np.repeat(np.arange(3), ROWS)
    truth = torch_steps(model, source_BS, valid_BS, inputs_NT, ROWS)
    for number, (log_probs_NV, weights_NS) in enumerate(truth):
        found, carried = step(decoder, carried, inputs_NT[:, number].numpy(), parents, count=3)
        np.testing.assert_allclose(found["log_probs"], log_probs_NV, atol=1e-4, rtol=1e-4)
        if model.has_attention:
            np.testing.assert_allclose(found["weights"], weights_NS, atol=1e-4)
        best = -np.sort(-log_probs_NV, axis=1)[:, :3]
        np.testing.assert_allclose(found["best_log_probs"], best, atol=1e-4, rtol=1e-4)
        at_best = np.take_along_axis(log_probs_NV, found["best_pieces"].astype(np.int64), 1)
        np.testing.assert_allclose(at_best, best, atol=1e-4, rtol=1e-4)
        parents = np.arange(3 * ROWS)
    assert ("weights" in found) == model.has_attention


@pytest.mark.parametrize("kind", every_attention(), ids=name_of)
def test_every_attention_steps_like_torch(kind):
    check(kind)


@pytest.mark.soak
@pytest.mark.parametrize("kind", every_kind())
def test_every_recurrence_with_every_attention_steps_like_torch(kind):
    check(kind, num_layers=2)


@pytest.mark.parametrize("name", EVERY_OPTION)
def test_every_option_of_the_model_steps_like_torch(name):
    recurrence = "luong" if name in ("no input feeding", "source reversed") else "conditional"
    check((recurrence, "additive", "lstm" if "zero" in name else "gru", True), **EVERY_OPTION[name])


def test_an_attention_without_equations_in_onnx_is_refused_by_its_name():
    class NewAttention(torch.nn.Module):
        pass

    model = tiny_model(("conditional", "additive", "gru", True))
    model.decoder.recurrence.attention = NewAttention()
    with pytest.raises(
        InputError,
        match=r"^--format onnx: has no equations for the attention NewAttention; use nmt translate or nmt serve$",
    ):
        Graphs(model, banned_ids=())


@pytest.mark.parametrize("recurrence", ["bahdanau", "conditional", "luong"])
def test_int8_is_near_float32_and_a_row_does_not_depend_on_its_neighbours(recurrence):
    """Sizes that are quantised; torch's own int8 is as far away."""
    kind = (recurrence, "additive", "gru", True)
    config = tiny_config(kind).model_copy(
        update={
            "embedding_size": 64,
            "encoder": EncoderConfig(hidden_size=64),
            "decoder": DecoderConfig(hidden_size=64, recurrence=recurrence),
            "attention": AttentionConfig(size=64),
        }
    )
    model = build_model(config, source_vocab_size=VOCAB_SIZE, target_vocab_size=VOCAB_SIZE)
    initialize(model, seed=1)
    found = {}
    source_BS = random_ids((3, 5)).numpy()
    for quantised in (False, True):
        encoder, decoder = sessions(model, quantised=quantised)
        carried = encoded(encoder, source_BS, LENGTHS)
        for pieces in ([1, 4, 5], [7, 3, 9]):
            step_, carried = step(decoder, carried, pieces, [0, 1, 2])
        found[quantised] = step_["log_probs"][:, 3:]
        alone = encoded(encoder, source_BS[:1, : LENGTHS[0]], LENGTHS[:1])
        for piece in (1, 7):
            step_, alone = step(decoder, alone, [piece], [0])
        np.testing.assert_allclose(step_["log_probs"][0, 3:], found[quantised][0], atol=1e-5)
    assert 1e-6 < np.abs(found[True] - found[False]).max() < 0.02
