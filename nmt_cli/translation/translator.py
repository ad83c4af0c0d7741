"""Lines in, as many translations out, in the same order, whatever the lines hold.

A window of lines is cut into parts (a line, or a part of one that is too long), parts of like length share a batch, and
every translation finds its own place again.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import cast

import numpy as np
import torch

from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.data.batch import pad_sources
from nmt_cli.data.lines import decode_line
from nmt_cli.data.tokenizer import BOS, EOS, PieceWords, Tokenizer
from nmt_cli.search.beam import NewSentences, Observer, beam_search
from nmt_cli.search.constraint_masks import ConstraintMasks
from nmt_cli.search.hypothesis import Hypothesis, SearchState, Vocabulary
from nmt_cli.search.sampling import sample
from nmt_cli.system.memory import halved, is_out_of_memory, without_running_out
from nmt_cli.text.alignment import MAX_WEIGHTS, merge_to_words
from nmt_cli.translation.confidence_estimator import ConfidenceEstimator
from nmt_cli.translation.long_lines import PartTranslations, fits_a_matrix, joined, parts_of, rounds
from nmt_cli.translation.markup import PlainLine, strip_tags
from nmt_cli.translation.prefix import PieceIndex, Prefix, prefix_of
from nmt_cli.translation.restoring import restored
from nmt_cli.translation.results import Counts, Part, TermUse, Translated, Translation
from nmt_cli.translation.rows import MULTIPLE, padded_width
from nmt_cli.translation.stand_ins import with_numbers
from nmt_cli.translation.step_model import TrainedModels
from nmt_cli.translation.terms import TermFinder
from nmt_cli.translation.windows import windows_of_list
from nmt_cli.translation.writing import Writing

TranslateParts = Callable[[Sequence[Part]], Iterable[PartTranslations]]
"""Returns each of some parts with its translations, in any order."""
PartByPart = Generator[Sequence[Part], Iterable[PartTranslations], list[Translated]]
"""Yields parts, and takes each of them with its translations, in any order; returns the translations of all lines."""
MoreParts = Callable[[int], Sequence[Part]]
"""Returns parts that wait for a search, at most the given number."""


@dataclass(slots=True)
class Translator:
    """Translates lines with one model or several."""

    models: TrainedModels
    tokenizers: tuple[Tokenizer, Tokenizer]
    options: DecodingOptions
    counts: Counts = field(default_factory=Counts)
    terms: TermFinder | None = None
    """Finds the terms of a glossary, and numbers that stay as they are."""
    estimator: ConfidenceEstimator | None = None
    """Tells how sure the models are of the words, where that is asked for."""
    writing: Writing | None = None
    """Gives translations the writing of their lines. Its tokenizers are to be among `tokenizers`."""
    max_weights: int = MAX_WEIGHTS
    """Word pairs of a line beyond which it has hard links but no weights."""
    _index: PieceIndex | None = None
    """Pieces of the target by what they spell, once a prefix has needed them."""

    def translate_window(
        self,
        lines: Sequence[bytes],
        observe: Observer | None = None,
        prefixes: Sequence[str] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> list[Translated]:
        """Return the translations of each line, in order.

        Args:
            lines: the lines.
            observe: sees each step of the search.
            prefixes: the beginnings of the translations, empty ones for none.
            numbers: the numbers of the lines in the whole input, from 0, to which samples belong. Without them the
                lines follow those that were translated before.
        """
        return self.translate_by(partial(self._by_groups, observe=observe), lines, prefixes, numbers)

    def translate_by(
        self,
        translate: TranslateParts,
        lines: Sequence[bytes],
        prefixes: Sequence[str] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> list[Translated]:
        """Return the translations of each line, in order, with their parts translated by `translate`."""
        return _driven(self.by_parts(lines, prefixes, numbers), translate)

    def by_parts(
        self, lines: Sequence[bytes], prefixes: Sequence[str] | None = None, numbers: Sequence[int] | None = None
    ) -> PartByPart:
        """Yield the parts of the lines for others to translate, and return the translations of each line, in order."""
        texts, are_valid = zip(*map(decode_line, lines), strict=True) if lines else ((), ())
        self.counts.invalid += are_valid.count(False)
        plain = [self._plain(text) for text in texts]
        self.counts.unpaired_tags += sum(line.has_unpaired_tag for line in plain)
        shown = prefixes or [""] * len(lines)
        begun = [self._prefix(prefix) for prefix in shown]
        writing, with_alignment = self.writing, self.options.with_alignment
        looks = [with_alignment or (writing is not None and writing.needs_weights(line.text)) for line in plain]
        search_from = [_with_whole_number(*one, writing, self._index) for one in zip(plain, begun, strict=True)]
        numbers = numbers or range(self.counts.lines, self.counts.lines + len(lines))
        parts, num_words = yield from self._translated_parts([line.text for line in plain], search_from, looks, numbers)
        self.counts.lines += len(lines)
        self.counts.blank += sum(not of_line for of_line in parts)
        self.counts.cut += sum(len(of_line) > 1 for of_line in parts)
        found = [
            joined(of_line, words, with_alignment=look, prefix=prefix, max_weights=self.max_weights)
            for of_line, words, prefix, look in zip(parts, num_words, begun, looks, strict=True)
        ]
        if self.estimator is not None:
            found = [tuple(map(self.estimator.with_confidence, translations)) for translations in found]
        if writing is not None:
            found = [writing.restored(*line, self.tokenizers[0]) for line in zip(plain, found, begun, strict=True)]
        if with_alignment:
            self.counts.without_weights += sum(translations[0].weights is None for translations in found)
        if self.options.keep_markup or self.options.copy_unknown:
            found = [
                restored(self.options, self.tokenizers[0], line, translations, prefix, text)
                for line, translations, prefix, text in zip(plain, found, begun, shown, strict=True)
            ]
        self.counts.empty += sum(
            bool(of_line) and not best.text for of_line, (best, *_) in zip(parts, found, strict=True)
        )
        return [Translated(text, translations) for text, translations in zip(texts, found, strict=True)]

    def _plain(self, text: str) -> PlainLine:
        """Return a line without what the model must not see."""
        if not self.options.keep_markup:
            return PlainLine(text, ())
        return strip_tags(text, self.tokenizers[0].symbols())

    def _prefix(self, text: str) -> Prefix | None:
        """Return the beginning of a translation without what the model must not see; None where there is none."""
        if text and self._index is None:
            self._index = self.tokenizers[1].once(PieceIndex)
        if not text or self._index is None:
            return None
        plain = self._plain(text)
        is_cut = plain.text != text and text[-1].isspace()
        return prefix_of(plain.text + " " if is_cut else plain.text, self._index)

    def _translated_parts(
        self, texts: Sequence[str], prefixes: Sequence[Prefix | None], looks: Sequence[bool], numbers: Sequence[int]
    ) -> Generator[Sequence[Part], Iterable[PartTranslations], tuple[list[list[PartTranslations]], list[int]]]:
        """Yield all parts, and return the parts of each line with their translations, and its number of words.

        `looks` is True for the lines whose translations need attention weights.
        """
        parts: list[list[PartTranslations]] = [[] for _ in texts]
        num_words = [0] * len(texts)
        for segments in rounds(texts, with_words=any(looks) or self.terms is not None):
            new = parts_of(
                segments,
                self.tokenizers[0],
                max_pieces=self.options.max_source_pieces,
                with_words=looks,
                numbers=numbers,
                num_parts=[len(of_line) for of_line in parts],
            )
            new = [replace(part, prefix=prefixes[part.line]) if part.part == 0 else part for part in new]
            if self.terms is not None:
                new = self.terms.added_to(new, segments)
            self.counts.source_pieces += sum(len(part.ids) for part in new)
            translated = yield new
            translations = {(part.line, part.part): found for part, found in translated}
            for part in new:
                parts[part.line].append((part, translations[part.line, part.part]))
            if any(looks):
                for line, end_word in {segment.line: segment.end_word for segment in segments}.items():
                    num_words[line] = end_word
                    if not fits_a_matrix(parts[line], num_words[line], self.max_weights):
                        parts[line] = [(part, [one.without_weights() for one in own]) for part, own in parts[line]]
        return parts, num_words

    def translate(self, lines: Iterable[str]) -> Iterator[Translated]:
        """Yield the translations of each line, window by window; only a window is held in memory."""
        for window in windows_of_list(line.encode("utf-8", errors="surrogatepass") for line in lines):
            yield from self.translate_window(window)

    def report(self) -> None:
        """Log the numbers of long, cut and unusual lines."""
        self.counts.report(self.options.max_source_pieces)

    def _by_groups(self, parts: Sequence[Part], observe: Observer | None) -> Iterator[PartTranslations]:
        """Yield each part with its translations.

        The longest come first, so that what does not fit in memory fails early.
        """
        by_length = sorted(parts, key=lambda part: -len(part.ids))
        for _, same in groupby(by_length, key=lambda part: padded_width(part.ids)):
            group = list(same)
            is_drawn = self.options.sampling_temperature is not None
            hypotheses = self._drawn(group) if is_drawn else self.search(group, observe)
            found = [self.finish(*of_part) for of_part in hypotheses]
            if self.estimator is not None:
                for _ in self.estimator.measure(self.models, found, self.options.batch_tokens):
                    pass
            yield from found

    def at_once(self, width: int) -> int:
        """Return the number of sentences of a padded width that fit into one batch of the search."""
        sampling = self.options.sampling_temperature is not None
        copies = self.options.n_best if sampling else self.options.beam_size
        return max(1, self.options.batch_tokens // (width * copies))

    def _drawn(self, parts: Sequence[Part]) -> Iterator[tuple[Part, list[Hypothesis]]]:
        """Yield each part with hypotheses that the models draw."""
        at_once = self.at_once(padded_width(parts[0].ids))
        for start in range(0, len(parts), at_once):
            batch = parts[start : start + at_once]
            drawn = without_running_out(batch, self._sample)
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

        At most `at_once` are searched together, by default as many as the length of the first allows. Sentences of like
        length are searched faster. In fp32 the hypotheses depend on neither. `more` returns further parts while
        the search runs, at most as many as it is asked for. These have no constraints, and need weights
        if the others do.
        """
        at_once, options = at_once or self.at_once(padded_width(parts[0].ids)), _options_for(parts, self.options)
        while True:
            queue = _Queue(self, deque(parts), more)
            try:
                for done in beam_search(
                    self.models, queue.begin, self._vocabulary(parts), options, at_once=at_once, observe=observe,
                    masks=self._masks(parts),
                ):  # fmt: skip
                    yield None if done is None else _found(self, queue.live.pop(done[0]), done[1])
                return
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error) or at_once == 1:
                    raise
            at_once = halved(at_once)
            parts = [*queue.live.values(), *queue.waiting]

    def _masks(self, parts: Sequence[Part]) -> ConstraintMasks | None:
        constraints = [part.constraints for part in parts]
        if not any(constraints):
            return None
        return ConstraintMasks(
            constraints, self._vocabulary(parts), _limits(parts, self.options), self.options.glossary_weight
        )

    def start(self, parts: Sequence[Part], copies: int = 1) -> SearchState:
        """Return the state of a search before its first step: encoded sources, each with `copies` rows."""
        return self.models.start(pad_sources([part.ids for part in parts], multiple=MULTIPLE), copies)

    def _vocabulary(self, parts: Sequence[Part] = ()) -> Vocabulary:
        terms = self.terms if any(part.terms or part.keeps_numbers for part in parts) else None
        known = ((), (), ()) if terms is None else (terms.inside_words, terms.finals, terms.digits)
        return Vocabulary(BOS, EOS, self.tokenizers[1].banned_ids(), *known)

    def _sample(self, parts: Sequence[Part]) -> list[list[Hypothesis]]:
        options, limits = _options_for(parts, self.options), _limits(parts, self.options)
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
        """Return a part with its translations, best first."""
        return part, [self._translation(part, hypothesis) for hypothesis in hypotheses]

    def _translation(self, part: Part, hypothesis: Hypothesis) -> Translation:
        """Return a part's translation as text, with its words as far as they are needed."""
        tokenizer = self.tokenizers[1]
        self.counts.target_pieces += len(hypothesis.ids)
        log_prob, score = hypothesis.log_prob, hypothesis.score
        if not part.words and part.constraints is None and self.estimator is None:
            return Translation(tokenizer.decode(hypothesis.ids), log_prob, score)
        spoken, ids = with_numbers(hypothesis, part), hypothesis.ids
        hypothesis = spoken.hypothesis
        if part.prefix is None or self._index is None:
            text, target = tokenizer.decode_words(hypothesis.ids)
        else:
            text, target = part.prefix.spelt(hypothesis.ids, self._index)
        terms = _uses(part, hypothesis, text, target)
        pieces = None if self.estimator is None else spoken.said(target, ids)
        found = Translation(text, log_prob, score, terms=terms, pieces=pieces)
        return _aligned(found, part, hypothesis, target) if part.words else found


