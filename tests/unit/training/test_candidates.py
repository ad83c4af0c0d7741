"""The part of the vocabulary that an update's softmax has: who is in it, and what it leaves out on average."""

import math

import pytest
import torch
from torch.nn import functional as F

from nmt_cli.model.dropout import Noise
from nmt_cli.ops.cross_entropy import Candidates, cross_entropy
from nmt_cli.training.candidates import SAMPLED_SHARE, CandidateSampler, log_frequencies

VOCAB_SIZE = 60
COUNTS_V = torch.tensor([0] * 20 + [1] * 20 + [2] * 10 + [500] * 10)  # the last ten make more than 95 % of the text


def noise_of(seed):
    return Noise(torch.Generator().manual_seed(seed))


def values(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_pieces_of_the_batch_and_the_frequent_ones_are_certain_and_some_others_stand_for_the_rest():
    targets_N = torch.tensor([3, 55, 3, 41])
    found = CandidateSampler(COUNTS_V).draw(targets_N, noise_of(1))
    certain = {3, 41, *range(50, 60)}
    num_others = VOCAB_SIZE - len(certain)
    num_drawn = math.ceil(SAMPLED_SHARE * num_others)
    pieces = found.pieces_C.tolist()
    assert set(pieces[: len(certain)]) == certain
    assert len(set(pieces)) == len(pieces) == len(certain) + num_drawn
    weights = [1.0] * len(certain) + [num_others / num_drawn] * num_drawn
    torch.testing.assert_close(found.log_weights_C.exp().tolist(), weights)
    assert torch.equal(found.pieces_C[found.target_indices_N], targets_N)


def test_the_seed_of_the_noise_decides_what_is_drawn():
    sampler, targets_N = CandidateSampler(COUNTS_V), torch.tensor([3])
    one, same, other = (sampler.draw(targets_N, noise_of(seed)).pieces_C for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_a_vocabulary_without_rare_pieces_is_taken_whole():
    found = CandidateSampler(torch.ones(8)).draw(torch.arange(8), noise_of(1))
    assert found.pieces_C.tolist() == list(range(8))
    assert not found.log_weights_C.any()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_among_candidates_is_that_of_its_formula_with_its_gradients(smoothing):
    """The normalizer has the candidates, each with its weight, and label smoothing all pieces. Fails if a gradient
    goes to another row, and where the uniform part has the candidates alone."""
    weight, bias, readout_NR = (
        values(*shape, seed=seed).requires_grad_()
        for seed, shape in enumerate([(VOCAB_SIZE, 5), (VOCAB_SIZE,), (9, 5)])
    )
    targets_N = torch.tensor([3, 55, 3, 41, 50, 51, 0, 19, 8])
    drawn = CandidateSampler(COUNTS_V).draw(targets_N, noise_of(1))
    total, nll = cross_entropy(readout_NR, weight, bias, targets_N, smoothing, candidates=drawn)
    logits_NV = F.linear(readout_NR, weight, bias)
    chosen_N = logits_NV.gather(1, targets_N[:, None]).squeeze(1)
    normalizer_N = (drawn.log_weights_C.exp() * logits_NV[:, drawn.pieces_C].exp()).sum(dim=1).log()
    spread_N = (1 - smoothing) * chosen_N + smoothing * logits_NV.mean(dim=1)
    truth = (normalizer_N - spread_N).sum()
    torch.testing.assert_close(total, truth, rtol=1e-6, atol=1e-6)  # the weights are float32
    torch.testing.assert_close(nll, (normalizer_N - chosen_N).sum(), rtol=1e-6, atol=1e-6)
    leaves = [readout_NR, weight, bias]
    ours, theirs = (torch.autograd.grad(one * 0.37, leaves) for one in (total, truth))
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def test_the_normalizer_is_right_on_average():
    """Against the softmax with all pieces. Fails if what is drawn counts once only."""
    logits_V, targets_N = values(VOCAB_SIZE, seed=5), torch.tensor([7])
    sampler, noise = CandidateSampler(COUNTS_V), noise_of(1)

    def normalizer(drawn: Candidates) -> float:
        return float((drawn.log_weights_C.exp() * logits_V[drawn.pieces_C].exp()).sum())

    found = [normalizer(sampler.draw(targets_N, noise)) for _ in range(4_000)]
    assert sum(found) / len(found) == pytest.approx(float(logits_V.exp().sum()), rel=0.02)


def test_the_first_bias_predicts_each_piece_as_often_as_it_stands_in_smoothed_targets():
    truth_V = 0.9 * COUNTS_V / COUNTS_V.sum() + 0.1 / VOCAB_SIZE
    torch.testing.assert_close(log_frequencies(COUNTS_V, 0.1).softmax(dim=0), truth_V, rtol=1e-5, atol=1e-7)
    assert log_frequencies(COUNTS_V, 0.0).isfinite().all()
