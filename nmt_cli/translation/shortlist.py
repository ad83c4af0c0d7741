"""A lexical shortlist: the few target pieces that a sentence is likely to need; the softmax covers these alone.

Jean et al. (2015), section 3.3: the most frequent target pieces and, for each source piece, those it is most often
aligned with. Here the alignments are a model's own, over parallel text.

Shapes: B sentences, S source, F frequent pieces, K likely pieces of a source piece, U pieces of a batch, W pieces of a
sentence, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nmt_cli.data.batch import SourceBatch, round_up
from nmt_cli.data.tokenizer import EOS
from nmt_cli.system.errors import ModelError
from nmt_cli.system.storage import read_metadata, read_tensors, tensors_as_bytes

MIN_LINK_SHARE = 0.05
"""Least attention of a target piece to a source piece that counts as a link between them."""
NO_PIECE = -1
"""Fills the rows of source pieces with fewer than K likely ones."""


class Candidates(NamedTuple):
    """The target pieces that the sentences of a batch may use."""

    pieces_U: Tensor
    """The pieces that any of the sentences may use."""
    pieces_BW: Tensor
    """The pieces that each sentence may use, in ascending order, padded at the end."""
    columns_BW: Tensor
    """Index in `pieces_U` of each piece of `pieces_BW`."""
    valid_BW: Tensor
    """False at the padding of `pieces_BW`."""

    @staticmethod
    def of(pieces_BW: Tensor, valid_BW: Tensor, vocab_size: int, multiple: int) -> Candidates:
        """Return the candidates of sentences that may use `pieces_BW`; U is rounded up to a multiple of `multiple`.

        The padding of `pieces_BW` must be pieces that some sentence may use.
        """
        allowed_V = torch.zeros(vocab_size, dtype=torch.bool, device=pieces_BW.device)
        allowed_V[pieces_BW.flatten()] = True
        pieces = allowed_V.nonzero().flatten()
        column_of_V = allowed_V.cumsum(0) - 1
        pieces_U = torch.cat([pieces, pieces[:1].expand(-len(pieces) % multiple)])
        return Candidates(pieces_U, pieces_BW, column_of_V[pieces_BW], valid_BW)

    def select(self, rows: Tensor) -> Candidates:
        """Return the candidates of the given sentences, in that order."""
        return Candidates(self.pieces_U, *(tensor[rows] for tensor in self[1:]))

    def join(self, other: Candidates, vocab_size: int, multiple: int) -> Candidates:
        """Return the candidates of the sentences of both, those of `other` last."""
        width = max(self.pieces_BW.shape[1], other.pieces_BW.shape[1])
        pieces, valid = [], []
        for part in (self, other):
            missing = (0, width - part.pieces_BW.shape[1])
            pieces.append(F.pad(part.pieces_BW, missing, value=int(part.pieces_U[0])))
            valid.append(F.pad(part.valid_BW, missing))
        return Candidates.of(torch.cat(pieces), torch.cat(valid), vocab_size, multiple)

    def to(self, device: torch.device) -> Candidates:
        """Return the candidates on `device`."""
        return Candidates(*(tensor.to(device) for tensor in self))


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The target pieces that go with each source piece."""

    frequent_F: Tensor
    """Pieces that any sentence may use."""
    likely_VK: Tensor
    """Likely target pieces of each source piece, with `NO_PIECE` at the end where there are fewer."""

    def without(self, pieces: Sequence[int]) -> Shortlist:
        """Return the shortlist without the given pieces, which must not be generated."""
        banned = torch.tensor(list(pieces), dtype=self.frequent_F.dtype)
        frequent_F = self.frequent_F[~torch.isin(self.frequent_F, banned)]
        return Shortlist(frequent_F, self.likely_VK.masked_fill(torch.isin(self.likely_VK, banned), NO_PIECE))

    def candidates(self, sources: SourceBatch, vocab_size: int, multiple: int) -> Candidates:
        """Return the candidates of each source; U and W are rounded up to multiples of `multiple`."""
        likely_BSK = self.likely_VK[sources.ids_BS].long()
        nothing_BSK = (likely_BSK == NO_PIECE) | ~sources.valid_BS.unsqueeze(-1)
        allowed_BV = torch.zeros(len(likely_BSK), vocab_size + 1, dtype=torch.bool)
        allowed_BV.scatter_(1, likely_BSK.masked_fill(nothing_BSK, vocab_size).flatten(1), value=True)
        allowed_BV = allowed_BV[:, :vocab_size].index_fill(1, self.frequent_F.long(), value=True)
        count_B = allowed_BV.sum(dim=1)
        valid_BW = torch.arange(round_up(int(count_B.max()), multiple)) < count_B.unsqueeze(1)
        pieces_BW = torch.full(valid_BW.shape, int(self.frequent_F[0]))
        pieces_BW[valid_BW] = allowed_BV.nonzero()[:, 1]
        return Candidates.of(pieces_BW, valid_BW, vocab_size, multiple)