@dataclass(slots=True)
class _Queue:
    """Encodes the parts that wait for a search."""

    translator: Translator
    waiting: deque[Part]
    more: MoreParts | None
    live: dict[int, Part] = field(default_factory=dict)
    """The parts that are searched, by their numbers in the order in which they came."""
    num_begun: int = 0

    def begin(self, room: int) -> NewSentences | None:
        """Return the next parts, or None if none waits."""
        parts: Sequence[Part] = [self.waiting.popleft() for _ in range(min(room, len(self.waiting)))]
        if not parts and self.more is not None:
            parts = self.more(room)
        if not parts:
            return None
        numbers = range(self.num_begun, self.num_begun + len(parts))
        self.num_begun += len(parts)
        self.live.update(zip(numbers, parts, strict=True))
        return NewSentences(numbers, _limits(parts, self.translator.options), self.translator.start(parts))


def _driven(steps: PartByPart, translate: TranslateParts) -> list[Translated]:
    """Return what `steps` return, with their parts translated by `translate`."""
    try:
        parts = next(steps)
        while True:
            parts = steps.send(translate(parts))
    except StopIteration as end:
        return cast(list[Translated], end.value)


def _found(translator: Translator, part: Part, hypotheses: list[Hypothesis]) -> tuple[Part, list[Hypothesis]]:
    """Return a part with its hypotheses, or those with repetitions if its terms cannot be generated without."""
    if hypotheses or not translator.options.no_repeat_ngram:
        return part, hypotheses
    options = translator.options.model_copy(update={"no_repeat_ngram": 0})
    return next(replace(translator, options=options).search([part]))


