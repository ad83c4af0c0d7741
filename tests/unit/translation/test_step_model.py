"""Trained models in a search: what a shortlist changes, and what stands around a sentence does not."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from marks import others_slow, others_soak
from searching import in_order
from unit.model.tiny_models import ATTENTIONS, RECURRENCES

from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.config.model import ModelConfig
from nmt_cli.data.batch import make_batch, pad_sources
from nmt_cli.data.tokenizer import BOS, EOS, PAD
from nmt_cli.model.build import build_model, initialize
from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.ops import native
from nmt_cli.search.beam import beam_search
from nmt_cli.search.constraint_masks import ConstraintMasks
from nmt_cli.search.constraints import Constraints, Term
from nmt_cli.search.hypothesis import Vocabulary
from nmt_cli.search.sampling import sample
from nmt_cli.system.errors import PredictionError
from nmt_cli.translation import step_model
from nmt_cli.translation.rows import PADDING_MULTIPLE
from nmt_cli.translation.shortlist import NO_PIECE, Shortlist
from nmt_cli.translation.step_model import TrainedModels

VOCAB = 500
BANNED = (PAD, BOS)
SIZES = {
    "embedding_size": 96,
    "encoder": {"hidden_size": 80},
    "decoder": {"hidden_size": 96},
    "attention": {"size": 72},
}


def models(precision="fp32", shortlist=None, **config):
    model = build_model(ModelConfig.model_validate(SIZES | config), source_vocab_size=VOCAB, target_vocab_size=VOCAB)
    initialize(model, seed=1)
    with torch.no_grad():
        model.output_weight.mul_(6.0)  # some pieces much likelier than others
        model.output_bias[list(BANNED)] = -1e4  # what may not be said has no probability to share
    return TrainedModels(
        [model.requires_grad_(False)], device=torch.device("cpu"), precision=precision, shortlist=shortlist
    )


def sources(count, seed=2):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(4, VOCAB, (3 + number % 11,), generator=generator).tolist() for number in range(count)]


def random_shortlist(likely=12):
    generator = torch.Generator().manual_seed(3)
    likely_VK = torch.randint(4, VOCAB, (VOCAB, likely), generator=generator, dtype=torch.int32)
    likely_VK[::3, -5:] = NO_PIECE
    return Shortlist(torch.tensor([EOS, 4, 5, 6, 7, 8]), likely_VK)


def search(trained, ids, observe=None, at_once=1000, beam_size=4, constraints=None, width=PADDING_MULTIPLE, **options):
    def start(numbers):
        return trained.start(pad_sources([ids[number] for number in numbers], multiple=width), 1)

    limits, vocabulary = [len(one) + 4 for one in ids], Vocabulary(BOS, EOS, BANNED)
    decoding = DecodingOptions(beam_size=beam_size, n_best=min(2, beam_size), **options)
    masks = None if constraints is None else ConstraintMasks(constraints, vocabulary, limits, decoding.glossary_weight)
    begin = in_order(start, limits, with_weights=decoding.with_alignment)
    steps = beam_search(trained, begin, vocabulary, decoding, at_once=at_once, observe=observe, masks=masks)
    found = dict(filter(None, steps))
    return [found[number] for number in range(len(ids))]


def test_a_shortlist_of_all_pieces_changes_nothing():
    everything = Shortlist(torch.arange(VOCAB), torch.full((VOCAB, 1), NO_PIECE)).without(BANNED)
    ids = sources(12)
    expected, found = (search(models("fp32", words), ids) for words in (None, everything))
    for before, now in zip(expected, found, strict=True):
        assert [one.ids for one in now] == [one.ids for one in before]
        assert [one.log_prob for one in now] == pytest.approx([one.log_prob for one in before], abs=1e-3)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_a_shortlist_of_all_pieces_changes_no_prediction(precision):
    """In other precisions two pieces may be equally likely, and a search may take either."""
    everything = Shortlist(torch.arange(VOCAB), torch.full((VOCAB, 1), NO_PIECE)).without(BANNED)
    pieces = [piece for piece in range(VOCAB) if piece not in BANNED]
    expected, found = (
        steps_of(models(precision, words), sources(12), PADDING_MULTIPLE) for words in (None, everything)
    )
    for (before_LKV, _), (now_LKW, _) in zip(expected, found, strict=True):
        torch.testing.assert_close(now_LKW[..., : len(pieces)], before_LKV[..., pieces], rtol=0, atol=1e-4)


def test_a_search_says_only_what_goes_with_its_source():
    words, ids = random_shortlist(), sources(20)
    outside = 0
    for source, kept, free in zip(ids, search(models("fp32", words), ids), search(models(), ids), strict=True):
        allowed = {*words.frequent_F.tolist(), *words.likely_VK[[*source, EOS]].flatten().tolist()} - {NO_PIECE}
        assert all(set(one.ids) <= allowed for one in kept)
        outside += sum(not set(one.ids) <= allowed for one in free)
    assert outside > 20


def test_probabilities_are_those_of_a_softmax_over_what_may_be_said():
    words, (source,) = random_shortlist(), sources(1)
    allowed = sorted(({*words.frequent_F.tolist(), *words.likely_VK[[*source, EOS]].flatten().tolist()}) - {NO_PIECE})
    shown = []
    search(models("fp32", words), [source], lambda _, candidates: shown.append(candidates))
    trained = models()
    full = trained.step(
        torch.tensor([BOS]), trained.start(pad_sources([source], multiple=PADDING_MULTIPLE), 1)
    ).log_probs_NV[0]
    expected = full[allowed].log_softmax(dim=0)
    for candidate in shown[0]:
        assert candidate.log_prob == pytest.approx(float(expected[allowed.index(candidate.piece)]), abs=1e-4)


@pytest.mark.parametrize("options", others_slow({"no_repeat_ngram": 2}, {}))
def test_with_a_shortlist_too_a_sentence_does_not_depend_on_the_others_to_the_last_bit(options):
    trained, ids = models("fp32", random_shortlist()), sources(40)
    together = search(trained, ids, **options)
    for number, source in enumerate(ids):
        (alone,) = search(trained, [source], **options)
        assert [(one.ids, one.log_prob) for one in alone] == [(one.ids, one.log_prob) for one in together[number]]


def test_with_a_lexical_model_too_a_sentence_does_not_depend_on_the_others():
    trained, ids = models(lexical_model=True), sources(40)
    together = search(trained, ids)
    for number, source in enumerate(ids):
        (alone,) = search(trained, [source])
        assert [(one.ids, one.log_prob) for one in alone] == [(one.ids, one.log_prob) for one in together[number]]


def test_no_sequence_comes_twice_with_a_shortlist():
    trained, ids = models("fp32", random_shortlist(2)), sources(30)

    def repeats(found):
        pairs = [list(zip(one.ids, one.ids[1:], strict=False)) for best in found for one in best]
        return sum(len(some) - len(set(some)) for some in pairs)

    assert repeats(search(trained, ids)) > 0
    assert repeats(search(trained, ids, no_repeat_ngram=2)) == 0


def test_samples_say_only_what_goes_with_their_source():
    words, ids = random_shortlist(), sources(10)
    trained = models("fp32", words)
    uniforms_NT = torch.rand(20, 12, generator=torch.Generator().manual_seed(4))
    state = trained.start(pad_sources(ids, multiple=PADDING_MULTIPLE), 2)
    found = sample(trained, state, [12] * 20, Vocabulary(BOS, EOS, BANNED), DecodingOptions(), uniforms_NT)
    for row, one in enumerate(found):
        source = ids[row // 2]
        assert set(one.ids) <= {*words.frequent_F.tolist(), *words.likely_VK[[*source, EOS]].flatten().tolist()} - {
            NO_PIECE
        }
    assert len({one.ids for one in found}) > 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [
        {},
        {"lexical_model": True},
        {"encoder": {"hidden_size": 80, "rnn_type": "lstm"}, "decoder": {"hidden_size": 96, "rnn_type": "lstm"}},
        {"attention": {"size": 72, "type": "location"}},
        {"attention": {"size": 72, "type": "multihead", "heads": 4}},
        {"attention": {"type": "general"}, "decoder": {"hidden_size": 96, "recurrence": "luong"}},
        {"attention": {"type": "none"}, "decoder": {"hidden_size": 96, "recurrence": "bahdanau"}},
    ],
    ids=lambda config: "-".join(config) or "additive",
)
@pytest.mark.parametrize("with_shortlist", [False, True])
@pytest.mark.parametrize("beam_size", others_soak(3, 1))
def test_whose_place_a_sentence_takes_does_not_matter_to_the_last_bit(config, with_shortlist, beam_size):
    trained, ids = models("fp32", random_shortlist() if with_shortlist else None, **config), sources(40)
    together, few = (search(trained, ids, at_once=most, beam_size=beam_size, with_alignment=True) for most in (40, 9))
    for expected, found in zip(together, few, strict=True):
        assert [(one.ids, one.log_prob) for one in found] == [(one.ids, one.log_prob) for one in expected]
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one.weights_TS, other.weights_TS)


def test_an_ensemble_takes_in_those_that_wait_too():
    both, ids = models(), sources(30)
    both._models += models(lexical_model=True, attention={"size": 72, "type": "location"})._models
    together, few = (search(both, ids, at_once=most) for most in (30, 4))
    assert [[one.log_prob for one in found] for found in few] == [[one.log_prob for one in all_] for all_ in together]


# Padding ------------------------------------------------------------------------------------------------------------


def of_kind(attention, recurrence, rnn_type, **config):
    return models(
        encoder={"hidden_size": 48 if attention.endswith("dot") else 80, "rnn_type": rnn_type},
        decoder={"hidden_size": 96, "rnn_type": rnn_type, "recurrence": recurrence},
        attention={"size": 72, **ATTENTIONS[attention]},
        **config,
    )


def of_odd_sizes(attention, recurrence, rnn_type, size):
    """None of the sums fills groups of 4, and with 13 units some products have fewer than 400 multiplications."""
    encoder = {"hidden_size": size, "rnn_type": rnn_type, "bidirectional": not attention.endswith("dot")}
    return models(
        embedding_size=11,
        encoder=encoder,
        decoder={"hidden_size": size, "rnn_type": rnn_type, "recurrence": recurrence},
        attention={"size": size - 1, **ATTENTIONS[attention]},
        lexical_model=not attention.startswith("none"),
    )


def every_kind():
    """Each attention with each recurrence, the cells in turn."""
    for number, attention in enumerate(ATTENTIONS):
        for place, recurrence in enumerate(RECURRENCES):
            marks = () if number % 3 == place else pytest.mark.soak
            rnn_type = ("gru", "lstm")[(number + place) % 2]
            yield pytest.param(attention, recurrence, rnn_type, id=f"{attention}-{recurrence}-{rnn_type}", marks=marks)


def of_lengths(lengths):
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(4, VOCAB, (length,), generator=generator).tolist() for length in lengths]


def steps_of(trained, ids, width, beam_size=3):
    """Log-probabilities and weights of three steps, the later ones with rows that share a source."""
    state, count = trained.start(pad_sources(ids, multiple=width), 1), len(ids)
    found = [trained.step(torch.full((count,), BOS), state)]
    state = found[0].state.keep(torch.arange(count).repeat_interleave(beam_size))
    for step in range(2):
        pieces = torch.arange(beam_size).repeat(count) * 31 + 13 * step + 7
        found.append(trained.step(pieces, state))
        state = found[-1].state
    return [(one.log_probs_NV.unflatten(0, (count, -1)), one.weights_NS.unflatten(0, (count, -1))) for one in found]


@pytest.mark.parametrize("path", others_slow(native.NATIVE, native.PLAIN))
@pytest.mark.parametrize(("attention", "recurrence", "rnn_type"), list(every_kind()))
def test_a_wider_padding_of_the_sources_changes_no_bit(attention, recurrence, rnn_type, path):
    """Sentences alone, padded to their own width, and among others in a wider memory, in which they may be the only
    ones of their width."""
    trained = of_kind(attention, recurrence, rnn_type, lexical_model=not attention.startswith("none"))
    check_paddings(trained, of_lengths([1, 7, 15, 31, 47, 63, 70, 79]), (32, 48, 64, 80), path)


@pytest.mark.slow
@pytest.mark.parametrize("path", others_soak(native.NATIVE, native.PLAIN))
@pytest.mark.parametrize("size", others_soak(13, 33))
@pytest.mark.parametrize(("attention", "recurrence", "rnn_type"), list(every_kind()))
def test_other_sentences_change_no_bit_where_sizes_are_odd(attention, recurrence, rnn_type, size, path):
    """More of them than 16, so that the number of rows changes too."""
    trained = of_odd_sizes(attention, recurrence, rnn_type, size)
    check_paddings(trained, of_lengths([1, 47, 15, 31, *(3 + number % 11 for number in range(15))]), (16, 48), path)


def check_paddings(trained, ids, widths, path):
    """Compare steps of sentences alone with those of the ones that fit into each width together."""
    with native.path(path):
        alone = [steps_of(trained, [one], PADDING_MULTIPLE) for one in ids]
        for width in widths:
            fitting = [number for number, one in enumerate(ids) if len(one) < width]
            together = steps_of(trained, [ids[number] for number in fitting], width)
            for (log_probs_LKV, weights_LKS), *expected in zip(
                together, *(alone[number] for number in fitting), strict=True
            ):
                for place, (own_1KV, own_1KS) in enumerate(expected):
                    own_width = own_1KS.shape[2]
                    assert torch.equal(log_probs_LKV[place], own_1KV[0])
                    assert torch.equal(weights_LKS[place, :, :own_width], own_1KS[0])
                    assert not weights_LKS[place, :, own_width:].any()


@pytest.mark.parametrize(
    "attention", others_soak("additive", "neural-coverage", "local-p", "location", "multihead", "general")
)
@pytest.mark.parametrize("num_models", others_slow(1, 2))
def test_a_search_of_several_widths_finds_what_searches_of_one_find(attention, num_models):
    """One model, and an ensemble with one of two layers. NewSentences of any length enter the search that runs, whose
    sources get more padding for the longer ones, and lose it when these have left."""
    trained = of_kind(attention, "conditional", "gru", lexical_model=True)
    if num_models == 2:
        layers = {"encoder": {"hidden_size": 80, "num_layers": 2}, "decoder": {"hidden_size": 96, "num_layers": 2}}
        trained._models += models(layer_norm=True, **layers)._models
    ids = of_lengths([3 + 7 * number % 50 for number in range(24)])
    mixed = search(trained, ids, at_once=7, with_alignment=True)
    for own, found in zip(ids, mixed, strict=True):
        (alone,) = search(trained, [own], with_alignment=True)
        assert [(one.ids, one.log_prob) for one in found] == [(one.ids, one.log_prob) for one in alone]
        for one, other in zip(found, alone, strict=True):
            own_width = other.weights_TS.shape[1]
            assert torch.equal(one.weights_TS[:, :own_width], other.weights_TS)
            assert not one.weights_TS[:, own_width:].any()


@pytest.mark.parametrize(
    "attention", others_slow("additive", "neural-coverage", "local-p", "location", "multihead", "general")
)
def test_models_laid_out_for_translation_find_what_models_in_training_find(attention):
    """To the last bit, so that a validation and a translation agree."""
    ids = of_lengths([3 + 7 * number % 50 for number in range(24)])
    found = []
    for precision in (None, "fp32"):
        trained = of_kind(attention, "conditional", "gru", lexical_model=True, precision=precision)
        hypotheses = search(trained, ids, at_once=7, with_alignment=True)
        found.append(([[(one.ids, one.log_prob) for one in some] for some in hypotheses], forced(trained, ids)))
    (searched, scored), (searched_fp32, scored_fp32) = found
    assert searched == searched_fp32
    torch.testing.assert_close(scored, scored_fp32, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("attention", ["additive", "neural-coverage"])
def test_more_rows_than_one_product_takes_change_no_bit(attention):
    """Neural coverage multiplies each position of each row. Fails if another library computes large products."""
    trained = of_kind(attention, "conditional", "gru")
    ids = of_lengths([15 - number % 9 for number in range(80)])
    few, many = steps_of(trained, ids[:16], PADDING_MULTIPLE), steps_of(trained, ids, PADDING_MULTIPLE)
    for (few_LKV, few_LKS), (many_LKV, many_LKS) in zip(few, many, strict=True):
        assert torch.equal(many_LKV[:16], few_LKV)
        assert torch.equal(many_LKS[:16], few_LKS)


# Predictions that are no probabilities ----------------------------------------------------------------------------


def with_bias(trained: TrainedModels, piece: int | slice, value: float) -> TrainedModels:
    """The same models, with a logit that is `value` whatever is to be said."""
    for model in trained._models:
        bias = model.output_bias if model.output_replacement is None else model.output_replacement.bias_O
        bias[piece] = value
    return trained


def forced(trained: TrainedModels, ids) -> torch.Tensor:
    batch = make_batch(ids, ids)
    return trained.force(pad_sources(ids, multiple=PADDING_MULTIPLE), batch.inputs_BT, batch.outputs_BT)[0]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_targets_are_scored_a_part_at_a_time_with_the_same_result(precision, monkeypatch):
    """Fails if memory grows with the pieces of a target."""
    trained = models(precision)
    ids = of_lengths([15 - number % 9 for number in range(20)])
    whole = forced(trained, ids)
    rows: list[int] = []
    logits = Seq2Seq.logits
    monkeypatch.setattr(Seq2Seq, "logits", lambda model, given: rows.append(len(given)) or logits(model, given))
    monkeypatch.setattr(step_model, "MAX_SCORED_PIECES", 32)
    torch.testing.assert_close(forced(trained, ids), whole, rtol=0, atol=0, equal_nan=True)
    assert max(rows) <= 32


@pytest.mark.parametrize("num_steps", [1, 3])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_targets_are_read_some_steps_at_a_time_with_the_same_result(precision, num_steps, monkeypatch):
    """Fails if the attention of all rows and steps is held at once."""
    trained = models(precision)
    ids = of_lengths([15 - number % 9 for number in range(20)])
    batch, sources = make_batch(ids, ids), pad_sources(ids, multiple=PADDING_MULTIPLE)
    whole, weights = trained.force(sources, batch.inputs_BT, batch.outputs_BT)
    steps: list[int] = []
    decode = Seq2Seq.decode
    monkeypatch.setattr(
        Seq2Seq, "decode", lambda model, ids_PT, *rest: steps.append(ids_PT.shape[1]) or decode(model, ids_PT, *rest)
    )
    monkeypatch.setattr(step_model, "MAX_FORCED_WEIGHTS", num_steps * 32 * 16)
    for with_weights, expected in ((True, weights), (False, weights[:, :, :0])):
        found = trained.force(sources, batch.inputs_BT, batch.outputs_BT, with_weights=with_weights)
        torch.testing.assert_close(found[0], whole, rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(found[1], expected, rtol=0, atol=0)
        assert found[1].untyped_storage().nbytes() == 4 * found[1].numel()
    assert max(steps) == num_steps
    assert sum(steps) % batch.inputs_BT.shape[1] == 0


def drawn(trained: TrainedModels, ids):
    start = trained.start(pad_sources(ids, multiple=PADDING_MULTIPLE), 1)
    uniforms = torch.rand(len(ids), 9, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    return sample(trained, start, [9] * len(ids), Vocabulary(BOS, EOS, BANNED), DecodingOptions(), uniforms)


@pytest.mark.parametrize("path", [native.NATIVE, native.PLAIN])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize(
    ("piece", "value"),
    [(0, math.nan), (77, math.nan), (VOCAB - 1, math.nan), (5, math.inf), (slice(None), -math.inf)],
    ids=["first", "middle", "last", "above all bounds", "none possible"],
)
def test_a_prediction_that_is_no_probability_is_refused_by_every_way(path, precision, piece, value):
    """Fails if a way does not ask, or asks a column to which what is wrong does not come."""
    ids = sources(5)
    everything = Shortlist(torch.arange(VOCAB), torch.full((VOCAB, 1), NO_PIECE)).without(BANNED)
    with native.path(path):
        for way in (search, partial(search, beam_size=1), drawn, forced):
            with pytest.raises(PredictionError, match="the model's predictions are not finite"):
                way(with_bias(models(precision), piece, value), ids)
        for way in (search, drawn):
            if piece != 0:  # PAD, which no shortlist names
                with pytest.raises(PredictionError):
                    way(with_bias(models(precision, everything), piece, value), ids)


@pytest.mark.parametrize("path", [native.NATIVE, native.PLAIN])
def test_a_piece_that_is_impossible_is_no_wrong_prediction(path):
    """Fails if an infinite log-probability is refused, as that of a banned piece would be."""
    ids = sources(5)
    with native.path(path):
        trained = with_bias(models(), slice(0, 8), -math.inf)
        trained._models[0].output_bias[EOS] = 0.0
        assert all(math.isfinite(best.log_prob) for best, *_ in search(trained, ids))
        assert all(math.isfinite(one.log_prob) for one in drawn(trained, ids))
        assert bool(forced(trained, [[9, 10], [11]])[0].isfinite().all())
        with pytest.raises(PredictionError):  # unless it is what was to be said
            forced(trained, [[9, 10], [7]])


def test_what_stands_at_the_padding_of_targets_is_not_asked():
    trained = models(tied_embeddings="none")
    trained._models[0].target_embedding[PAD] = math.nan
    found = forced(trained, [[9, 10, 11], [12]])
    assert bool(found[1, 2:].isnan().all())
    assert bool(found[1, :2].isfinite().all())


@pytest.mark.parametrize("broken", [0, 1])
def test_of_an_ensemble_the_model_that_is_broken_is_named(broken):
    parts = [models(), models()]
    with_bias(parts[broken], 9, math.nan)
    both = TrainedModels(
        [part._models[0] for part in parts], device=torch.device("cpu"), prediction_errors=["the first", "the second"]
    )
    for way in (search, drawn, forced):
        with pytest.raises(PredictionError, match=("the first", "the second")[broken]):
            way(both, sources(3))


def terms_of(ids):
    """A term of two forms at the second piece, and one at the last two; every fourth sentence has none."""
    two = [
        Constraints(terms=(Term((1,), ((50 + number, 61), (7,))), Term((len(one) - 2, len(one) - 1), ((90,),))))
        for number, one in enumerate(ids)
    ]
    return [None if number % 4 == 3 else own for number, own in enumerate(two)]


WITH_TERMS = {
    "additive": {"lexical_model": True},
    "dot": {"attention": {"type": "dot"}, "encoder": {"hidden_size": 48}},
    "coverage": {"attention": {"type": "additive", "size": 72, "coverage": "linguistic"}},
    "local-m": {"attention": {"type": "local-m", "window": 1}},
    "local-p": {"attention": {"type": "local-p", "window": 2}},
    "location": {"attention": {"type": "location", "size": 72}},
    "multihead": {"attention": {"type": "multihead", "size": 72, "heads": 4}},
}


@pytest.mark.parametrize(
    ("config", "precision"),
    [*((config, "fp32") for config in WITH_TERMS.values()), ({}, "bf16"), ({}, "int8")],
    ids=[*WITH_TERMS, "bf16", "int8"],
)
def test_every_attention_generates_each_term_once_whatever_stands_around_the_sentence(config, precision):
    trained, ids = models(precision, **config), sources(12)
    constraints = terms_of(ids)
    found = search(trained, ids, constraints=constraints, with_alignment=True)
    for own, hypotheses in zip(constraints, found, strict=True):
        for one in hypotheses:
            assert [use.term for use in one.generated_terms] == ([] if own is None else [0, 1])
            for use in one.generated_terms:
                assert one.ids[use.begin : use.end] in own.terms[use.term].forms
    plain = search(trained, ids, with_alignment=True)
    assert [[one.ids for one in own] for own in found[3::4]] == [[one.ids for one in own] for own in plain[3::4]]
    if precision == "fp32":
        small = search(trained, ids, at_once=5, constraints=constraints, with_alignment=True)
        wide = search(trained, ids, width=48, constraints=constraints, with_alignment=True)
        shown = [[[(one.ids, one.score) for one in own] for own in whole] for whole in (small, found, wide)]
        assert shown[0] == shown[1]
        assert shown[0] == shown[2]


@pytest.mark.parametrize("at_once", [1, 4, 9])
def test_terms_stay_with_their_sources_where_lengths_differ(at_once):
    """Longer sources come while shorter ones are searched, as when memory has run out for all of them together."""
    trained = models()
    ids = [(one * 8)[: length - 1] for one, length in zip(sources(12), [7, 40, 20, 7, 64, 9] * 2, strict=True)]
    constraints = terms_of(ids)
    found = search(trained, ids, constraints=constraints, at_once=at_once, with_alignment=True)
    for own, constraint, hypotheses in zip(ids, constraints, found, strict=True):
        (alone,) = search(trained, [own], constraints=[constraint], with_alignment=True)
        assert [(one.ids, one.score, one.generated_terms) for one in hypotheses] == [
            (one.ids, one.score, one.generated_terms) for one in alone
        ]


def test_a_row_that_is_replaced_goes_on_as_it_would_alone():
    """Both models of an ensemble: row 1 takes a step with a hidden position, and the others without."""
    trained = TrainedModels([models()._models[0], models(lexical_model=True)._models[0]], device=torch.device("cpu"))
    ids = [one for one in sources(40) if len(one) == 6][:3]
    pieces = torch.tensor([10, 11, 12])
    start = trained.start(pad_sources(ids, multiple=PADDING_MULTIPLE), 1)
    hidden = torch.zeros(3, 16, dtype=torch.bool)
    hidden[1, 2] = True
    together = trained.step(pieces, start, hidden)
    row = torch.tensor([1])
    alone = trained.step(pieces[row], start.keep(row), hidden[row])
    replaced = trained.step(pieces, start).state.replace(row, alone.state)
    assert float(together.weights_NS[1, 2]) == 0.0
    expected, found = (trained.step(pieces, state).log_probs_NV for state in (together.state, replaced))
    assert torch.equal(expected, found)