class LinkCounts:
    """Counts of links between source and target pieces in parallel text."""

    def __init__(self, source_vocab_size: int, target_vocab_size: int) -> None:
        self._sizes = (source_vocab_size, target_vocab_size)
        self._frequency_V = np.zeros(target_vocab_size, dtype=np.int64)
        self._links = np.zeros(0, dtype=np.int64)
        """Each distinct link as a number, sorted: source piece x size of the target vocabulary + target piece."""
        self._counts: np.ndarray = np.zeros(0)

    def add(self, pairs: Sequence[tuple[Sequence[int], Sequence[int], np.ndarray]]) -> None:
        """Count the links of some pairs.

        Each pair has its source pieces, its target pieces, and the attention (target, source) between them.
        """
        links, shares = [self._links], [self._counts]
        for source, target, weights_TS in pairs:
            target_T = np.asarray(target, dtype=np.int64)
            places_T, places_S = np.nonzero(weights_TS >= MIN_LINK_SHARE)
            links.append(np.asarray(source, dtype=np.int64)[places_S] * self._sizes[1] + target_T[places_T])
            shares.append(weights_TS[places_T, places_S])
            np.add.at(self._frequency_V, target_T, 1)
        self._links, places = np.unique(np.concatenate(links), return_inverse=True)
        self._counts = np.bincount(places, weights=np.concatenate(shares), minlength=len(self._links))

    @property
    def has_links(self) -> bool:
        """True if any link has been counted."""
        return len(self._links) > 0

    def shortlist(self, *, frequent: int, likely: int, joint: bool) -> Shortlist:
        """Return the `frequent` most frequent target pieces, with </s>, and for each source piece the `likely` others
        that it is linked with most; with a `joint` vocabulary the piece itself too, as names stay what they are."""
        source_size, target_size = self._sizes
        ranked = np.argsort(-self._frequency_V, kind="stable")[:frequent]
        common = np.union1d(ranked[self._frequency_V[ranked] > 0], [EOS])
        sources, targets = np.divmod(self._links, target_size)
        order = np.lexsort((targets, -self._counts, sources))
        order = order[~np.isin(targets[order], common)]
        sources, targets = sources[order], targets[order]
        rank = np.arange(len(sources)) - np.searchsorted(sources, sources)
        likely = min(likely, int(rank.max(initial=0)) + 1)  # no source piece is linked with more
        near = rank < likely
        likely_VK = np.full((source_size, likely + joint), NO_PIECE, dtype=np.int32)
        likely_VK[sources[near], rank[near]] = targets[near]
        if joint:
            likely_VK[:, -1] = np.arange(source_size)
        return Shortlist(torch.from_numpy(common), torch.from_numpy(likely_VK))

    def link_coverage(self, shortlist: Shortlist) -> float:
        """Return the share of the counted links, weighted by attention, that the shortlist allows.

        It is a lower bound: another source piece of the sentence may allow the same target piece.
        """
        sources, targets = np.divmod(self._links, self._sizes[1])
        likely_LK = shortlist.likely_VK.numpy()[sources]
        allowed = (likely_LK == targets[:, None]).any(axis=1) | np.isin(targets, shortlist.frequent_F.numpy())
        return float(self._counts[allowed].sum() / max(self._counts.sum(), 1e-9))


def write_shortlist(out: IO[bytes], shortlist: Shortlist, tokenizers: Mapping[str, str]) -> None:
    """Write a shortlist with the fingerprints of the tokenizers whose pieces it names."""
    tensors = {"frequent": shortlist.frequent_F, "likely": shortlist.likely_VK}
    out.write(tensors_as_bytes(tensors, tokenizers))


def read_shortlist(path: Path, tokenizers: Mapping[str, str], vocab_sizes: tuple[int, int]) -> Shortlist:
    """Read a shortlist that `write_shortlist` wrote.

    Raises:
        ModelError: there is no such file, or it is no shortlist, is damaged, or was made for other tokenizers.
    """
    if not path.exists():
        raise ModelError(f"{path}: there is no such file; `nmt shortlist` makes a shortlist")
    if not path.is_file():
        raise ModelError(f"{path}: is a directory, a pipe or a device; a shortlist is read from a file")
    tensors = read_tensors(path)
    source_size, target_size = vocab_sizes
    frequent_F, likely_VK = tensors.get("frequent"), tensors.get("likely")
    if frequent_F is None or likely_VK is None or likely_VK.dim() != 2 or not frequent_F.numel():
        raise ModelError(f"{path}: is not a shortlist; `nmt shortlist` makes one")
    if read_metadata(path) != dict(tokenizers):
        raise ModelError(f"{path}: was made for another tokenizer than this model's; `nmt shortlist` makes one for it")
    for pieces in (frequent_F, likely_VK):
        if pieces.is_floating_point() or not bool(((pieces >= NO_PIECE) & (pieces < target_size)).all()):
            raise ModelError(f"{path}: is damaged: it names pieces that are not in the vocabulary")
    if likely_VK.shape[0] != source_size or int(frequent_F.min()) < 0:
        raise ModelError(f"{path}: is damaged: it does not fit the vocabulary")
    return Shortlist(frequent_F, likely_VK)
