"""Converts text to pieces and back; the only module that calls SentencePiece, except in exported models."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

import sentencepiece

from nmt_cli.system import signals
from nmt_cli.system.console import format_count
from nmt_cli.system.errors import InputError, ModelError

PAD, UNK, BOS, EOS = 0, 1, 2, 3
TRAINING_THREADS = 4  # a fixed number, so that a tokenizer depends on its text and not on the machine
MAX_TRAINING_BYTES = 16_384  # of one line; longer ones teach a tokenizer nothing more
SEGMENT_LENGTH = 65_536
"""Approximate number of characters of the parts into which `segments` cuts a long line, to bound the memory."""
MAX_MODEL_BYTES = 256_000_000
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class PieceWords:
    """A text in pieces, with the word to which each piece belongs; words are the raw text split at white space."""

    ids: tuple[int, ...]
    words: tuple[int, ...]
    """Index of the word of each piece, from 0; `num_words` for a tag."""
    num_words: int


CharSpan = tuple[int, int]
"""Indices of the first character of a part of a text, and of the character after the last."""
Table = TypeVar("Table")


class Tokenizer:
    """A trained SentencePiece model; `origin` is named in errors."""

    tags: tuple[int, ...] = ()
    """Ids of the tags with which every source begins, in a model of several directions; empty in other models."""

    def __init__(self, model: bytes, origin: str = "tokenizer") -> None:
        self.model = model
        self._computed: dict[Callable[[Tokenizer], Any], Any] = {}
        try:
            # SentencePiece takes an empty model without complaint and answers nonsense.
            if not model:
                raise RuntimeError
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            specials = (self._processor.pad_id(), self._processor.unk_id(), self._processor.bos_id())
        except (RuntimeError, ValueError) as error:
            raise ModelError(f"{origin}: is not a SentencePiece model, or damaged") from error
        if (*specials, self._processor.eos_id()) != (PAD, UNK, BOS, EOS):
            raise ModelError(f"{origin}: is a SentencePiece model that nmt did not train (its special pieces differ)")

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Return the tokenizer in a SentencePiece model file.

        Raises:
            ModelError: the file cannot be read, or is no such model.
        """
        try:
            if path.stat().st_size > MAX_MODEL_BYTES:
                raise ModelError(f"{path}: is too large for a SentencePiece model")
            return cls(path.read_bytes(), str(path))
        except OSError as error:
            raise ModelError(f"{path}: cannot be read: {error.strerror}") from error

    def with_tags(self, names: Iterable[str]) -> Tokenizer:
        """Return a tokenizer with the same model whose sources begin with the tags `names`.

        Names that are not tags of the vocabulary are ignored. A tag is a control piece, so text is never segmented
        into it.
        """
        found = (self._processor.piece_to_id(name) for name in names)
        tags = tuple(id_ for id_ in found if id_ > EOS and self._processor.is_control(id_))
        if tags == self.tags:
            return self
        other = copy(self)
        other.tags = tags
        return other

    def prepend_tags(self, ids: Sequence[int]) -> list[int]:
        """Return the tags followed by the ids of a source; an empty source gets no tags."""
        return [*self.tags, *ids] if ids else []

    def prepend_tags_to_words(self, pieces: PieceWords) -> PieceWords:
        """Return the tags followed by the pieces of a source; the word index of a tag is `num_words`, beyond the last.

        An empty source gets no tags.
        """
        if not pieces.ids or not self.tags:
            return pieces
        words = (*(pieces.num_words for _ in self.tags), *pieces.words)
        return PieceWords((*self.tags, *pieces.ids), words, pieces.num_words)

    def has_same_model(self, other: Tokenizer) -> bool:
        """Return True if both tokenizers hold the same model in memory, whatever their tags."""
        return self.model is other.model

    def compute_once(self, make: Callable[[Tokenizer], Table]) -> Table:
        """Return `make(self)`, a table that depends on the vocabulary alone.

        It is computed once for this tokenizer and its copies with other tags.
        """
        if make not in self._computed:  # two threads may both make it
            self._computed[make] = make(self.with_tags(()))
        made: Table = self._computed[make]
        return made

    @property
    def vocab_size(self) -> int:
        """Number of pieces, with the special ones."""
        return int(self._processor.get_piece_size())

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the model file, in hexadecimal digits."""
        return hashlib.sha256(self.model).hexdigest()

    @property
    def has_byte_fallback(self) -> bool:
        """True if the model has byte fallback: any character can be spelt in bytes, so none is unknown."""
        return bool(self._processor.is_byte(self._processor.piece_to_id("<0x0A>")))

    def banned_ids(self) -> tuple[int, ...]:
        """Return the ids that no translation may have: padding, <s>, tags, line feeds, and <unk> with byte fallback."""
        line_feed = (self._processor.piece_to_id("<0x0A>"),) if self.has_byte_fallback else ()
        return (PAD, BOS, *((UNK,) if self.has_byte_fallback else ()), *self._tag_ids(), *line_feed)

    @property
    def has_tags(self) -> bool:
        """True if the vocabulary has tags, as for a model of several directions."""
        return any(self._tag_ids())

    def _tag_ids(self) -> Iterator[int]:
        """Yield the ids of all tags, which lie between </s> and the user-defined symbols."""
        return takewhile(self._processor.is_control, range(EOS + 1, self.vocab_size))

    def fixed_ids(self) -> frozenset[int]:
        """Return the ids that segmentation does not choose: special pieces, user-defined symbols and bytes."""
        first_byte = self._processor.piece_to_id("<0x00>") if self.has_byte_fallback else EOS + 1
        special = (self._processor.is_control, self._processor.is_unknown, self._processor.is_byte)
        return frozenset(
            id_ for id_ in range(self.vocab_size) if id_ < first_byte or any(is_special(id_) for is_special in special)
        )

    def symbols(self) -> frozenset[str]:
        """Return the user-defined symbols, each of which is one piece wherever it occurs in a text."""
        first_byte = self._processor.piece_to_id("<0x00>") if self.has_byte_fallback else EOS + 1
        return frozenset(self.pieces(range(EOS + 1 + sum(1 for _ in self._tag_ids()), first_byte)))

    def scores(self) -> list[float]:
        """Return the score of each piece: its log-probability (unigram), or minus the rank of its merge (BPE)."""
        return [float(self._processor.get_score(id_)) for id_ in range(self.vocab_size)]

    @property
    def is_bpe(self) -> bool:
        """True if the model is BPE, which is recognised by scores that are whole numbers."""
        return all(score.is_integer() for score in self.scores())

    def encode(self, text: str) -> list[int]:
        """Return the ids of the text's best segmentation, without <s> and </s>."""
        return list(self._processor.encode(text))

    def encode_all(self, texts: Sequence[str], *, threads: int = 1) -> list[list[int]]:
        """Return the result of `encode` for each text, computed by `threads` threads."""
        if len(texts) == 1:
            return [self.encode(texts[0])]  # SentencePiece would start a thread, which takes longer than the text
        return [list(ids) for ids in self._processor.encode(list(texts), num_threads=threads)]

    def encode_words(self, text: str) -> PieceWords:
        """Return the text's pieces, each with the index of its word."""
        return _with_words(text, *self.encode_spans(text))

    def unknown_runs(self, text: str) -> dict[int, int]:
        """Return the runs of two or more words that one unknown piece covers, as {first index: last index + 1}."""
        word_at, _ = _word_at(text)
        unknown = [span for id_, span in zip(*self.encode_spans(text), strict=True) if id_ == UNK]
        return {
            word_at[begin]: word_at[begin] + num_words
            for begin, end in unknown
            if (num_words := len(text[begin:end].split())) > 1  # blanks may be of an unknown piece, or be one
        }

    def encode_spans(self, text: str) -> tuple[list[int], list[CharSpan]]:
        """Return the ids of the text's pieces, and the span of the text (in characters) of each."""
        found = self._processor.encode(text, return_type="offset_mapping")
        return list(found["ids"]), [(int(begin), int(end)) for begin, end in found["offsets"]]

    def decode_spans(self, ids: Sequence[int]) -> tuple[str, list[CharSpan]]:
        """Return the text of piece ids, and the span in this text (in characters) of each piece."""
        found = self._processor.decode(list(ids), return_type="offset_mapping")
        return _one_line(found["text"]), [(int(begin), int(end)) for begin, end in found["offsets"]]

    def piece_bytes(self) -> list[bytes | None]:
        """Return the bytes that each piece spells, with "▁" for a blank; None for pieces that spell nothing."""
        pieces = self.pieces(range(self.vocab_size))
        is_special = (self._processor.is_control, self._processor.is_unknown)
        return [
            None if any(is_so(id_) for is_so in is_special) else self._byte(id_) or piece.encode()
            for id_, piece in enumerate(pieces)
        ]

    def byte_ids(self) -> dict[bytes, int]:
        """Return the ids of the pieces of byte fallback, by their byte."""
        return {byte: id_ for id_ in range(self.vocab_size) if (byte := self._byte(id_)) is not None}

    def _byte(self, id_: int) -> bytes | None:
        return bytes([int(self._processor.id_to_piece(id_)[3:5], 16)]) if self._processor.is_byte(id_) else None

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of piece ids, always one line."""
        return _one_line(self._processor.decode(list(ids)))

    def join(self, pieces: Sequence[str]) -> tuple[str, int]:
        """Return the text of pieces that are written as in the vocabulary, and how many of them are not in it.

        A piece that is not in the vocabulary is copied into the text as it is.
        """
        text = self._processor.decode_pieces(list(pieces)).replace("▁", " ")
        if pieces and pieces[0].startswith("▁"):
            text = text.removeprefix(" ")
        num_foreign = self.ids_of(pieces).count(UNK) - pieces.count(self.pieces([UNK])[0])
        return _one_line(text), num_foreign

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each of these piece ids, as written in the vocabulary."""
        return [self._processor.id_to_piece(id_) for id_ in ids]

    def ids_of(self, pieces: Sequence[str]) -> list[int]:
        """Return the ids of pieces as written in the vocabulary; unknown ones give <unk>."""
        return [self._processor.piece_to_id(piece) for piece in pieces]


