"""Translates lines: as many translations as lines, in the same order, whatever the lines contain.

A window of lines is cut into parts (a line, or a part of one that is too long), parts of like length share a batch, and
the translations are put back in the order of the lines.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, islice
from typing import cast

import numpy as np
import torch

from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.data.batch import pad_sources
from nmt_cli.data.lines import decode_line
from nmt_cli.data.tokenizer import BOS, EOS, Tokenizer
from nmt_cli.normalization.normalizer import Normalizer
from nmt_cli.normalization.tags import Tags, has_unpaired_tag
from nmt_cli.search.beam import NewSentences, Observer, beam_search
from nmt_cli.search.constraint_masks import ConstraintMasks
from nmt_cli.search.hypothesis import Hypothesis, SearchState, Vocabulary
from nmt_cli.search.sampling import sample
from nmt_cli.system.memory import halve_batch, is_out_of_memory, retry_in_halves
from nmt_cli.text.alignment import MAX_WEIGHTS
from nmt_cli.text.edits import Span
from nmt_cli.text.line import Constraint, Line
from nmt_cli.text.unit_alignment import Alignment
from nmt_cli.translation.confidence_estimator import ConfidenceEstimator
from nmt_cli.translation.counts import Counts
from nmt_cli.translation.long_lines import PartsOfLine, PartTranslations, join_translations, parts_of, segment_batches
from nmt_cli.translation.prefix import PieceIndex, prefix_of
from nmt_cli.translation.repetition import is_endless, without_repetition
from nmt_cli.translation.results import Part, PartTranslation, TranslatedLine, Translation
from nmt_cli.translation.rows import PADDING_MULTIPLE, padded_width
from nmt_cli.translation.step_model import TrainedModels
from nmt_cli.translation.terms import TermEncoder
from nmt_cli.translation.unknown_words import copy_unknown_words
from nmt_cli.translation.windows import windows_of_list

TranslateParts = Callable[[Sequence[Part]], Iterable[PartTranslations]]
"""Returns each of some parts with its translations, in any order."""
PartGenerator = Generator[Sequence[Part], Iterable[PartTranslations], list[TranslatedLine]]
"""Yields parts, is sent each of them with its translations, in any order, and returns the translations of all lines."""
MAX_MEASURED_PARTS = 512
"""Parts whose confidence is measured together. Their attention weights are in memory until then."""
MoreParts = Callable[[int], Sequence[Part]]
"""Returns parts that wait for a search, at most the given number."""


@dataclass(slots=True)
class Translator:
    """Translates lines with one model or several."""

    models: TrainedModels
    tokenizers: tuple[Tokenizer, Tokenizer]
    options: DecodingOptions
    counts: Counts = field(default_factory=Counts)
    normalizer: Normalizer = field(default_factory=Normalizer)
    """Changes lines to the writing of the training text, and undoes that in their translations."""
    terms: TermEncoder | None = None
    """Turns the constraints of lines (terms of a glossary, numbers to keep) into pieces; None: they are ignored."""
    estimator: ConfidenceEstimator | None = None
    """Estimates the confidence of the models in each word; None if that is not asked for."""
    max_weights: int = MAX_WEIGHTS
    """Word pairs of a line beyond which it has hard links but no attention weights."""

    def translate_window(
        self,
        lines: Sequence[bytes],
        observe: Observer | None = None,
        prefixes: Sequence[str] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> list[TranslatedLine]:
        """Return the translations of each line, in order.

        Args:
            lines: the lines.
            observe: is called after each step of the search.
            prefixes: the beginning that the translations of each line must have, or an empty one.
            numbers: the numbers of the lines in the whole input, from 0, on which samples depend. Without them, the
                lines are numbered after those that were translated before.
        """
        return self.translate_with(partial(self._translate_groups, observe=observe), lines, prefixes, numbers)

    def translate_with(
        self,
        translate: TranslateParts,
        lines: Sequence[bytes],
        prefixes: Sequence[str] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> list[TranslatedLine]:
        """Return the translations of each line, in order, with their parts translated by `translate`.

        `prefixes` are the given beginnings of the translations, and `numbers` the numbers of the lines in the whole
        input, from 0.
        """
        return _run_steps(self.translation_steps(lines, prefixes, numbers), translate)

    def translation_steps(
        self, lines: Sequence[bytes], prefixes: Sequence[str] | None = None, numbers: Sequence[int] | None = None
    ) -> PartGenerator:
        """Yield the parts of the lines for others to translate, and return the translations of each line, in order."""
        raws, are_valid = zip(*map(decode_line, lines), strict=True) if lines else ((), ())
        self.counts.invalid += are_valid.count(False)
        normalizer = self._normalizer_for_lines()
        read = [normalizer.read(raw, prefix) for raw, prefix in zip(raws, prefixes or [""] * len(lines), strict=True)]
        self.counts.unpaired_tags += sum(map(has_unpaired_tag, read))
        numbers = numbers or range(self.counts.lines, self.counts.lines + len(lines))
        parts = yield from self._translated_parts(read, numbers)
        self.counts.lines += len(lines)
        self.counts.blank += sum(not of_line for of_line in parts)
        self.counts.cut += sum(len(of_line) > 1 for of_line in parts)
        found = [self._translations(normalizer, *of_line) for of_line in zip(read, parts, strict=True)]
        if self.options.with_alignment:
            self.counts.without_weights += sum(translations[0].weights is None for translations in found)
        self.counts.empty += sum(
            bool(of_line) and not best.text for of_line, (best, *_) in zip(parts, found, strict=True)
        )
        self.counts.repeated += sum(best.repeated for best, *_ in found)
        return [TranslatedLine(raw, translations) for raw, translations in zip(raws, found, strict=True)]

    def _normalizer_for_lines(self) -> Normalizer:
        """Return the normalizer of the lines, with the steps for tags and placeholders if markup is kept."""
        if not self.options.keep_markup:
            return self.normalizer
        return self.normalizer.with_markup(self.tokenizers[0].symbols())

    def _needs_weights(self, line: Line) -> bool:
        return self.options.with_alignment or line.needs_alignment

    def _translations(
        self, normalizer: Normalizer, line: Line, parts: Sequence[PartTranslations]
    ) -> tuple[Translation, ...]:
        """Return the translations of a line from those of its parts."""
        found = join_translations(line, parts, with_alignment=self._needs_weights(line))
        if self.estimator is not None:
            found = tuple(map(self.estimator.with_confidence, found))
        if self.options.copy_unknown:
            found = tuple(copy_unknown_words(line, [part for part, _ in parts], found))
        if parts or not self._has_nothing_visible(line):
            found = tuple(normalizer.undo(line, one, up_to=Tags.name) for one in found)
        # Tags are no words, which alignments and terms count.
        own = (Translation.of(one, with_alignment=self.options.with_alignment) for one in found)
        tagged = (normalizer.undo(line, one, only=Tags.name) for one in found)
        return tuple(
            one if other.text == one.text else replace(one, text=other.text, word_confidence=other.word_confidence)
            for one, other in zip(own, tagged, strict=True)
        )

    def _has_nothing_visible(self, line: Line) -> bool:
        """Return whether a line has nothing visible, so that no symbols are put back into its translation either."""
        return line.text != line.raw and not self.tokenizers[0].encode(line.raw)

    def _translated_parts(
        self, lines: Sequence[Line], numbers: Sequence[int]
    ) -> Generator[Sequence[Part], Iterable[PartTranslations], list[list[PartTranslations]]]:
        """Yield lists of parts, receive their translations, and return each line's parts with their translations."""
        needs_weights = list(map(self._needs_weights, lines))
        parts = [
            PartsOfLine(line, needs_weights=needs, max_weights=self.max_weights)
            for line, needs in zip(lines, needs_weights, strict=True)
        ]
        for segments in segment_batches([line.text for line in lines]):
            new = parts_of(
                segments,
                self.tokenizers[0],
                max_pieces=self.options.max_source_pieces,
                with_spans=[needs or bool(line.constraints) for needs, line in zip(needs_weights, lines, strict=True)],
                numbers=numbers,
                num_parts=list(map(len, parts)),
            )
            new = [self._with_prefix(part, lines[part.line], needs_weights=needs_weights[part.line]) for part in new]
            if self.terms is not None:
                new = self.terms.with_constraints(new, lines)
            self.counts.source_pieces += sum(len(part.ids) for part in new)
            for part, found in (yield new):
                parts[part.line].add(part, found)
        return [of_line.in_order() for of_line in parts]

    def _with_prefix(self, part: Part, line: Line, *, needs_weights: bool) -> Part:
        """Return a part with `needs_weights` set, and with the prefix of its line if it is the line's first part."""
        if part.part or not line.prefix:
            return replace(part, needs_weights=needs_weights) if needs_weights else part
        return replace(part, needs_weights=needs_weights, prefix=prefix_of(line.prefix, self._piece_index))

    @property
    def _piece_index(self) -> PieceIndex:
        """The target pieces, found by their spelling."""
        return self.tokenizers[1].compute_once(PieceIndex)

    def translate(self, lines: Iterable[str]) -> Iterator[TranslatedLine]:
        """Yield the translations of each line, window by window; only a window is held in memory."""
        for window in windows_of_list(line.encode("utf-8", errors="surrogatepass") for line in lines):
            yield from self.translate_window(window)

    def report(self) -> None:
        """Warn of empty and repetitive translations, and of unusual lines, as `Counts.report` does."""
        self.counts.report(self.options.max_source_pieces)

    def _translate_groups(self, parts: Sequence[Part], observe: Observer | None) -> Iterator[PartTranslations]:
        """Yield each part with its translations.

        The longest come first, so that what does not fit in memory fails early.
        """
        by_length = sorted(parts, key=lambda part: -len(part.ids))
        for _, same in groupby(by_length, key=lambda part: padded_width(part.ids)):
            group = list(same)
            is_drawn = self.options.sampling_temperature is not None
            hypotheses = self._sample_parts(group) if is_drawn else self.search(group, observe)
            found = (self.finish(*of_part) for of_part in hypotheses)
            if self.estimator is None:
                yield from found
                continue
            while some := list(islice(found, MAX_MEASURED_PARTS)):
                for _ in self.estimator.measure(self.models, some, self.options.batch_tokens):
                    pass
                yield from some

    def at_once(self, width: int) -> int:
        """Return the number of sentences of a padded width that fit into one batch of the search."""
        sampling = self.options.sampling_temperature is not None
        copies = self.options.n_best if sampling else self.options.beam_size
        return max(1, self.options.batch_tokens // (width * copies))

    def _sample_parts(self, parts: Sequence[Part]) -> Iterator[tuple[Part, list[Hypothesis]]]:
        """Yield each part with hypotheses that are sampled from the models."""
        at_once = self.at_once(padded_width(parts[0].ids))
        for start in range(0, len(parts), at_once):
            batch = parts[start : start + at_once]
            drawn = retry_in_halves(batch, self._sample)
            yield from zip(batch, drawn, strict=True)

    def search(
        self,
        parts: Sequence[Part],
        observe: Observer | None = None,
        more: MoreParts | None = None,
        at_once: int | None = None,
    ) -> Iterator[tuple[Part, list[Hypothesis]]]:
        """Yield each part with its hypotheses, as they are found; it takes the arguments of `search_by_steps`."""
        return (found for found in self.search_by_steps(parts, observe, more, at_once=at_once) if found is not None)

    def search_by_steps(
        self,
        parts: Sequence[Part],
        observe: Observer | None = None,
        more: MoreParts | None = None,
        at_once: int | None = None,
    ) -> Iterator[tuple[Part, list[Hypothesis]] | None]:
        """Yield each part with its hypotheses, as they are found, and None after each step of the search.

        At most `at_once` parts are searched together, by default as many as the length of the first one allows. Parts
        of like length are searched faster. In fp32 the hypotheses of a part do not depend on the number or the
        length of the parts that are searched together with it. `more` is called with a number while the search runs,
        and returns at most that many further parts, which must have no constraints.
        """
        at_once = at_once or self.at_once(padded_width(parts[0].ids))
        while True:
            queue = _Queue(self, deque(parts), more)
            try:
                for done in beam_search(
                    self.models, queue.begin, self._vocabulary(parts), self.options, at_once=at_once,
                    observe=observe, masks=self._masks(parts), is_endless=queue.is_endless,
                ):  # fmt: skip
                    yield None if done is None else _with_fallback(self, queue.active.pop(done[0]), done[1])
                return
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error) or at_once == 1:
                    raise
            at_once = halve_batch(at_once)
            parts = [*queue.active.values(), *queue.waiting]

    def _masks(self, parts: Sequence[Part]) -> ConstraintMasks | None:
        constraints = [part.constraints for part in parts]
        if not any(constraints):
            return None
        return ConstraintMasks(
            constraints, self._vocabulary(parts), _max_lengths(parts, self.options), self.options.glossary_weight
        )

    def start(self, parts: Sequence[Part], copies: int = 1) -> SearchState:
        """Return the state of a search before its first step: encoded sources, each with `copies` rows."""
        return self.models.start(pad_sources([part.ids for part in parts], multiple=PADDING_MULTIPLE), copies)

    def _vocabulary(self, parts: Sequence[Part] = ()) -> Vocabulary:
        terms = self.terms if any(part.terms or part.keeps_numbers for part in parts) else None
        known = ((), (), ()) if terms is None else (terms.continuation_pieces, terms.sentence_terminals, terms.digits)
        return Vocabulary(BOS, EOS, self.tokenizers[1].banned_ids(), *known)

    def _sample(self, parts: Sequence[Part]) -> list[list[Hypothesis]]:
        with_weights, limits = any(part.needs_weights for part in parts), _max_lengths(parts, self.options)
        options = self.options.model_copy(update={"with_alignment": with_weights})
        copies = options.n_best
        uniforms = [_uniforms(options.seed, part, copy, max(limits)) for part in parts for copy in range(copies)]
        drawn = sample(
            self.models,
            self.start(parts, copies),
            [limit for limit in limits for _ in range(copies)],
            self._vocabulary(),
            options,
            torch.from_numpy(np.stack(uniforms)),
        )
        return [drawn[start : start + copies] for start in range(0, len(drawn), copies)]

    def finish(self, part: Part, hypotheses: Sequence[Hypothesis]) -> PartTranslations:
        """Return a part with its translations, best first. Words that a hypothesis repeats without end are cut."""
        found: list[PartTranslation] = []
        seen: set[tuple[int, ...]] = set()
        for hypothesis in hypotheses:
            cut = without_repetition(hypothesis, part, self.tokenizers)
            is_cut = cut is not hypothesis
            if is_cut and cut.ids in seen and self.options.sampling_temperature is None:
                continue  # hypotheses that differ only in what they repeat are one
            seen.add(cut.ids)
            found.append(self._translation(part, cut, repeated=is_cut))
        return part, found

    def _translation(self, part: Part, hypothesis: Hypothesis, *, repeated: bool) -> PartTranslation:
        """Return a part's translation as text, with the characters of its pieces as far as they are needed."""
        tokenizer, ids = self.tokenizers[1], hypothesis.ids
        self.counts.target_pieces += len(ids)
        log_prob, score = hypothesis.log_prob, hypothesis.score
        if (
            not part.needs_weights
            and part.constraints is None
            and not part.covered_constraints
            and self.estimator is None
        ):
            return PartTranslation(tokenizer.decode(ids), log_prob, score, repeated=repeated)
        if part.prefix is None:
            text, found = tokenizer.decode_spans(ids)
        else:
            text, found = part.prefix.decode_spans(ids, self._piece_index)
        spans = _whole_character_spans(found)
        alignment = _alignment(part, hypothesis, spans) if part.needs_weights else None
        terms = _terms(part, hypothesis, spans)
        return PartTranslation(text, log_prob, score, ids, spans, alignment, terms, repeated=repeated)


