"""Lines in, as many translations out, in the same order, whatever the lines hold.

A window of lines is cut into jobs (a line, or a part of one that is too long), jobs of like length share a batch, and
every result finds its own place again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, zip_longest
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from nmt_cli.console import counted, log, warn
from nmt_cli.data.batch import make_batch, pad_sources, round_up
from nmt_cli.data.lines import decode_line
from nmt_cli.data.tokenizer import BOS, EOS, SEGMENT_LENGTH, PieceWords, Tokenizer
from nmt_cli.search.beam import BeamOptions, Observer, beam_search
from nmt_cli.search.hypothesis import Hypothesis, SearchState, Vocabulary
from nmt_cli.search.sampling import sample
from nmt_cli.translation.alignment import Link, Matrix, hard_links, merge_to_words
from nmt_cli.translation.markup import UNKNOWN, PlainLine, restore, strip_tags
from nmt_cli.translation.step_model import MULTIPLE, TrainedModels
from nmt_cli.translation.windows import WINDOW_SIZE

ROUND_LENGTH = 4_000_000
"""Characters whose pieces are held in memory at once."""
MAX_WEIGHTS = 16_000_000
"""Word pairs of a line beyond which it has hard links but no matrix of weights."""
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TranslatorOptions:
    """How to translate."""

    beam_size: int = 5
    length_penalty: float = 1.0
    n_best: int = 1
    no_repeat_ngram: int = 0
    max_source_pieces: int = 250
    max_length_a: float = 2.0
    max_length_b: int = 20
    batch_tokens: int = 16384
    """Rows of the beam times positions of the padded sources in one batch."""
    with_alignment: bool = False
    copy_unknown: bool = False
    """Words that the model does not know are copied from where it looked."""
    keep_markup: bool = False
    """Tags and placeholders are carried across. Both need `with_alignment`, whose words are those without tags."""
    sampling_temperature: float | None = None
    """None searches; else hypotheses are drawn, `n_best` a line."""
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation of a line."""

    text: str
    log_prob: float
    score: float
    weights: Matrix | None = None
    """Attention between words (target words, source words); None where it was not asked for, or would be too large."""
    links: tuple[Link, ...] | None = None
    """Each target word with its heaviest source word; None where it was not asked for."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A line and its translations, best first, or as they were drawn; there is always one."""

    source: str
    translations: tuple[Translation, ...]


@dataclass(frozen=True, slots=True)
class PairScore:
    """A given pair under the model."""

    log_prob: float
    """Natural log-probability of the target with its </s>, not normalised."""
    weights: Matrix
    piece_weights: Matrix
    source_pieces: tuple[str, ...]
    target_pieces: tuple[str, ...]


