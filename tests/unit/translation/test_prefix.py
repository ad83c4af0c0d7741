"""Reading given beginnings against one step after the other, and the pieces that may spell a beginning."""

from __future__ import annotations

import pytest
import torch

from nmt_cli.config.model import ModelConfig
from nmt_cli.data.batch import pad_sources
from nmt_cli.data.tokenizer import BOS, Tokenizer, train_tokenizer
from nmt_cli.model.build import build_model, initialize
from nmt_cli.search.constraints import ACCEPTING
from nmt_cli.translation.prefix import PieceIndex, prefix_of
from nmt_cli.translation.rows import PADDING_MULTIPLE
from nmt_cli.translation.step_model import TrainedModels


@pytest.mark.parametrize("recurrence", ["bahdanau", "conditional", "luong"])
@pytest.mark.parametrize("num_models", [1, 2])
def test_a_beginning_that_is_read_gives_the_state_and_score_of_its_steps(recurrence: str, num_models: int):
    config = ModelConfig.model_validate({"decoder": {"recurrence": recurrence}})
    models = []
    for seed in range(num_models):
        model = build_model(config, source_vocab_size=50, target_vocab_size=50)
        initialize(model, seed=seed)
        models.append(model.requires_grad_(False))
    trained = TrainedModels(models, device=torch.device("cpu"))
    beginnings = [(BOS, 5, 9, 7), (BOS,), (BOS, 8), (BOS, 5, 5, 5, 6, 7)]
    sources = [list(range(4, 4 + length)) for length in (3, 9, 5, 1)]
    read = trained.force_prefix(beginnings, trained.start(pad_sources(sources, multiple=PADDING_MULTIPLE), 1))
    after = trained.step(torch.tensor([ids[-1] for ids in beginnings]), read.state)
    for row, (ids, source) in enumerate(zip(beginnings, sources, strict=True)):
        state, total, weights = trained.start(pad_sources([source], multiple=PADDING_MULTIPLE), 1), 0.0, []
        for piece, following in zip(ids, (*ids[1:], None), strict=True):
            step = trained.step(torch.tensor([piece]), state)
            state = step.state
            if following is not None:
                total += float(step.log_probs_NV[0, following])
                weights.append(step.weights_NS[0])
        assert float(read.totals_N[row]) == pytest.approx(total, abs=1e-4)
        torch.testing.assert_close(after.log_probs_NV[row], step.log_probs_NV[0], atol=1e-5, rtol=1e-5)
        if weights:
            torch.testing.assert_close(read.weights_NTS[row, -len(weights) :], torch.stack(weights))
        assert not read.weights_NTS[row, : 5 - len(weights)].any()


@pytest.fixture(scope="module", params=["bpe", "unigram", "char"])
def index(request) -> PieceIndex:
    words = ["der", "derb", "hund", "hunde", "hündchen", "läuft", "laufen", "schnell", "schneller"]
    lines = [f"{one} {two}" for one in words for two in words] * 3
    tokenizer: Tokenizer = train_tokenizer(
        lines, model_type=request.param, vocab_size=285, normalization="identity", character_coverage=1.0
    )
    return PieceIndex(tokenizer)


@pytest.mark.parametrize("text", ["der hu", "d", "der hündc", "der xé日", "hunde schnell", "z" * 40])
def test_every_way_through_an_opening_spells_the_prefix_and_more(index: PieceIndex, text: str):
    prefix = prefix_of(text, index)
    waiting, ways = [(0, prefix.head)], []
    while waiting and len(ways) < 300:
        state, ids = waiting.pop()
        if state == ACCEPTING:
            ways.append(ids)
            continue
        assert prefix.automaton[state], "a dead end"
        waiting.extend((after, (*ids, piece)) for piece, after in prefix.automaton[state].items())
    assert ways
    for ids in ways:
        decode_spans = index.tokenizer.decode(ids)
        assert decode_spans.startswith(text)
        assert prefix.decode_spans(ids, index)[0] == decode_spans


def test_after_white_space_a_word_begins_or_the_translation_ends(index: PieceIndex):
    prefix = prefix_of("der  hund ", index)
    allowed = index.tokenizer.pieces(prefix.automaton[0])
    assert all(piece.startswith("▁") or piece == "</s>" for piece in allowed)
    word = next(piece for piece in prefix.automaton[0] if index.tokenizer.pieces([piece])[0].startswith("▁"))
    rest = index.tokenizer.pieces([word])[0].removeprefix("▁")
    assert prefix.decode_spans((*prefix.head, word), index)[0] == f"der  hund {rest}"