@dataclass(slots=True)
class _Queue:
    """Parts for a search, which are encoded when the search has room for them."""

    translator: Translator
    waiting: deque[Part]
    more: MoreParts | None
    active: dict[int, Part] = field(default_factory=dict)
    """The parts that are being searched, by their numbers, which count from 0 in the order in which parts came."""
    num_begun: int = 0

    def begin(self, room: int) -> NewSentences | None:
        """Return the next parts, at most `room` of them, encoded; None if none waits."""
        parts: Sequence[Part] = [self.waiting.popleft() for _ in range(min(room, len(self.waiting)))]
        if not parts and self.more is not None:
            parts = self.more(room)
        if not parts:
            return None
        numbers = range(self.num_begun, self.num_begun + len(parts))
        self.num_begun += len(parts)
        self.active.update(zip(numbers, parts, strict=True))
        weights = [part.needs_weights for part in parts]
        return NewSentences(
            numbers, _max_lengths(parts, self.translator.options), self.translator.start(parts), weights
        )

    def is_endless(self, number: int, ids: Sequence[int]) -> bool:
        """Return True if every translation of a part that begins with these pieces would be cut as a repetition."""
        return is_endless(ids, self.active[number], self.translator.tokenizers)


def _run_steps(steps: PartGenerator, translate: TranslateParts) -> list[TranslatedLine]:
    """Run a generator, send it the translations of the parts that it yields, and return its result."""
    try:
        parts = next(steps)
        while True:
            parts = steps.send(translate(parts))
    except StopIteration as end:
        return cast(list[TranslatedLine], end.value)