@dataclass(slots=True)
class Counts:
    """What is told at the end."""

    lines: int = 0
    blank: int = 0
    invalid: int = 0
    cut: int = 0
    without_weights: int = 0
    unpaired_tags: int = 0
    """Lines with a tag that has no partner."""
    source_pieces: int = 0
    target_pieces: int = 0

    def add(self, other: Counts) -> None:
        """Count in what another translator counted."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def report(self, max_source_pieces: int) -> None:
        """Say on stderr what happened to lines that were not ordinary."""
        if self.invalid:
            warn(f"{counted(self.invalid, 'line')} not valid UTF-8; U+FFFD stands for their invalid bytes")
        if self.cut:
            warn(f"{counted(self.cut, 'line')} of more than {max_source_pieces} pieces translated in parts")
        if self.without_weights:
            warn(
                f"{counted(self.without_weights, 'line')} too long for a matrix of weights, with hard links but "
                "no soft alignment, and neither markup nor unknown words carried across"
            )
        if self.unpaired_tags:
            warn(
                f"{counted(self.unpaired_tags, 'line')} with a tag that is not closed, or closed but not opened; such "
                "a tag is kept, but encloses no words"
            )


class _Segment(NamedTuple):
    """A line, or so much of a long one as is cut into pieces at once."""

    line: int
    text: str
    first_word: int
    """The number of its first word in the line."""


@dataclass(frozen=True, slots=True)
class _Job:
    """Pieces to translate together: a line, or a part of a long one."""

    line: int
    number: int
    """Of the line in the whole input, from 0."""
    part: int
    ids: tuple[int, ...]
    words: tuple[int, ...]
    """Of each piece, the number of its word in the line; empty where no alignment is wanted."""


class _Part(NamedTuple):
    """A translation of a job."""

    text: str
    log_prob: float
    score: float
    first_word: int
    """The number of its first source word in the line."""
    weights: Matrix | None
    """Attention of its target words to its own source words; None where no alignment is wanted, or no more than its
    links."""
    num_words: int = 0
    """Of the target."""
    links: tuple[Link, ...] = ()
    """In place of the weights."""

    def without_weights(self) -> _Part:
        """With its links alone, which take far less memory."""
        return self if self.weights is None else self._replace(weights=None, links=tuple(hard_links(self.weights)))


class _Pair(NamedTuple):
    """A pair to force-decode."""

    place: int
    source: PieceWords
    target: PieceWords


@dataclass(slots=True)
class Translator:
    """Translates lines with one model or several."""

    models: TrainedModels
    tokenizers: tuple[Tokenizer, Tokenizer]
    options: TranslatorOptions
    counts: Counts = field(default_factory=Counts)
    first_line: int = 0
    """The number of the first line in the whole input, of which this may be a part: samples belong to it."""

    def translate_window(self, lines: Sequence[bytes], observe: Observer | None = None) -> list[Translated]:
        """The translation of each line, in order."""
        texts = []
        for line in lines:
            text, is_valid = decode_line(line)
            self.counts.invalid += not is_valid
            texts.append(text)
        if self.options.keep_markup:
            symbols = self.tokenizers[0].symbols()
            plain = [strip_tags(text, symbols) for text in texts]
            self.counts.unpaired_tags += sum(line.has_unpaired_tag for line in plain)
        else:
            plain = [PlainLine(text, ()) for text in texts]
        parts: list[list[list[_Part]]] = [[] for _ in lines]
        num_words = [0] * len(lines)
        for segments in _rounds([line.text for line in plain], with_words=self.options.with_alignment):
            jobs = self._jobs(segments, [len(line_parts) for line_parts in parts])
            results: dict[tuple[int, int], list[_Part]] = {}
            for group, at_once in self._groups(jobs):
                for job, hypotheses in self._translations(group, at_once, observe):
                    results[job.line, job.part] = [self._finish(job, hypothesis) for hypothesis in hypotheses]
            for job in jobs:
                parts[job.line].append(results[job.line, job.part])
            if self.options.with_alignment:
                for segment in segments:
                    num_words[segment.line] = segment.first_word + len(segment.text.split())
                for place in {segment.line for segment in segments}:
                    if not _fits_a_matrix(parts[place], num_words[place]):
                        parts[place] = [[part.without_weights() for part in ranked] for ranked in parts[place]]
        self.counts.lines += len(lines)
        self.counts.blank += sum(not line_parts for line_parts in parts)
        self.counts.cut += sum(len(line_parts) > 1 for line_parts in parts)
        joined = [
            _joined(line_parts, words, with_alignment=self.options.with_alignment)
            for line_parts, words in zip(parts, num_words, strict=True)
        ]
        if self.options.with_alignment:
            self.counts.without_weights += sum(found[0].weights is None for found in joined)
        if self.options.keep_markup or self.options.copy_unknown:
            joined = [self._restored(line, found) for line, found in zip(plain, joined, strict=True)]
        return [Translated(text, found) for text, found in zip(texts, joined, strict=True)]

    def _restored(self, line: PlainLine, translations: Sequence[Translation]) -> tuple[Translation, ...]:
        """The translations with what the model must not change put back by their alignments."""
        has_unknown = self.options.copy_unknown and any(UNKNOWN in found.text for found in translations)
        restored = partial(
            restore,
            line,
            keep_markup=self.options.keep_markup,
            copy_unknown=self.options.copy_unknown,
            unknown_runs=self.tokenizers[0].unknown_runs(line.text) if has_unknown else None,
        )
        return tuple(
            found if found.weights is None else replace(found, text=restored(found.text, found.weights))
            for found in translations
        )

    def translate(self, lines: Iterable[str]) -> Iterator[Translated]:
        """The translation of each of a bounded number of lines, held in memory, in windows."""
        window: list[bytes] = []
        for line in lines:
            window.append(line.encode("utf-8", errors="replace"))
            if len(window) == WINDOW_SIZE:
                yield from self.translate_window(window)
                window = []
        if window:
            yield from self.translate_window(window)

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        """Force-decode each pair; the target is taken as it is, however long."""
        source_tokenizer, target_tokenizer = self.tokenizers
        scored: dict[int, PairScore] = {}
        for pair, log_prob, weights_TS in self._forced(pairs):
            source, target = pair.source, pair.target
            piece_weights = weights_TS[: len(target.ids), : len(source.ids)].double().numpy()
            shape = (target.num_words, source.num_words)
            weights = merge_to_words(piece_weights, source.words, target.words, shape)
            if not target_tokenizer.spells_bytes:
                for first, end in target_tokenizer.unknown_runs(pairs[pair.place][1]).items():
                    weights[first + 1 : end] = weights[first]  # they are one piece
            scored[pair.place] = PairScore(
                log_prob,
                weights,
                piece_weights,
                tuple(source_tokenizer.pieces(source.ids)),
                tuple(target_tokenizer.pieces(target.ids)),
            )
        return [scored[index] for index in range(len(pairs))]

    def log_probs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The `log_prob` of each `PairScore`, without the memory that the weights take."""
        found = {pair.place: log_prob for pair, log_prob, _ in self._forced(pairs)}
        return [found[index] for index in range(len(pairs))]

    def _forced(self, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[_Pair, float, Tensor]]:
        """Each pair with its log-probability and attention weights, padding among them, in any order."""
        source_tokenizer, target_tokenizer = self.tokenizers
        encoded = [
            _Pair(index, source_tokenizer.encode_words(source), target_tokenizer.encode_words(target))
            for index, (source, target) in enumerate(pairs)
        ]
        for chunk in self._chunks_of_pairs(encoded):
            for pair, (log_prob, weights_TS) in zip(chunk, without_running_out(chunk, self._force), strict=True):
                yield pair, log_prob, weights_TS

    def report(self) -> None:
        """Say on stderr what happened to lines that were not ordinary."""
        self.counts.report(self.options.max_source_pieces)

    def _jobs(self, segments: Sequence[_Segment], num_parts: Sequence[int]) -> list[_Job]:
        """The parts of every segment that has text in it; `num_parts` of each line have gone before."""
        tokenizer = self.tokenizers[0]
        limit = self.options.max_source_pieces
        next_part = list(num_parts)
        jobs = []
        if self.options.with_alignment:
            encoded = [tokenizer.encode_words(segment.text) for segment in segments]
            pieces = [
                (e.ids, tuple(segment.first_word + word for word in e.words))
                for segment, e in zip(segments, encoded, strict=True)
            ]
        else:
            pieces = [(tuple(ids), ()) for ids in tokenizer.encode_all([segment.text for segment in segments])]
        # The segments of a line are one again: it is cut only where it has more pieces than a part may have.
        for line, of_line in groupby(zip(segments, pieces, strict=True), key=lambda found: found[0].line):
            of_segments = [encoded for _, encoded in of_line]
            ids = tuple(chain.from_iterable(ids for ids, _ in of_segments))
            words = tuple(chain.from_iterable(words for _, words in of_segments))
            cuts = _cuts(tokenizer, ids, limit)
            number = self.first_line + self.counts.lines + line
            for start, end in zip([0, *cuts], cuts, strict=False):
                if end > start:
                    jobs.append(_Job(line, number, next_part[line], ids[start:end], words[start:end]))
                    next_part[line] += 1
            self.counts.source_pieces += len(ids)
        return jobs

    def _groups(self, jobs: Sequence[_Job]) -> Iterator[tuple[list[_Job], int]]:
        """Jobs whose sources are padded to the same width, and how many of them may be translated at once; longest
        first, so that what does not fit in memory fails early."""
        sampling = self.options.sampling_temperature is not None
        copies = self.options.n_best if sampling else self.options.beam_size
        by_length = sorted(jobs, key=lambda job: -len(job.ids))
        for width, group in groupby(by_length, key=lambda job: padded_width(job.ids)):
            yield list(group), max(1, self.options.batch_tokens // (width * copies))

    def _chunks_of_pairs(self, pairs: Sequence[_Pair]) -> Iterator[list[_Pair]]:
        """Pairs whose sources are padded to the same width, with targets of like length."""
        by_width = sorted(pairs, key=lambda pair: (padded_width(pair.source.ids), len(pair.target.ids)))
        for width, group in groupby(by_width, key=lambda pair: padded_width(pair.source.ids)):
            chunk: list[_Pair] = []
            for pair in group:
                if chunk and (len(chunk) + 1) * (width + len(pair.target.ids) + 1) > self.options.batch_tokens:
                    yield chunk
                    chunk = []
                chunk.append(pair)
            yield chunk

    def _translations(
        self, jobs: Sequence[_Job], at_once: int, observe: Observer | None
    ) -> Iterator[tuple[_Job, list[Hypothesis]]]:
        """Each job with its hypotheses, as they are found."""
        temperature = self.options.sampling_temperature
        if temperature is None:
            yield from self._search(jobs, at_once, observe)
            return
        for start in range(0, len(jobs), at_once):
            batch = jobs[start : start + at_once]
            drawn = without_running_out(batch, partial(self._sample, temperature=temperature))
            yield from zip(batch, drawn, strict=True)

    def _search(
        self, jobs: Sequence[_Job], at_once: int, observe: Observer | None
    ) -> Iterator[tuple[_Job, list[Hypothesis]]]:
        options = self.options
        beam = BeamOptions(
            beam_size=options.beam_size,
            length_penalty=options.length_penalty,
            n_best=options.n_best,
            no_repeat_ngram=options.no_repeat_ngram,
            with_weights=options.with_alignment,
        )
        waiting = list(jobs)
        while waiting:
            done = set()
            start = partial(self._start, waiting)
            limits = self._limits(waiting)
            try:
                for number, found in beam_search(
                    self.models, start, limits, self._vocabulary(), beam, at_once=at_once, observe=observe
                ):
                    done.add(number)
                    yield waiting[number], found
                return
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error) or at_once == 1:
                    raise
            at_once = _halved(at_once)
            waiting = [job for number, job in enumerate(waiting) if number not in done]

    def _start(self, jobs: Sequence[_Job], numbers: Sequence[int], copies: int = 1) -> SearchState:
        return self.models.start(pad_sources([jobs[number].ids for number in numbers], multiple=MULTIPLE), copies)

    def _limits(self, jobs: Sequence[_Job]) -> list[int]:
        """Of the pieces of a translation, with </s>."""
        return [int(self.options.max_length_a * len(job.ids)) + self.options.max_length_b for job in jobs]

    def _vocabulary(self) -> Vocabulary:
        return Vocabulary(BOS, EOS, self.tokenizers[1].banned_ids())

    def _sample(self, jobs: Sequence[_Job], temperature: float) -> list[list[Hypothesis]]:
        options, limits = self.options, self._limits(jobs)
        copies = options.n_best
        uniforms = [_uniforms(options.seed, job, copy, max(limits)) for job in jobs for copy in range(copies)]
        drawn = sample(
            self.models,
            self._start(jobs, range(len(jobs)), copies),
            [limit for limit in limits for _ in range(copies)],
            self._vocabulary(),
            torch.from_numpy(np.stack(uniforms)),
            temperature=temperature,
            no_repeat_ngram=options.no_repeat_ngram,
            with_weights=options.with_alignment,
        )
        return [drawn[start : start + copies] for start in range(0, len(drawn), copies)]

    def _force(self, pairs: Sequence[_Pair]) -> list[tuple[float, Tensor]]:
        batch = make_batch([pair.source.ids for pair in pairs], [pair.target.ids for pair in pairs])
        sources = pad_sources([pair.source.ids for pair in pairs], multiple=MULTIPLE)
        log_probs_BT, weights_BTS = self.models.force(sources, batch.inputs_BT, batch.outputs_BT)
        lengths = [len(pair.target.ids) + 1 for pair in pairs]
        sums = [float(row_T[:length].double().sum()) for row_T, length in zip(log_probs_BT, lengths, strict=True)]
        return list(zip(sums, weights_BTS, strict=True))

    def _finish(self, job: _Job, hypothesis: Hypothesis) -> _Part:
        """Pieces to text, and their attention to words."""
        tokenizer = self.tokenizers[1]
        self.counts.target_pieces += len(hypothesis.ids)
        log_prob, score = hypothesis.log_prob, hypothesis.score
        if not self.options.with_alignment:
            return _Part(tokenizer.decode(hypothesis.ids), log_prob, score, 0, None)
        text, target = tokenizer.decode_words(hypothesis.ids)
        first = job.words[0]
        shape = (target.num_words, job.words[-1] + 1 - first)
        if hypothesis.weights_TS is None or not target.ids:
            return _Part(text, log_prob, score, first, np.zeros(shape), target.num_words)
        pieces = hypothesis.weights_TS[: len(target.ids), : len(job.ids)].double().numpy()
        weights = merge_to_words(pieces, [word - first for word in job.words], target.words, shape)
        return _Part(text, log_prob, score, first, weights, target.num_words)