def _options_for(parts: Sequence[Part], options: DecodingOptions) -> DecodingOptions:
    """Return the options of a search, which records its weights if one of the parts needs them."""
    return options.model_copy(update={"with_alignment": any(part.words for part in parts)})


def _limits(parts: Sequence[Part], options: DecodingOptions) -> list[int]:
    """Return the most pieces that each translation may have, with </s>."""
    a, b = options.max_length_a, options.max_length_b
    begun = [0 if part.prefix is None else part.prefix.num_pieces for part in parts]
    terms = [sum(found.term.size for found in part.terms) for part in parts]
    return [max(int(a * len(part.ids)), own) + b + all_ for part, own, all_ in zip(parts, begun, terms, strict=True)]


def _aligned(found: Translation, part: Part, hypothesis: Hypothesis, target: PieceWords) -> Translation:
    """Return a part's translation with its attention between words."""
    first = part.first_word
    shape = (target.num_words, part.words[-1] + 1 - first)
    if hypothesis.weights_TS is None or not target.ids:
        weights = np.zeros((shape[0], shape[1] + 1))
    else:
        pieces = hypothesis.weights_TS[: len(target.ids), : len(part.ids) + 1].double().numpy()
        weights = merge_to_words(pieces, [word - first for word in part.words], target.words, shape)
    return replace(found, weights_with_end=weights, num_words=target.num_words)


