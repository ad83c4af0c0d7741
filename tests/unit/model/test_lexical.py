"""The lexical model against its equations, in teacher forcing, step by step and with rows that share a source."""

import numpy as np
import pytest
import torch
from checks import (
    LENGTHS,
    assert_gradient_is_the_slope,
    assert_padding_changes_nothing,
    assert_steps_are_teacher_forcing,
)
from pydantic import ValidationError
from tiny_models import random_ids, random_values, randomise, run, tiny_config, tiny_model, valid_of

from nmt_cli.model.annotations import Memory
from nmt_cli.model.lexical import LexicalModel

KINDS = [
    ("conditional", "additive", "gru", True),
    ("luong", "local-p", "lstm", False),
    ("bahdanau", "dot", "gru", False),
]


def memory_of(embedded_BSE, rows=1):
    nothing = torch.zeros(len(embedded_BSE), 1)
    return Memory(nothing, nothing, nothing, nothing, embedded_BSE, rows)


@torch.no_grad()
def test_it_is_what_the_paper_says():
    lexical = LexicalModel(4).double()
    randomise(lexical)
    embedded_BSE = random_values(2, 3, 4)
    weights_BTS = random_values(2, 5, 3, seed=2).softmax(dim=-1)
    given = lexical(weights_BTS, memory_of(embedded_BSE))
    matrix = lexical.hidden.weight.numpy()
    for row in range(2):
        for step in range(5):
            looked = sum(float(weights_BTS[row, step, place]) * embedded_BSE[row, place].numpy() for place in range(3))
            direct = np.tanh(looked)
            np.testing.assert_allclose(given[row, step], np.tanh(matrix @ direct) + direct, rtol=1e-12)


@torch.no_grad()
def test_rows_of_a_search_share_the_embedded_source():
    lexical = LexicalModel(4).double()
    randomise(lexical)
    embedded_BSE, weights_N1S = random_values(3, 6, 4), random_values(8, 1, 6, seed=2).softmax(dim=-1)
    shared = lexical(weights_N1S, memory_of(embedded_BSE, rows=3))
    alone = lexical(weights_N1S, memory_of(embedded_BSE.repeat_interleave(3, dim=0)[:8]))
    torch.testing.assert_close(shared, alone)


@pytest.mark.parametrize("wanted", ["", "lexical"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_the_slope_along_a_random_direction(kind, wanted):
    assert_gradient_is_the_slope(tiny_model(kind, lexical_model=True), wanted)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_steps_and_padding_change_nothing_and_it_does(kind):
    model = tiny_model(kind, lexical_model=True)
    assert_steps_are_teacher_forcing(model)
    assert_padding_changes_nothing(model)
    batch = (random_ids((3, 5)), valid_of(LENGTHS), random_ids((3, 4), seed=2))
    together = run(model, *batch)
    model.lexical = None
    without = run(model, *batch)
    assert float((without.readout_BTR - together.readout_BTR).abs().min()) > 0.0


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (("conditional", "none-every-step", "gru", True), {}, "lexical_model: needs attention"),
        (
            ("conditional", "additive", "gru", True),
            {"tied_embeddings": "none", "decoder": {"readout_size": 7}},
            "readout_size: is 7, but lexical_model adds to the readout and needs embedding_size, 5",
        ),
    ],
)
def test_what_does_not_go_with_it_is_said(kind, options, message):
    with pytest.raises(ValidationError, match=message):
        tiny_config(kind, lexical_model=True, **options)