def _with_fallback(translator: Translator, part: Part, hypotheses: list[Hypothesis]) -> tuple[Part, list[Hypothesis]]:
    """Return a part with its hypotheses. If `no_repeat_ngram` has left none, search again without this option."""
    if hypotheses or not translator.options.no_repeat_ngram:
        return part, hypotheses
    options = translator.options.model_copy(update={"no_repeat_ngram": 0})
    return next(replace(translator, options=options).search([part]))


def _max_lengths(parts: Sequence[Part], options: DecodingOptions) -> list[int]:
    """Return the most pieces that each translation may have, with </s>."""
    a, b = options.max_length_a, options.max_length_b
    from_prefix = [0 if part.prefix is None else part.prefix.num_pieces for part in parts]
    terms = [sum(found.term.size for found in part.terms) for part in parts]
    return [
        max(int(a * len(part.ids)), own) + b + all_ for part, own, all_ in zip(parts, from_prefix, terms, strict=True)
    ]


def _alignment(part: Part, hypothesis: Hypothesis, spans: Sequence[Span]) -> Alignment:
    """Return the attention between the pieces of a part and those of its translation."""
    if hypothesis.weights_TS is None or not spans:
        weights = np.zeros((len(spans), len(part.spans) + 1), np.float32)
    else:
        weights = hypothesis.weights_TS[: len(spans), part.num_tags : len(part.ids) + 1].float().numpy()
        if part.num_tags:  # tags are no words
            weights = weights.copy()
            weights[:, -1] += hypothesis.weights_TS[: len(spans), : part.num_tags].float().numpy().sum(axis=1)
    return Alignment(_whole_character_spans(part.spans), tuple(spans), weights)


def _whole_character_spans(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return the spans of pieces, in which a piece that is one byte of a character spans the whole character.

    The tokenizer gives the character to the last of its pieces, and the others an empty span before it.
    """
    return tuple((begin, max(end, begin + 1)) for begin, end in spans)


def _terms(part: Part, hypothesis: Hypothesis, spans: Sequence[Span]) -> tuple[tuple[Constraint, Span | None], ...]:
    """Return the constraints of a part, each with the characters of the translation that meet it, or None."""
    if not part.terms and not part.covered_constraints:
        return ()
    places = {one.term: (spans[one.begin][0], spans[one.end - 1][1]) for one in hypothesis.generated_terms}
    own = [(found.constraint, places.get(number)) for number, found in enumerate(part.terms)]
    return tuple(sorted([*part.covered_constraints, *own], key=lambda term: term[0].begin))


def _uniforms(seed: int, part: Part, copy: int, length: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return `length` random numbers in [0, 1) that depend only on the seed, the place of the part, and `copy`."""
    key = hashlib.sha256(f"{seed} {part.number} {part.part} {copy}".encode()).digest()
    return np.random.default_rng(list(key)).random(length)