def _uses(part: Part, hypothesis: Hypothesis, text: str, target: PieceWords) -> tuple[TermUse, ...]:
    """Return the terms of the glossary in a part, each with the words that translate it."""
    words = text.split()
    uses = list(part.covered)
    generated = {one.term: one for one in hypothesis.generated_terms}
    for number, found in enumerate(part.terms):
        if found.is_number:
            continue
        use = TermUse(found.text, found.words)
        if number in generated:
            first, last = target.words[generated[number].begin], target.words[generated[number].end - 1]
            use = replace(use, translation=" ".join(words[first : last + 1]), target=(first, last + 1))
        uses.append(use)
    return tuple(sorted(uses, key=lambda use: use.source))


def _uniforms(seed: int, part: Part, copy: int, length: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return random numbers that belong to a line of the input, whatever stands around it."""
    key = hashlib.sha256(f"{seed} {part.number} {part.part} {copy}".encode()).digest()
    return np.random.default_rng(list(key)).random(length)


def _with_whole_number(
    line: PlainLine, prefix: Prefix | None, writing: Writing | None, index: PieceIndex | None
) -> Prefix | None:
    """Return a prefix with the rest of the number of its line that its last word begins; otherwise the search would
    generate this number again."""
    if prefix is None or index is None or writing is None or writing.numbers is None:
        return prefix
    rest = writing.numbers.rest_of(line.text, prefix.text)
    return prefix_of(prefix.text + rest, index) if rest else prefix
