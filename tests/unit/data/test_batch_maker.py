"""From pair numbers to batches."""

import pytest
import torch
from pieces import decode_words

from nmt_cli.data.batch import BatchMaker, make_batch, piece_links
from nmt_cli.data.pairs import Corpus, LengthLimits
from nmt_cli.data.sampler import Cursor, SampledBatch
from nmt_cli.data.store import open_store
from nmt_cli.data.tokenizer import EOS, PAD, train_tokenizer

NUM_PAIRS = 40


@pytest.fixture(scope="module")
def tokenizer(corpus):
    lines = [line for side in ("en", "fr") for line in (corpus / f"train.{side}").read_text().splitlines()]
    return train_tokenizer(
        lines, model_type="bpe", vocab_size=450, normalization="identity", character_coverage=1.0
    )  # fmt: skip


@pytest.fixture(scope="module")
def store(corpus, tokenizer, tmp_path_factory):
    paths = [str(corpus / name) for name in ("train.en", "train.fr", "train.align")]
    text = Corpus(paths[0], paths[1], 1.0, paths[2])
    return open_store(tmp_path_factory.mktemp("store"), [text], (tokenizer, tokenizer), LengthLimits(), with_links=True)


def batch(store, tokenizer, *, alpha, with_links, step=3):
    maker = BatchMaker(store, (tokenizer, tokenizer), seed=1, sampling_alpha=alpha, with_links=with_links)
    drawn = SampledBatch(range(NUM_PAIRS), Cursor(), 0.0)
    return maker(drawn, step, range(NUM_PAIRS))


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_an_alignment_changes_no_pieces_and_follows_those_that_are_sampled(store, tokenizer, alpha):
    guided = batch(store, tokenizer, alpha=alpha, with_links=True)
    plain = batch(store, tokenizer, alpha=alpha, with_links=False)
    assert torch.equal(guided.source_BS, plain.source_BS)
    assert torch.equal(guided.outputs_BT, plain.outputs_BT)
    best = batch(store, tokenizer, alpha=0.0, with_links=False)
    assert (best.outputs_BT.shape == plain.outputs_BT.shape and torch.equal(best.outputs_BT, plain.outputs_BT)) == (
        alpha == 0.0
    )
    sides = [
        [decode_words(tokenizer, [id_ for id_ in row if id_ not in (EOS, PAD)])[1] for row in ids.tolist()]
        for ids in (guided.source_BS, guided.outputs_BT)
    ]
    links = [piece_links(store.links(pair), *pieces) for pair, pieces in enumerate(zip(*sides, strict=True))]
    assert all(links)
    expected = make_batch(*([pieces.ids for pieces in side] for side in sides), links)
    assert torch.equal(guided.links_BTS, expected.links_BTS)


def test_a_step_always_has_the_same_pieces_and_another_step_others(store, tokenizer):
    first, again, other = (batch(store, tokenizer, alpha=0.3, with_links=True, step=step) for step in (3, 3, 4))
    assert all(torch.equal(left, right) for left, right in zip(first, again, strict=True))
    assert first.outputs_BT.shape != other.outputs_BT.shape or not torch.equal(first.outputs_BT, other.outputs_BT)


def test_the_words_of_stored_pieces_are_those_of_their_text(store, corpus, tokenizer):
    lines = [(corpus / f"train.{side}").read_text().splitlines() for side in ("en", "fr")]
    for number in range(NUM_PAIRS):
        assert store.pieces(number) == tuple(tokenizer.encode_words(side[number]) for side in lines)


def test_a_guided_batch_tokenises_nothing(store, tokenizer, monkeypatch):
    monkeypatch.setattr(type(tokenizer), "encode_words", lambda *_: pytest.fail("tokenised"))
    assert batch(store, tokenizer, alpha=0.0, with_links=True).links_BTS is not None
