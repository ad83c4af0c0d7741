"""Every attention against the formulas of its paper, written as loops over sentences, positions and heads."""

import numpy as np
import pytest
import torch
from tiny_models import random_values, randomise, valid_of

from nmt_cli.config.model import AttentionConfig
from nmt_cli.model.annotations import Memory
from nmt_cli.model.attention import LocalAttention
from nmt_cli.model.build import build_attention

BATCH, WIDTH, QUERY, ANNOTATION = 3, 6, 4, 4
LENGTHS = (6, 3, 1)
STEPS = 3


def attention_of(**config):
    sizes = {"size": 6, "heads": 2, "filters": 3, "filter_width": 3, "window": 1}
    attention = build_attention(AttentionConfig(**{**sizes, **config}), QUERY, ANNOTATION).double()
    randomise(attention)
    return attention


@torch.no_grad()
def ours(attention):
    """Weights (T, B, S) and contexts (T, B, C) of three steps with random queries."""
    states_BSC = random_values(BATCH, WIDTH, ANNOTATION)
    memory = Memory(states_BSC, attention.keys(states_BSC), valid_of(LENGTHS), random_values(BATCH, ANNOTATION, seed=3))
    attend, state = attention.unroll(memory), attention.initial_state(memory)
    weights, contexts = [], []
    for query_BH in random_values(STEPS, BATCH, QUERY, seed=2):
        attended = attend(query_BH, state)
        state = attended.state
        weights.append(attended.weights_BS.numpy())
        contexts.append(attended.context_BC.numpy())
    return np.stack(weights), np.stack(contexts)


def parameters(attention):
    return {name: parameter.detach().numpy() for name, parameter in attention.named_parameters()}


def sentences():
    """Each sentence's annotations without padding, and its queries."""
    states, queries = (
        random_values(BATCH, WIDTH, ANNOTATION).numpy(),
        random_values(STEPS, BATCH, QUERY, seed=2).numpy(),
    )
    return [(states[row, :length], queries[:, row]) for row, length in enumerate(LENGTHS)]


def softmax(energies):
    exponentials = np.exp(np.array(energies))
    return exponentials / exponentials.sum()


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def check(attention, weights_of):
    """`weights_of(h, queries)` gives the weights of every step for one sentence; the context is their weighted sum."""
    weights, contexts = ours(attention)
    for row, (h, queries) in enumerate(sentences()):
        expected = weights_of(h, queries)
        for step in range(STEPS):
            context = sum(alpha * annotation for alpha, annotation in zip(expected[step], h, strict=True))
            np.testing.assert_allclose(weights[step, row, : len(h)], expected[step], rtol=1e-11, atol=1e-14)
            np.testing.assert_allclose(contexts[step, row], context, rtol=1e-11, atol=1e-14)


def additive_energy(p, query, annotation, extra=0.0):
    """v . tanh(W s + U h_j + b)."""
    return p["score.v"] @ np.tanh(
        p["score.query"].T @ query + p["score.key.weight"] @ annotation + p["score.key.bias"] + extra
    )


@pytest.mark.parametrize("name", ["additive", "concat"])
def test_the_additive_score_is_the_formula_of_bahdanau(name):
    attention = attention_of(type=name)
    p = parameters(attention)
    check(attention, lambda h, queries: [softmax([additive_energy(p, query, h_j) for h_j in h]) for query in queries])


def test_the_dot_score_is_a_scalar_product():
    check(attention_of(type="dot"), lambda h, queries: [softmax([query @ h_j for h_j in h]) for query in queries])


def test_the_general_score_has_a_matrix_between_query_and_annotation():
    attention = attention_of(type="general")
    matrix = parameters(attention)["score.key.weight"]
    check(attention, lambda h, queries: [softmax([query @ matrix @ h_j for h_j in h]) for query in queries])


@pytest.mark.parametrize("config", [{"type": "dot"}, {"type": "local-p", "score": "dot"}], ids=["dot", "local-p"])
@torch.no_grad()
def test_the_dot_score_projects_annotations_of_another_size(config):
    score = build_attention(AttentionConfig(**config), 4, 6).double().score
    query_BH, states_BSC = random_values(1, 4, seed=2), random_values(1, 3, 6)
    energy_BS = score.unroll(score.keys(states_BSC), valid_of([3], width=3))(query_BH)
    np.testing.assert_allclose(energy_BS, query_BH @ score.key.weight @ states_BSC[0].T)


@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("score", ["dot", "general", "additive"])
def test_local_m_looks_at_a_fixed_window_around_its_step_and_stays_in_the_source(score, window):
    """Breaks without the minimum: sources of one and three pieces end before the third step."""
    attention = attention_of(type="local-m", score=score, window=window)
    p = parameters(attention)

    def energy(query, h_j):
        if score == "additive":
            return additive_energy(p, query, h_j)
        return query @ h_j if score == "dot" else query @ p["score.key.weight"] @ h_j

    def weights_of(h, queries):
        expected = np.zeros((STEPS, len(h)))
        for step, query in enumerate(queries):
            centre = min(step, len(h) - 1)
            window_of_step = [j for j in range(len(h)) if centre - window <= j <= centre + window]
            expected[step, window_of_step] = softmax([energy(query, h[j]) for j in window_of_step])
        return expected

    check(attention, weights_of)


