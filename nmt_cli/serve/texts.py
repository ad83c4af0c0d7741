"""Translates the texts of a request: plain text as `nmt translate --paragraphs` does, HTML and files with their
formatting kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from nmt_cli.documents.document import (
    DocumentCounts,
    Paragraph,
    translate_document,
    translate_page,
    translate_paragraphs,
)
from nmt_cli.documents.sentences import Splitter
from nmt_cli.formats.languages import conflicting_language
from nmt_cli.formats.work import Work
from nmt_cli.normalization.code_finder import may_have_codes
from nmt_cli.serve.document_limits import DocumentLimiter, OpenDocument
from nmt_cli.serve.engine_interface import AnyEngine, Cancellation
from nmt_cli.system.errors import InputError
from nmt_cli.translation.glossary import Glossary
from nmt_cli.translation.results import TranslatedLine, Translation
from nmt_cli.translation.sentence_tasks import RequestOptions

Translate = Callable[[Sequence[str]], list[Translation]]
MAX_DETECTED = 4096
"""Characters at the beginning of a page or a document by which its language is detected."""


@dataclass(frozen=True, slots=True)
class Direction:
    """A pair of languages with the engine that translates it."""

    source: str
    target: str
    engine: AnyEngine
    split: Splitter


@dataclass(frozen=True, slots=True)
class Answer:
    """The translation of one text of a request."""

    text: str
    alternatives: tuple[str, ...]
    sentences: tuple[TranslatedLine, ...]
    """The sentences that were translated, in order, with their alignments where these were asked for."""
    confidence: float = 1.0
    """Probability that the whole text is correct; 1 for a text that needed no translation."""
    word_confidence: tuple[float, ...] = ()
    """Probability that each white-space word of the text is correct."""


class TranslatedFile(NamedTuple):
    """A document in the target language."""

    content: bytes
    warnings: list[str]
    """Warnings for the client, a sentence each, such as that placeholders were put back."""


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """Options of a request to translate texts or a file: all its fields except the texts and the languages."""

    alternatives: int = 0
    with_alignment: bool = False
    with_confidence: bool = False
    prefix: str = ""
    glossary: Glossary | None = None

    def sentence_options(self, engine: AnyEngine, *, with_alignment: bool) -> RequestOptions:
        """Return the options for each sentence; they ask for alignment only if the model has attention."""
        with_alignment = with_alignment and engine.capabilities.alignment
        return RequestOptions(1 + self.alternatives, with_alignment, self.prefix, self.with_confidence, self.glossary)


class _CachedTranslator:
    """Has the engine translate sentences, and keeps the translations, so that equal sentences are translated once."""

    def __init__(self, direction: Direction, options: RequestOptions, cancellation: Cancellation) -> None:
        self._direction, self._options, self._cancellation = direction, options, cancellation
        self._found: dict[str, TranslatedLine] = {}

    def for_rank(self, rank: int, document: OpenDocument) -> Translate:
        """Return a function that translates sentences of a document.

        It returns for each sentence the translation with this rank (0 is the best), or the last one if there are
        fewer.
        """

        def translate(lines: Sequence[str]) -> list[Translation]:
            new = [line for line in dict.fromkeys(lines) if line not in self._found]
            with document.translating():
                answers = self._direction.engine.translate(new, self._options, self._cancellation)
            self._found.update(zip(new, answers, strict=True))
            found = [self._found[line].translations for line in lines]
            return [translations[min(rank, len(translations) - 1)] for translations in found]

        return translate

    def all(self) -> tuple[TranslatedLine, ...]:
        """Return all sentences translated so far with their translations, in the order of their first request."""
        return tuple(self._found.values())


def translate_texts(
    direction: Direction,
    texts: Sequence[str],
    options: TaskOptions,
    documents: DocumentLimiter,
    cancellation: Cancellation,
) -> list[Answer]:
    """Return the translation of each text; each line of a text is a paragraph.

    Raises:
        InputError: a prefix is given for more than one sentence or for a text without letters, or a glossary for a
            model without attention.
    """
    if options.prefix and (len(texts) > 1 or "\n" in texts[0].strip() or len(direction.split(texts[0].strip())) > 1):
        raise InputError("prefix goes with a text of one sentence")
    if options.prefix and not any(map(str.isalpha, texts[0])):
        raise InputError("prefix goes with a text that has letters; this one is not translated")
    has_codes = any(map(may_have_codes, texts)) and not options.prefix
    sentence_options = options.sentence_options(direction.engine, with_alignment=options.with_alignment or has_codes)
    sentences = _CachedTranslator(direction, sentence_options, cancellation)
    paragraphs = [text.split("\n") for text in texts]

    def render_rank(rank: int) -> list[list[Paragraph]]:
        lines = [line for of_text in paragraphs for line in of_text]
        with documents.open_document(cancellation) as document:
            translate, counts = sentences.for_rank(rank, document), DocumentCounts()
            # What a prefix holds is text that nothing may change.
            kept = not options.prefix
            found = iter(
                translate_paragraphs(lines, translate, direction.split, counts, keeps_codes=kept, work=document.work)
            )
            return [[next(found) for _ in of_text] for of_text in paragraphs]

    ranks = [render_rank(rank) for rank in range(1 + options.alternatives)]
    own = [sentences.all()] if len(texts) == 1 else [()] * len(texts)
    answers = []
    for number, best in enumerate(ranks[0]):
        text, *others = ("\n".join(paragraph.text for paragraph in rank[number]) for rank in ranks)
        answer = Answer(text, _alternatives(text, others), own[number])
        answers.append(_with_confidence(answer, best) if options.with_confidence else answer)
    return answers


def _with_confidence(answer: Answer, paragraphs: Sequence[Paragraph]) -> Answer:
    """Return the answer with the confidence of its text and of its words, computed from its sentences' confidences.

    The sentences are treated as independent. A word that spans two sentences has the lower of their confidences, and
    text that was not translated has 1.
    """
    whole, of_words = 1.0, []
    for paragraph in paragraphs:
        of_characters = np.ones(len(paragraph.text))
        place = 0
        for text, found in paragraph.sentences:
            sure = 1.0 if found.confidence is None else found.confidence
            whole *= sure
            begin = paragraph.text.index(text, place)
            place = begin + len(text)
            of_characters[begin:place] = sure
            spans = [match.span() for match in re.finditer(r"\S+", text)]
            if found.word_confidence is not None and len(found.word_confidence) == len(spans):
                for (first, end), value in zip(spans, found.word_confidence, strict=True):
                    of_characters[begin + first : begin + end] = value
        words = (match.span() for match in re.finditer(r"\S+", paragraph.text))
        of_words += [float(of_characters[first:end].min()) for first, end in words]
    return replace(answer, confidence=whole, word_confidence=tuple(of_words))


def translate_html(
    direction: Direction,
    texts: Sequence[str],
    options: TaskOptions,
    documents: DocumentLimiter,
    cancellation: Cancellation,
    *,
    names: Sequence[str] = ("q",),
) -> list[Answer]:
    """Return the translation of each piece of HTML with its tags; the sentences of all pieces are translated together.

    Errors call the pieces by their `names`.

    Raises:
        InputError: a tag is cut off, elements are nested too deeply, or a glossary is given for a model without
            attention.
    """
    sentences = _CachedTranslator(
        direction, options.sentence_options(direction.engine, with_alignment=True), cancellation
    )

    def render_html(name: str, text: str, document: OpenDocument, translate: Translate) -> str:
        source, target = direction.source, direction.target
        return translate_page(
            text, translate, direction.split, target_lang=target, source_lang=source, name=name, work=document.work
        )

    def render_rank(name: str, text: str, rank: int) -> str:
        with documents.open_document(cancellation) as document:
            return render_html(name, text, document, sentences.for_rank(rank, document))

    named = list(zip(names, texts, strict=True))
    if len(texts) > 1:
        with documents.open_document(cancellation) as document:
            lines = [line for one in named for line in _collect_sentences(partial(render_html, *one, document))]
            sentences.for_rank(0, document)(lines)
    answers = []
    for name, text in named:
        best, *others = (render_rank(name, text, rank) for rank in range(1 + options.alternatives))
        answers.append(Answer(best, _alternatives(best, others), sentences.all() if len(texts) == 1 else ()))
    return answers


def translate_file(
    direction: Direction,
    name: str,
    data: bytes,
    options: TaskOptions,
    documents: DocumentLimiter,
    cancellation: Cancellation,
) -> TranslatedFile:
    """Return a document with its text translated; the ending of its name tells the format.

    Raises:
        InputError: the document is damaged, too large, or in an unknown encoding, or a glossary is given for a model
            without attention.
        TaskCancelled: nobody waits for the document any more.
    """
    sentences = _CachedTranslator(
        direction, options.sentence_options(direction.engine, with_alignment=True), cancellation
    )
    with documents.open_document(cancellation) as document:
        return _translate_in_place(name, data, sentences.for_rank(0, document), direction, document.work)


def _translate_in_place(
    name: str, data: bytes, translate: Translate, direction: Direction, work: Work
) -> TranslatedFile:
    work.check()
    split = direction.split
    content, counts = translate_document(
        name, data, translate, split, target_lang=direction.target, source_lang=direction.source, work=work
    )
    warnings = counts.warnings()
    if other := conflicting_language(counts.languages, direction.source):
        warnings.append(f"says that its text is in {other}, but it was translated from {direction.source}")
    return TranslatedFile(content, warnings)


# What tells the language ------------------------------------------------------------------------------------------


def text_of_html(
    direction: Direction, name: str, text: str, documents: DocumentLimiter, cancellation: Cancellation
) -> str:
    """Return the beginning of the text in a piece of HTML, without tags, to detect its language from.

    Errors call the piece `name`.

    Raises:
        InputError: a tag is cut off, or elements are nested too deeply.
    """
    split, target = direction.split, direction.target
    with documents.open_document(cancellation) as document:
        return _source_text(
            lambda translate: translate_page(text, translate, split, target_lang=target, name=name, work=document.work)
        )


def text_of_file(
    direction: Direction, name: str, data: bytes, documents: DocumentLimiter, cancellation: Cancellation
) -> str:
    """Return the beginning of the text in a file, without markup, to detect its language from.

    Raises:
        InputError: the document is damaged, too large, or in an unknown encoding.
        TaskCancelled: nobody waits for the document any more.
    """
    with documents.open_document(cancellation) as document:
        return _source_text(lambda translate: _translate_in_place(name, data, translate, direction, document.work))


class _SentencesCollected(Exception):  # noqa: N818 (nothing is wrong)
    """Ends a rendering once the sentences of a document are collected."""


def _source_text(render: Callable[[Translate], object]) -> str:
    return "\n".join(_collect_sentences(render))[:MAX_DETECTED]


def _collect_sentences(render: Callable[[Translate], object]) -> list[str]:
    """Return the sentences that `render` asks the function given to it to translate; nothing is translated.

    Only the first call of that function counts: it ends `render`.
    """
    found: list[str] = []

    def take(sentences: Sequence[str]) -> list[Translation]:
        found.extend(sentences)
        raise _SentencesCollected

    with suppress(_SentencesCollected):
        render(take)
    return found


def _alternatives(best: str, candidates: Sequence[str]) -> tuple[str, ...]:
    """Return the candidate translations that differ from the best one, each text once."""
    return tuple(text for text in dict.fromkeys(candidates) if text != best)
