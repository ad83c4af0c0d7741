"""The terms of many sentences as tries in tensors, so that a step of the search needs no loop over its rows.

The forms (allowed translations) of each term make a trie, whose edges are pieces (Hu et al., 2019). All tries share one
numbering of their nodes, in which 0 is no node.

Shapes: X sentences, J terms of a sentence, S source, Q nodes, D pieces after a node, F forms of a sentence, B pieces of
a form, P positions of a term, N rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt_cli.search.constraints import Constraints

NO_PIECE = -1


class TermTries:
    """The tries of the terms of each sentence; sentences with fewer terms are filled up with root 0."""

    def __init__(self, constraints: Sequence[Constraints]) -> None:
        of_sentences = [own.terms for own in constraints]
        self._words = [own.piece_words for own in constraints]
        self.roots_XJ = _padded([[0] * len(terms) for terms in of_sentences], 0)
        self.sizes_XJ = _padded([[term.size for term in terms] for terms in of_sentences], 0)
        """Number of pieces of each term's longest form; 0 where there is no term."""
        self.is_known_XJ = _padded([[term.is_known for term in terms] for terms in of_sentences], 0).bool()
        self._places = [
            (sentence, number, list(term.places))
            for sentence, terms in enumerate(of_sentences)
            for number, term in enumerate(terms)
        ]
        tries = _Tries()
        for sentence, terms in enumerate(of_sentences):
            for number, term in enumerate(terms):
                self.roots_XJ[sentence, number] = tries.root(term.forms)
        # Short rows are filled with copies of their first entry: writing the same value twice does no harm.
        rows = [list(edges.items()) or [(NO_PIECE, 0)] for edges in tries.edges]
        width = max(map(len, rows))
        filled = torch.tensor([row + row[:1] * (width - len(row)) for row in rows])
        self.pieces_QD, self.nodes_QD = filled.unbind(dim=2)
        """The pieces that may follow a node, and the nodes that they lead to. Short rows repeat their first entry; a
        node that nothing may follow has `NO_PIECE` and node 0."""
        self.is_form_Q = torch.tensor([node in tries.ends for node in range(len(rows))])
        """True at a node if the pieces on the path from the root to it are a whole form."""
        self.first_XJD = self.pieces_QD[self.roots_XJ].clamp(min=0)
        """The pieces that begin each term; arbitrary pieces where there is no term."""
        forms = [sorted({form for term in terms for form in term.forms}) for terms in of_sentences]
        longest = max((len(form) for own in forms for form in own), default=1)
        most = max(1, *map(len, forms))
        self.forms_XFB = torch.tensor(
            [[_aligned(form, longest) for form in own + [()] * (most - len(own))] for own in forms]
        )
        """The pieces of all forms of a sentence, aligned at the right, with `NO_PIECE` at the left."""

    def positions(self, width: int) -> TermPositions:
        """Return the source positions of all terms, which are valid for sources of at most `width` positions."""
        most = max((len(places) for _, _, places in self._places), default=1)
        places_XJP = torch.full((*self.roots_XJ.shape, most), width)
        for sentence, number, places in self._places:
            places_XJP[sentence, number, : len(places)] = torch.tensor(places).clamp(max=width)
        # Positions without a number are words of their own.
        words_XS = torch.tensor([[*words[:width], *range(len(words), width)] for words in self._words])
        return TermPositions(width, places_XJP, words_XS)


class TermPositions:
    """Source positions of the terms of each sentence, with masks of them and sums of the attention on them."""

    def __init__(self, width: int, places_XJP: Tensor, words_XS: Tensor) -> None:
        """Store the positions of each term, filled up with `width`, and the word of each position."""
        self.width, self._places_XJP, self._words_XS = width, places_XJP, words_XS
        self._words_XJP = F.pad(words_XS, (0, 1), value=-1).gather(1, places_XJP.flatten(1)).view(places_XJP.shape)

    def mask_of_terms(self, sentences_N: Tensor, chosen_NJ: Tensor) -> Tensor:
        """Return a mask (N, S), True at the source positions of each row's chosen terms."""
        found_NS = torch.zeros(len(sentences_N), self.width + 1, dtype=torch.bool)
        return self._mark(found_NS, sentences_N, chosen_NJ, mark=True)[:, :-1]

    def mask_of_terms_only(self, sentences_N: Tensor, chosen_NJ: Tensor) -> Tensor:
        """Return a mask (N, S), True at source positions that belong to chosen terms and to no other term."""
        found_NS = torch.zeros(len(sentences_N), self.width + 1, dtype=torch.bool)
        found_NS = self._mark(found_NS, sentences_N, chosen_NJ, mark=True)
        return self._mark(found_NS, sentences_N, ~chosen_NJ, mark=False)[:, :-1]

    def _mark(self, found_NS: Tensor, sentences_N: Tensor, chosen_NJ: Tensor, *, mark: bool) -> Tensor:
        places_NJP = self._places_XJP[sentences_N].masked_fill(~chosen_NJ.unsqueeze(2), self.width)
        return found_NS.scatter_(1, places_NJP.flatten(1), mark)

    def attention(self, sentences_N: Tensor, weights_NS: Tensor) -> Tensor:
        """Return the attention (N, J) of each row on each term, summed over the positions of the term."""
        places_NJP = self._places_XJP[sentences_N]
        weights_NJP = self._padded(weights_NS, 1).gather(1, places_NJP.flatten(1)).view(places_NJP.shape)
        return weights_NJP.sum(dim=2)

    def most_attended_words(self, sentences_N: Tensor, weights_NS: Tensor) -> Tensor:
        """Return the number (N) of the source word to which each row attends most."""
        weights_NS = self._padded(weights_NS)
        return torch.zeros_like(weights_NS).scatter_add(1, self._words_XS[sentences_N], weights_NS).argmax(dim=1)

    def _padded(self, weights_NS: Tensor, more: int = 0) -> Tensor:
        """Return attention weights, padded with zeros to `self.width + more` source positions."""
        return F.pad(weights_NS, (0, self.width - weights_NS.shape[1] + more))

    def terms_of_words(self, sentences_N: Tensor, words_N: Tensor) -> Tensor:
        """Return a mask (N, J), True at the terms that contain the given source word (N) of the row."""
        return (self._words_XJP[sentences_N] == words_N.view(-1, 1, 1)).any(dim=2)


class _Tries:
    def __init__(self) -> None:
        self.edges: list[dict[int, int]] = [{}]
        """For each node, by its number, the pieces that may follow it, each with the node that it leads to."""
        self.ends: set[int] = set()
        self._roots: dict[tuple[tuple[int, ...], ...], int] = {}

    def root(self, forms: tuple[tuple[int, ...], ...]) -> int:
        """Return the root node of the trie of some forms, which is added if there is none yet."""
        if forms not in self._roots:
            self._roots[forms] = self._new_node()
            for form in forms:
                node = self._roots[forms]
                for piece in form:
                    node = self.edges[node].setdefault(piece, 0) or self._add_node(node, piece)
                self.ends.add(node)
        return self._roots[forms]

    def _add_node(self, node: int, piece: int) -> int:
        self.edges[node][piece] = new = self._new_node()
        return new

    def _new_node(self) -> int:
        self.edges.append({})
        return len(self.edges) - 1


def _aligned(form: Sequence[int], width: int) -> list[int]:
    return [NO_PIECE] * (width - len(form)) + list(form)


def _padded(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Return the rows as a tensor, filled up with `value` to one width of at least 1."""
    width = max(1, *map(len, rows))
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows], dtype=torch.long).view(-1, width)
