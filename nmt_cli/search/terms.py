"""The terms of many sentences as tensors, so that a step of the search needs no loop over its rows.

The forms of each term make a tree, whose edges are pieces. All trees share one numbering of their nodes, in which 0 is
no node.

Shapes: X sentences, J terms of a sentence, S source, Q nodes, D pieces after a node, F forms of a sentence, B pieces of
a form.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt_cli.search.constraints import Constraints

NO_PIECE = -1


class Terms:
    """The terms of each sentence; sentences with fewer terms are filled up with terms of root 0 and without places."""

    def __init__(self, constraints: Sequence[Constraints]) -> None:
        of_sentences = [own.terms for own in constraints]
        self._words = [own.words for own in constraints]
        self.roots_XJ = _padded([[0] * len(terms) for terms in of_sentences], 0)
        self.sizes_XJ = _padded([[term.size for term in terms] for terms in of_sentences], 0)
        """Pieces of the longest form."""
        self._places = [
            (sentence, number, list(term.places))
            for sentence, terms in enumerate(of_sentences)
            for number, term in enumerate(terms)
        ]
        trees = _Trees()
        for sentence, terms in enumerate(of_sentences):
            for number, term in enumerate(terms):
                self.roots_XJ[sentence, number] = trees.root(term.forms)
        # Short rows are filled with copies of their first entry: writing the same value twice does no harm.
        rows = [list(edges.items()) or [(NO_PIECE, 0)] for edges in trees.edges]
        width = max(map(len, rows))
        filled = torch.tensor([row + row[:1] * (width - len(row)) for row in rows])
        self.pieces_QD, self.nodes_QD = filled.unbind(dim=2)
        """The pieces that may follow a node, and the nodes that they lead to."""
        self.is_form_Q = torch.tensor([node in trees.ends for node in range(len(rows))])
        """True at a node if the pieces on the way to it are a form."""
        forms = [sorted({form for term in terms for form in term.forms}) for terms in of_sentences]
        longest = max((len(form) for own in forms for form in own), default=1)
        most = max(1, *map(len, forms))
        self.forms_XFB = torch.tensor(
            [[_aligned(form, longest) for form in own + [()] * (most - len(own))] for own in forms]
        )
        """The pieces of all forms of a sentence, aligned at the right, with `NO_PIECE` at the left."""

    def places_XJS(self, width: int) -> Tensor:
        """Return True at the source positions of each term."""
        found = torch.zeros(*self.roots_XJ.shape, width, dtype=torch.bool)
        for sentence, number, places in self._places:
            found[sentence, number, places] = True
        return found

    def words_XS(self, width: int) -> Tensor:
        """Return the number of each source position's word; positions without a number are words of their own."""
        return torch.tensor([[*words, *range(len(words), width)] for words in self._words])


class _Trees:
    def __init__(self) -> None:
        self.edges: list[dict[int, int]] = [{}]
        """For each node the pieces after it, each with the next node."""
        self.ends: set[int] = set()
        self._roots: dict[tuple[tuple[int, ...], ...], int] = {}

    def root(self, forms: tuple[tuple[int, ...], ...]) -> int:
        """Return the root of the tree of some forms."""
        if forms not in self._roots:
            self._roots[forms] = self._new()
            for form in forms:
                node = self._roots[forms]
                for piece in form:
                    node = self.edges[node].setdefault(piece, 0) or self._grown(node, piece)
                self.ends.add(node)
        return self._roots[forms]

    def _grown(self, node: int, piece: int) -> int:
        self.edges[node][piece] = new = self._new()
        return new

    def _new(self) -> int:
        self.edges.append({})
        return len(self.edges) - 1


def _aligned(form: Sequence[int], width: int) -> list[int]:
    return [NO_PIECE] * (width - len(form)) + list(form)


def _padded(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Return rows of one width, which is not zero."""
    width = max(1, *map(len, rows))
    return torch.tensor([[*row, *[value] * (width - len(row))] for row in rows], dtype=torch.long).view(-1, width)
