"""Given beginnings of translations (*prefixes*), which are kept byte for byte; the search continues them.

The model reads the pieces of the whole words of a prefix before the search. The last word may be the beginning of a
longer word, which may be cut into other pieces. So the search spells the last word anew: each piece must continue
the spelling of the rest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from nmt_cli.data.tokenizer import EOS, UNK, Tokenizer
from nmt_cli.search.constraints import ACCEPTING, Constraints
from nmt_cli.text.edits import Span

BLANK = "▁".encode()
MAX_REST_CHARACTERS = 16
"""Characters at the end of a prefix that the search may cut into other pieces; longer words keep their first pieces."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """The beginning of one translation, and its pieces."""

    text: str
    head: tuple[int, ...]
    """Pieces that the model reads before the search."""
    head_spans: tuple[Span, ...]
    """The characters of each piece of `head` in the text."""
    rest: bytes
    """Bytes that the search spells anew after `head`, with "▁" for a blank."""
    automaton: tuple[dict[int, int], ...]
    """Pieces that may follow `head`: they spell `rest`, or begin a word after a blank (see `Constraints.automaton`)."""

    @property
    def constraints(self) -> Constraints:
        """The prefix as constraints on the search."""
        return Constraints(beginning=self.head, automaton=self.automaton)

    @property
    def num_pieces(self) -> int:
        """The most pieces that the prefix itself takes."""
        return len(self.head) + max(len(self.rest), 1)

    def decode_spans(self, ids: Sequence[int], index: PieceIndex) -> tuple[str, list[Span]]:
        """Return the text of a translation's pieces, which begins with the prefix, and the characters of each piece.

        A piece that spells some of the prefix's last word has the characters of this whole word.
        """
        whole, spans = index.tokenizer.decode_spans(ids)
        first, overhang = self.pieces_within(ids, index)
        # A blank at the end of the prefix stands for the one before the next piece.
        cut = (spans[first - 1][1] if first else 0) - len(overhang.decode(errors="ignore"))
        going_on = whole[cut:]
        if self.text[-1:].isspace():
            skipped = len(going_on) - len(going_on.lstrip(" "))
            cut, going_on = cut + skipped, going_on[skipped:]
        own = len(self.text)
        last = (own - len(self.text.split()[-1]) if self.text.strip() else 0), own
        behind = [(max(begin - cut, 0) + own, max(end - cut, 0) + own) for begin, end in spans[first:]]
        return self.text + going_on, [*self.head_spans, *[last] * (first - len(self.head)), *behind]

    def pieces_within(self, ids: Sequence[int], index: PieceIndex) -> tuple[int, bytes]:
        """Return how many pieces of a translation spell the prefix, and the bytes that the last spells beyond it."""
        first, overhang = len(self.head), b""
        left = len(self.rest)
        while left > 0 and first < len(ids):
            spelling = index.piece_bytes[ids[first]] or self.rest
            overhang = spelling[left:]
            left -= len(spelling)
            first += 1
        return first, overhang


class PieceIndex:
    """The pieces of a tokenizer, found by their spelling in bytes."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.piece_bytes = tokenizer.piece_bytes()
        self._bytes = tokenizer.byte_ids()
        banned = {*tokenizer.banned_ids(), *self._bytes.values()}
        self._sorted = sorted(
            (spelling, id_) for id_, spelling in enumerate(self.piece_bytes) if spelling and id_ not in banned
        )
        self._ids = dict(self._sorted)
        self._longest = max((len(spelling) for spelling, _ in self._sorted), default=0)
        self._word_start_transitions: dict[int, int] = {}

    def automaton(self, rest: bytes) -> tuple[dict[int, int], ...]:
        """Return the automaton of all pieces that together spell `rest` or begin with it (see `Constraints.automaton`).

        State i is reached after the first i bytes of `rest`. A character that has a piece of its own is not spelt
        by pieces of single bytes.
        """
        return tuple(self._transitions(rest, place) for place in range(len(rest)))

    def _transitions(self, rest: bytes, place: int) -> dict[int, int]:
        left = rest[place:]
        byte = self._bytes.get(left[:1])
        if left[0] & 0xC0 == 0x80:  # in the middle of a character
            return {} if byte is None else {byte: self._state(rest, place + 1)}
        found = dict.fromkeys(self._pieces_starting_with(left), ACCEPTING)
        for length in range(1, min(len(left), self._longest + 1)):
            id_ = self._ids.get(left[:length])
            if id_ is not None:
                found[id_] = self._state(rest, place + length)
        if byte is not None and _first_character(left) not in self._ids:
            found[byte] = self._state(rest, place + 1)
        return found

    @staticmethod
    def _state(rest: bytes, place: int) -> int:
        return place if place < len(rest) else ACCEPTING

    def _pieces_starting_with(self, spelling: bytes) -> Iterator[int]:
        start = bisect_left(self._sorted, (spelling, -1))
        for found, id_ in islice(self._sorted, start, None):
            if not found.startswith(spelling):
                return
            yield id_

    def word_start_transitions(self) -> dict[int, int]:
        """Return the pieces that may follow white space (those that begin a word, and </s>), each with `ACCEPTING`."""
        if not self._word_start_transitions:
            self._word_start_transitions = dict.fromkeys((*self._pieces_starting_with(BLANK), EOS), ACCEPTING)
        return self._word_start_transitions


def prefix_of(text: str, index: PieceIndex) -> Prefix:
    """Return the `Prefix` of a text. A text without pieces, such as a removed tag, does not constrain the search."""
    found, own = index.tokenizer.encode_spans(text)
    ids, spans = tuple(found), tuple(own)
    if text[-1:].isspace():
        return Prefix(text, ids, spans, b"", (index.word_start_transitions(),) if ids else ())
    if not ids:
        return Prefix(text, (), (), b"", ())
    first = _last_word(ids, index)
    spelt = [index.piece_bytes[id_] for id_ in ids[first:]]
    rest = b"".join(spelling for spelling in spelt if spelling is not None)
    if any(spelling is None for spelling in spelt) or ids[first] == UNK:
        return Prefix(text, ids, spans, b"", ())
    return Prefix(text, ids[:first], spans[:first], rest, index.automaton(rest))


def _last_word(ids: Sequence[int], index: PieceIndex) -> int:
    """Return the index of the first piece that the search may cut anew, in the last word or the end of a long one."""
    first, length = len(ids), 0
    while first > 0:
        spelling = index.piece_bytes[ids[first - 1]]
        length += 0 if spelling is None else sum(byte & 0xC0 != 0x80 for byte in spelling)
        if first < len(ids) and length > MAX_REST_CHARACTERS:
            break
        first -= 1
        if spelling is None or spelling.startswith(BLANK):
            break
    # A character that is spelt in bytes stays whole.
    while 0 < first < len(ids) and _is_continuation_byte(ids, first, index):
        first -= 1
    return first


def _is_continuation_byte(ids: Sequence[int], place: int, index: PieceIndex) -> bool:
    """Return whether piece `place` is a byte of a character that an earlier piece begins."""
    spelling = index.piece_bytes[ids[place]] or b""
    return len(spelling) == 1 and spelling[0] & 0xC0 == 0x80


def _first_character(spelling: bytes) -> bytes:
    return spelling.decode(errors="ignore")[:1].encode()