def test_local_m_long_after_the_end_of_the_source_still_looks_at_its_last_piece():
    attention = LocalAttention(attention_of(type="dot").score, QUERY, ANNOTATION, window=1, predictive=False)
    states_BSC = random_values(1, 4, ANNOTATION)
    memory = Memory(states_BSC, states_BSC, valid_of([2], width=4), states_BSC[:, 0])
    state = (torch.tensor([50]),)
    weights_BS = attention.unroll(memory)(random_values(1, QUERY), state).weights_BS
    assert (weights_BS[0, :2] > 0).all()
    assert (weights_BS[0, 2:] == 0).all()


@pytest.mark.parametrize("window", [1, 3])
def test_local_p_predicts_a_centre_and_multiplies_a_gaussian_after_the_softmax(window):
    """Luong et al. (2015), eqs. 9-10, with positions from 0, so S - 1 in the place of S."""
    attention = attention_of(type="local-p", score="general", window=window)
    p = parameters(attention)

    def weights_of(h, queries):
        expected = np.zeros((STEPS, len(h)))
        for step, query in enumerate(queries):
            centre = (len(h) - 1) * sigmoid(p["position_v.weight"][0] @ np.tanh(p["position.weight"] @ query))
            near = [j for j in range(len(h)) if abs(j - centre) <= window]
            aligned = softmax([query @ p["score.key.weight"] @ h[j] for j in near])
            for alpha, j in zip(aligned, near, strict=True):
                expected[step, j] = alpha * np.exp(-((j - centre) ** 2) / (2 * (window / 2) ** 2))
        return expected

    check(attention, weights_of)


@pytest.mark.parametrize(("sharpening", "smoothing"), [(1.0, False), (2.5, False), (1.0, True), (0.5, True)])
def test_location_attention_convolves_the_weights_of_the_step_before(sharpening, smoothing):
    """Chorowski et al. (2015), eqs. 8-9, 2.3; before the first step the weights are zeros."""
    attention = attention_of(type="location", sharpening=sharpening, smoothing=smoothing)
    p = parameters(attention)

    def weights_of(h, queries):
        previous, expected = np.zeros(len(h)), []
        for query in queries:
            energies = []
            for j in range(len(h)):
                features = [
                    sum(kernel[k] * previous[j + k - 1] for k in range(3) if 0 <= j + k - 1 < len(h))
                    for kernel in p["convolution.weight"][:, 0]
                ]
                located = p["location.weight"] @ np.array(features)
                energies.append(sharpening * additive_energy(p, query, h[j], located))
            gates = sigmoid(np.array(energies))
            previous = gates / gates.sum() if smoothing else softmax(energies)
            expected.append(previous)
        return expected

    check(attention, weights_of)


def test_linguistic_coverage_adds_the_sum_of_the_weights_so_far_to_the_score():
    attention = attention_of(type="additive", coverage="linguistic")
    p = parameters(attention)

    def weights_of(h, queries):
        covered, expected = np.zeros(len(h)), []
        for query in queries:
            expected.append(
                softmax(
                    [additive_energy(p, query, h[j], p["coverage.weight"][:, 0] * covered[j]) for j in range(len(h))]
                )
            )
            covered = covered + expected[-1]
        return expected

    check(attention, weights_of)


def test_neural_coverage_is_a_small_recurrence_at_each_source_position():
    """C_ij = tanh(C_{i-1,j} V + alpha_ij v + h_j U + s_{i-1} W) (Tu et al., 2016, eq. 9)."""
    attention = attention_of(type="additive", coverage="neural")
    p = parameters(attention)
    matrix, factor = p["update.weight"][:, :-1], p["update.weight"][:, -1]

    def weights_of(h, queries):
        covered, expected = np.zeros((len(h), len(matrix))), []
        for query in queries:
            expected.append(
                softmax([additive_energy(p, query, h[j], p["coverage.weight"] @ covered[j]) for j in range(len(h))])
            )
            for j in range(len(h)):
                covered[j] = np.tanh(
                    matrix @ covered[j]
                    + factor * expected[-1][j]
                    + p["update_key.weight"] @ h[j]
                    + p["update_query.weight"] @ query
                )
        return expected

    check(attention, weights_of)


def test_every_head_has_its_own_softmax_and_the_contexts_are_joined():
    attention = attention_of(type="multihead")
    p = parameters(attention)
    weights, contexts = ours(attention)
    units = 6 // 2
    for row, (h, queries) in enumerate(sentences()):
        for step, query in enumerate(queries):
            heads = []
            for head in range(2):
                mine = slice(head * units, (head + 1) * units)
                hidden = [
                    np.tanh(p["query.weight"][mine] @ query + p["key.weight"][mine] @ h_j + p["key.bias"][mine])
                    for h_j in h
                ]
                heads.append(softmax([p["v"][head] @ units_j for units_j in hidden]))
            joined = np.concatenate([head @ h for head in heads])
            np.testing.assert_allclose(weights[step, row, : len(h)], np.mean(heads, axis=0), rtol=1e-11)
            np.testing.assert_allclose(contexts[step, row], p["mix.weight"] @ joined, rtol=1e-11)


@pytest.mark.parametrize(("context", "size"), [("every_step", ANNOTATION), ("initial", 0)])
def test_without_attention_the_context_is_the_last_state_or_nothing_and_the_weights_are_zeros(context, size):
    attention = attention_of(type="none", context=context)
    weights, contexts = ours(attention)
    final = random_values(BATCH, ANNOTATION, seed=3).numpy()[:, :size]
    assert contexts.shape == (STEPS, BATCH, size)
    assert all(np.array_equal(step, final) for step in contexts)
    assert not weights.any()