def without_symbols(lines: Iterable[str], symbols: Collection[str]) -> Iterator[str]:
    """Yield lines without the symbols of a tokenizer and the blanks after them: marks such as <BT> are no text."""
    if not symbols:
        yield from lines
        return
    longest_first = sorted(symbols, key=len, reverse=True)
    pattern = re.compile(rf"(?:{'|'.join(map(re.escape, longest_first))})\s*")
    for line in lines:
        yield pattern.sub("", line)


def segments(text: str, mark: str = " ") -> Iterator[str]:
    """Yield the parts of a long line, cut where encoding (or joining) the parts gives the same as the whole line.

    Each part except the first begins with `mark`: a space in text, a space and "▁" in pieces.
    """
    start = 0
    while start < len(text):
        end = text.find(mark, start + SEGMENT_LENGTH)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end


def train_tokenizer(
    lines: Iterable[str],
    *,
    model_type: str,
    vocab_size: int,
    normalization: str,
    character_coverage: float,
    symbols: Sequence[str] = (),
    tags: Sequence[str] = (),
) -> Tokenizer:
    """Return a SentencePiece tokenizer trained on lines of text; `symbols` are always pieces of their own.

    `tags` become control pieces. Text is never segmented into them, even where it has the same characters.

    Raises:
        InputError: there is no text, or it does not allow this size of the vocabulary; the message names a size that
            is possible.
    """
    model = io.BytesIO()
    seen = _LineCounter(lines)
    try:
        with signals.exiting_at_once():
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(seen),
                model_writer=model,
                model_type=model_type,
                vocab_size=vocab_size,
                # Every word or character of a small text is a vocabulary of its own size.
                hard_vocab_limit=model_type in ("unigram", "bpe"),
                normalization_rule_name=normalization,
                character_coverage=character_coverage,
                byte_fallback=model_type != "word",
                user_defined_symbols=list(symbols),
                control_symbols=list(tags),
                pad_id=PAD,
                unk_id=UNK,
                bos_id=BOS,
                eos_id=EOS,
                num_threads=TRAINING_THREADS,
                max_sentence_length=MAX_TRAINING_BYTES,
                minloglevel=2,
            )
    except RuntimeError as error:
        if seen.failure is not None:
            raise seen.failure from None
        raise InputError(_explain(str(error), model_type, vocab_size, seen.count)) from error
    if not model.getvalue():
        raise InputError("the tokenizer cannot be trained: the text has no characters")
    return Tokenizer(model.getvalue())


