"""Shortlists against counts in dictionaries and sets."""

from __future__ import annotations

import io
import os
from collections import Counter, defaultdict

import numpy as np
import pytest
import torch

from nmt_cli.data.batch import pad_sources
from nmt_cli.data.tokenizer import EOS
from nmt_cli.system.errors import ModelError
from nmt_cli.translation.shortlist import (
    MIN_LINK_SHARE,
    NO_PIECE,
    LinkCounts,
    Shortlist,
    read_shortlist,
    write_shortlist,
)

VOCAB = 40
TOKENIZERS = {"source": "a", "target": "b"}


def pairs_of_text(seed, count=60):
    """Source pieces, target pieces and attention, few pieces often and most of them seldom."""
    random = np.random.default_rng(seed)
    pairs = []
    for _ in range(count):
        source, target = (np.minimum(random.zipf(1.3, size=random.integers(1, 9)) + 3, VOCAB - 1) for _ in range(2))
        pairs.append((source.tolist(), target.tolist(), random.dirichlet([0.3] * len(source), size=len(target))))
    return pairs


def counted(windows):
    counts = LinkCounts(VOCAB, VOCAB)
    for window in windows:
        counts.add(window)
    return counts


def likely_of(shortlist, source):
    return [piece for piece in shortlist.likely_VK[source].tolist() if piece != NO_PIECE]


@pytest.mark.parametrize("joint", [False, True])
def test_the_likely_pieces_are_those_that_are_linked_most(joint):
    pairs = pairs_of_text(1)
    made = counted([pairs[:25], pairs[25:]]).shortlist(frequent=4, likely=3, joint=joint)
    frequency = Counter(piece for _, target, _ in pairs for piece in target)
    order = sorted(range(VOCAB), key=lambda piece: (-frequency[piece], piece))
    frequent = {EOS, *order[:4]}
    assert set(made.frequent_F.tolist()) == frequent
    links = defaultdict(Counter)
    for source, target, weights_TS in pairs:
        for t, s in zip(*np.nonzero(weights_TS >= MIN_LINK_SHARE), strict=True):
            links[source[s]][target[t]] += weights_TS[t, s]
    for source in range(VOCAB):
        others = {piece: count for piece, count in links[source].items() if piece not in frequent}
        expected = sorted(others, key=lambda piece: (-others[piece], piece))[:3]
        assert likely_of(made, source) == expected + [source] * joint
    assert any(len(likely_of(made, source)) == 3 + joint for source in range(VOCAB))


def test_the_share_of_links_within_is_that_of_a_count_one_by_one():
    pairs = pairs_of_text(2)
    counts = counted([pairs])
    made = counts.shortlist(frequent=3, likely=2, joint=False)
    within = total = 0.0
    for source, target, weights_TS in pairs:
        for t, s in zip(*np.nonzero(weights_TS >= MIN_LINK_SHARE), strict=True):
            total += weights_TS[t, s]
            if target[t] in likely_of(made, source[s]) or target[t] in made.frequent_F.tolist():
                within += weights_TS[t, s]
    assert 0.3 < within / total < 0.95
    assert counts.link_coverage(made) == pytest.approx(within / total)
    everything = counts.shortlist(frequent=VOCAB, likely=1, joint=False)
    assert counts.link_coverage(everything) == pytest.approx(1.0)


def test_candidates_are_the_pieces_that_go_with_any_piece_of_the_source():
    made = counted([pairs_of_text(3)]).shortlist(frequent=5, likely=4, joint=True).without([7, 9])
    made.likely_VK[0] = 9  # of padding, which stands in no source
    sources = [[4, 5], [20, 7, 31], []]
    found = made.candidates(pad_sources(sources), VOCAB, 16)
    assert found.pieces_U.shape[0] % 16 == found.pieces_BW.shape[1] % 16 == 0
    said = []
    for row, source in enumerate(sources):
        allowed = set(made.frequent_F.tolist()).union(*(likely_of(made, piece) for piece in [*source, EOS]))
        pieces = found.pieces_BW[row][found.valid_BW[row]].tolist()
        assert pieces == sorted(allowed)
        assert found.pieces_U[found.columns_BW[row]].tolist() == found.pieces_BW[row].tolist()
        said.extend(pieces)
    assert {7, 9}.isdisjoint(said)
    assert set(found.pieces_U.tolist()) == set(said)


def test_what_was_written_is_read_again_and_for_other_tokenizers_refused(tmp_path):
    path, made = tmp_path / "shortlist", counted([pairs_of_text(4)]).shortlist(frequent=5, likely=4, joint=False)
    with path.open("wb") as out:
        write_shortlist(out, made, TOKENIZERS)
    for _ in range(20):  # safetensors by itself orders the metadata anew each time
        again_written = io.BytesIO()
        write_shortlist(again_written, made, TOKENIZERS)
        assert again_written.getvalue() == path.read_bytes()
    again = read_shortlist(path, TOKENIZERS, (VOCAB, VOCAB))
    assert torch.equal(again.likely_VK, made.likely_VK)
    assert torch.equal(again.frequent_F, made.frequent_F)
    with pytest.raises(ModelError, match="was made for another tokenizer than this model's; `nmt shortlist` makes one"):
        read_shortlist(path, {"source": "a", "target": "c"}, (VOCAB, VOCAB))


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (Shortlist(torch.tensor([VOCAB]), torch.zeros(VOCAB, 2, dtype=torch.int32)), "pieces that are not in the voc"),
        (Shortlist(torch.tensor([EOS]), torch.full((VOCAB, 2), -2)), "pieces that are not in the vocabulary"),
        (Shortlist(torch.tensor([NO_PIECE]), torch.zeros(VOCAB, 2, dtype=torch.int32)), "does not fit the vocabulary"),
        (Shortlist(torch.tensor([EOS]), torch.zeros(VOCAB - 1, 2, dtype=torch.int32)), "does not fit the vocabulary"),
        (Shortlist(torch.tensor([float(EOS)]), torch.zeros(VOCAB, 2)), "pieces that are not in the vocabulary"),
        (Shortlist(torch.tensor([EOS]), torch.zeros(VOCAB)), "is not a shortlist"),
    ],
)
def test_a_damaged_shortlist_is_refused(tmp_path, damaged, message):
    with (tmp_path / "shortlist").open("wb") as out:
        write_shortlist(out, damaged, TOKENIZERS)
    with pytest.raises(ModelError, match=message):
        read_shortlist(tmp_path / "shortlist", TOKENIZERS, (VOCAB, VOCAB))


def test_another_file_and_none_are_named(tmp_path):
    with pytest.raises(ModelError, match="shortlist: there is no such file; `nmt shortlist` makes a shortlist"):
        read_shortlist(tmp_path / "shortlist", TOKENIZERS, (VOCAB, VOCAB))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelError, match="pipe: is a directory, a pipe or a device; a shortlist is read from a file"):
        read_shortlist(tmp_path / "pipe", TOKENIZERS, (VOCAB, VOCAB))
    (tmp_path / "text").write_text("a line\n")
    with pytest.raises(ModelError, match="text: is not a whole safetensors file"):
        read_shortlist(tmp_path / "text", TOKENIZERS, (VOCAB, VOCAB))


def test_more_likely_pieces_than_there_are_links_cost_nothing():
    counts = counted([pairs_of_text(5)])
    wide = counts.shortlist(frequent=3, likely=10**30, joint=False)
    assert wide.likely_VK.shape[1] <= VOCAB
    usual = counts.shortlist(frequent=3, likely=VOCAB, joint=False)
    assert torch.equal(wide.likely_VK, usual.likely_VK)