def padded_width(ids: Sequence[int]) -> int:
    """Source positions of a sentence in a batch, with </s> and padding."""
    return round_up(len(ids) + 1, MULTIPLE)


def without_running_out(items: Sequence[Item], work: Callable[[Sequence[Item]], list[Result]]) -> list[Result]:
    """`work(items)`; where memory does not suffice, in two halves, and so on, said on stderr."""
    try:
        return work(items)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error) or len(items) == 1:
            raise
    half = _halved(len(items))
    return [*without_running_out(items[:half], work), *without_running_out(items[half:], work)]


def _halved(at_once: int) -> int:
    """Half as many sentences at once, said on stderr. Not for use in the handler of the error, which holds tensors."""
    half = at_once // 2
    log(f"out of memory with {at_once} sentences at once; going on with {half}")
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return half


def is_out_of_memory(error: BaseException) -> bool:
    """True of what torch raises when an allocation fails, on any device."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)


def _rounds(texts: Sequence[str], *, with_words: bool) -> Iterator[list[_Segment]]:
    """The segments of all lines that have text in them, in order, so many at a time as are held in memory."""
    segments: list[_Segment] = []
    length = 0
    for line, text in enumerate(texts):
        if not text or text.isspace():
            continue
        start = first_word = 0
        while start < len(text):
            end = _end_of_segment(text, start)
            segment = _Segment(line, text[start:end], first_word)
            segments.append(segment)
            if with_words and end < len(text):
                in_a_word = not text[end - 1].isspace() and not text[end].isspace()
                first_word += len(segment.text.split()) - in_a_word
            start = end
            length += len(segment.text)
            if length >= ROUND_LENGTH:
                yield segments
                segments, length = [], 0
    if segments:
        yield segments


def _end_of_segment(text: str, start: int) -> int:
    """At a space in the last half of what a segment may hold, if there is one."""
    end = start + SEGMENT_LENGTH
    if end >= len(text):
        return len(text)
    space = text.rfind(" ", start + SEGMENT_LENGTH // 2, end)
    return end if space < 0 else space


def _joined(parts: Sequence[Sequence[_Part]], num_words: int, *, with_alignment: bool) -> tuple[Translation, ...]:
    """The translations of a line from those of its parts: the best with the best, and so on down the list."""
    ranks = [
        [part or line_parts[-1] for part, line_parts in zip(ranked, parts, strict=True)]
        for ranked in zip_longest(*parts)
    ]
    joined = []
    for ranked in ranks or [[]]:
        text = " ".join(part.text for part in ranked)
        log_prob, score = sum((part.log_prob for part in ranked), 0.0), sum((part.score for part in ranked), 0.0)
        if not with_alignment:
            joined.append(Translation(text, log_prob, score))
            continue
        fits = _fits_a_matrix(parts, num_words) and all(part.weights is not None for part in ranked)
        weights = np.zeros((sum(part.num_words for part in ranked), num_words)) if fits else None
        links: list[Link] = []
        row = 0
        for part in ranked:
            # The last segment of a line may be white space that has pieces but no words.
            num_own = num_words - part.first_word
            block = None if part.weights is None else part.weights[:, :num_own]
            own = part.links if block is None else hard_links(block)
            links += [(part.first_word + source, row + target) for source, target in own if source < num_own]
            if weights is not None and block is not None:
                weights[row : row + block.shape[0], part.first_word : part.first_word + block.shape[1]] = block
            row += part.num_words
        joined.append(Translation(text, log_prob, score, weights, tuple(links)))
    return tuple(joined)


def _fits_a_matrix(parts: Sequence[Sequence[_Part]], num_words: int) -> bool:
    """Whether a line with so many words in the source may have a matrix of weights, for its longest translation."""
    return sum(max(part.num_words for part in ranked) for ranked in parts) * num_words <= MAX_WEIGHTS


def _cuts(tokenizer: Tokenizer, ids: Sequence[int], limit: int) -> list[int]:
    """Where to cut a long line: ends of parts of at most `limit` pieces, at a word's beginning where there is one
    in the last half of the part."""
    cuts, start = [], 0
    while len(ids) - start > limit:
        half, end = start + limit // 2 + 1, start + limit
        near = tokenizer.pieces(ids[half : end + 1])
        start = max((half + at for at, piece in enumerate(near) if piece.startswith("▁")), default=end)
        cuts.append(start)
    return [*cuts, len(ids)]


def _uniforms(seed: int, job: _Job, copy: int, length: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Random numbers that belong to a line of the input, whatever stands around it."""
    key = hashlib.sha256(f"{seed} {job.number} {job.part} {copy}".encode()).digest()
    return np.random.default_rng(list(key)).random(length)