class _LineCounter:
    """Iterates over the lines that the trainer can take, which are not blank and not too long, and counts them."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self.count = 0
        self.failure: BaseException | None = None
        """The exception that ended the lines early, which may be a signal's. SentencePiece raises its own instead."""

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self._lines:
                if line.strip() and len(line.encode()) < MAX_TRAINING_BYTES:
                    self.count += 1
                    yield line.replace("\0", " ")
        except GeneratorExit:  # nobody asks for more
            raise
        except BaseException as failure:
            self.failure = failure
            raise


def _explain(message: str, model_type: str, vocab_size: int, num_lines: int) -> str:
    if num_lines == 0:
        return (
            "the tokenizer cannot be trained: the training text has no line with text in it that is shorter than "
            f"{MAX_TRAINING_BYTES:,} bytes"
        )
    if model_type == "char" and "(vocab_size) >= (0)" in message:
        return (
            f"tokenizer.vocab_size: {vocab_size} is too small: 256 bytes and four special pieces are in it before any "
            "symbol or character; set it to more"
        )
    if too_high := re.search(r"Vocabulary size too high .*<= (\d+)", message):
        return (
            f"tokenizer.vocab_size: {vocab_size} is more than this text of {format_count(num_lines, 'line')} allows; "
            f"set it to {too_high[1]} or less"
        )
    if too_low := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return (
            f"tokenizer.vocab_size: {vocab_size} is too small: the text's characters, 256 bytes and the special "
            f"pieces need {too_low[1]}; set it to more, or lower tokenizer.character_coverage"
        )
    return f"the tokenizer cannot be trained: {message}"


def _one_line(text: str) -> str:
    """Return the text with line feeds replaced by blanks.

    Bytes may spell a line feed even where the piece for it is banned, by an overlong or split sequence.
    """
    return text.replace("\n", " ")


def _word_at(text: str) -> tuple[list[int], int]:
    """Return the index of the word at each character, or of the next word at a blank, and the number of words.

    The characters after the end of the last word are left out.
    """
    word_at: list[int] = []
    num_words = 0
    for match in _WORD.finditer(text):
        word_at.extend([num_words] * (match.end() - len(word_at)))
        num_words += 1
    return word_at, num_words


def _with_words(text: str, ids: Sequence[int], spans: Sequence[CharSpan]) -> PieceWords:
    """Return each piece with the word that holds its first visible character."""
    word_at, num_words = _word_at(text)
    last = max(num_words - 1, 0)
    words = tuple(word_at[begin] if begin < len(word_at) else last for begin, _ in spans)
    return PieceWords(tuple(ids), words, num_words)
