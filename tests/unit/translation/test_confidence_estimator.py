"""Finished translations measured again: by the words, whatever stands around them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from nmt_cli.config.model import ModelConfig
from nmt_cli.data.batch import make_batch, pad_sources
from nmt_cli.model.build import build_model, initialize
from nmt_cli.system.errors import PredictionError
from nmt_cli.translation.confidence_estimator import ConfidenceEstimator
from nmt_cli.translation.results import Part, PartTranslation
from nmt_cli.translation.rows import PADDING_MULTIPLE
from nmt_cli.translation.step_model import TrainedModels

VOCAB = 200


def model(seed=1, **config):
    sizes = {"embedding_size": 24, "encoder": {"hidden_size": 24}, "decoder": {"hidden_size": 24}}
    built = build_model(ModelConfig.model_validate(sizes | config), source_vocab_size=VOCAB, target_vocab_size=VOCAB)
    initialize(built, seed=seed)
    with torch.no_grad():
        built.output_weight.mul_(6.0)
    return built.requires_grad_(False)


def trained(*models):
    return TrainedModels(models, device=torch.device("cpu"))


def pairs(count, seed=2):
    generator = torch.Generator().manual_seed(seed)
    return [
        tuple(torch.randint(4, VOCAB, (length,), generator=generator).tolist() for length in (3 + n % 20, 1 + n % 7))
        for n in range(count)
    ]


def observed(models, some):
    batch = make_batch([source for source, _ in some], [target for _, target in some])
    sources = pad_sources([source for source, _ in some], multiple=PADDING_MULTIPLE)
    return sources, batch, models.forced_predictions(sources, batch.inputs_BT, batch.outputs_BT)


def measured(models, some, batch_tokens=1000):
    """The features of each pair, as parts of one window."""
    parts = [
        (
            Part(line, line, 0, source, ()),
            [PartTranslation(" ".join("x" * len(target)), 0.0, 0.0, target, spans_of(target))],
        )
        for line, (source, target) in enumerate(some)
    ]
    for _ in ConfidenceEstimator().measure(models, parts, batch_tokens):
        pass
    return [own.features for _, (own,) in parts]


def spans_of(target):
    """Pieces that are words of one letter."""
    return tuple((2 * place, 2 * place + 1) for place in range(len(target)))


@pytest.mark.parametrize("num_models", [1, 2])
def test_predictions_are_those_of_the_whole_distribution(num_models):
    models = [model(seed) for seed in range(1, num_models + 1)]
    some = pairs(5)
    sources, batch, found = observed(trained(*models), some)
    log_probs_BT, weights_BTS = trained(*models).force(sources, batch.inputs_BT, batch.outputs_BT)
    valid = batch.target_valid_BT
    assert torch.allclose(found.log_probs_BT[valid], log_probs_BT[valid], atol=1e-5)
    assert torch.equal(found.weights_BTS, weights_BTS)
    mean = 0.0
    for one in models:
        memory = one.encode(*sources)
        readout = one.decode(batch.inputs_BT, memory, one.initial_state(memory)).readout_BTR
        mean = mean + F.softmax(one.logits(readout.flatten(0, 1)).double(), dim=-1) / num_models
    entropies = -(mean * mean.log()).sum(dim=-1).view_as(valid)
    assert torch.allclose(found.entropies_BT[valid].double(), entropies[valid], atol=1e-4)


def test_a_sentence_is_measured_the_same_whatever_stands_around_it():
    models = trained(model())
    some = pairs(40)
    together = measured(models, some)
    for batch_tokens in (1, 100):
        for alone, own in zip(measured(models, some, batch_tokens), together, strict=True):
            assert np.allclose(alone, own, atol=1e-5)
    assert [len(own) for own in together] == [len(target) for _, target in some]


def test_a_model_that_predicts_nothing_is_refused():
    broken = model()
    with torch.no_grad():
        broken.output_bias[7] = float("nan")
    with pytest.raises(PredictionError, match="not finite"):
        observed(trained(broken), pairs(2))
