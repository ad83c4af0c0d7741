"""Tasks and results by which one pool of workers translates the sentences of many clients.

This module needs no torch. A worker does many such tasks at once (`shared_search`). A request of many sentences is cut
into several tasks, so that all workers have a share of it. Requests have classes of size, each with a queue of its own,
so a short one does not wait for a book.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from nmt_cli.translation.results import TranslatedLine

if TYPE_CHECKING:
    from nmt_cli.translation.glossary import Glossary

SIZES = (8, 64, 512)
"""Numbers of sentences at which the classes 1, 2 and 3 of requests begin; class 0 has fewer than the first."""
PREFETCH_COUNTS = (64, 8, 4, 4)
"""Most tasks of each class that a worker has at a time."""
TASK_SENTENCES = 64
"""Most sentences in a task. A worker cuts all of them into pieces at once, which takes some 10 ms."""
PROBE = "a"
"""Text whose translation shows that a model or a search works."""


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """Options of a request, for each of its sentences."""

    n_best: int = 1
    with_alignment: bool = False
    prefix: str = ""
    """Beginning that each translation must have."""
    with_confidence: bool = False
    glossary: Glossary | None = None
    """Terms that each translation must have."""


class Capabilities(NamedTuple):
    """Properties of a model on which the fields of an answer depend."""

    alignment: bool
    """True if the model has attention, so that words can be aligned."""
    confidence: bool
    """True if the model has a calibration, so that the confidence of its translations is known."""


class SearchStatistics(NamedTuple):
    """Work of one worker in a translation direction since its last result in that direction."""

    sentences: int = 0
    batches: int = 0
    """Groups of sentences that have entered a search together."""
    seconds: float = 0.0


class SentenceResult(NamedTuple):
    """The result of a `SentenceTask`: its translations, properties of the model, and the work of the worker."""

    translated: list[TranslatedLine]
    capabilities: Capabilities
    search_statistics: SearchStatistics


@dataclass(frozen=True, slots=True)
class SentenceTask:
    """Some sentences of a request, for a worker to translate, with the options of the request."""

    direction: int
    """Index of the translation direction (language pair) among those that the workers know."""
    sentences: tuple[str, ...]
    options: RequestOptions = RequestOptions()
    size: int = 0
    """The class of the whole request (see `SIZES`)."""
    places: tuple[int, ...] = ()
    """The place of each sentence in the request, from 0."""

    def subtasks(self) -> list[SentenceTask]:
        """Return a task for each sentence."""
        each = zip(self.sentences, self.places, strict=True)
        return [replace(self, sentences=(sentence,), places=(place,)) for sentence, place in each]

    def join_results(self, results: Sequence[SentenceResult]) -> SentenceResult:
        """Return the result of this task from those of its sentences."""
        translated = list(chain.from_iterable(found.translated for found in results))
        columns = zip(*(found.search_statistics for found in results), strict=True)
        search_statistics = SearchStatistics(*map(sum, columns))
        return SentenceResult(translated, results[0].capabilities, search_statistics)

    def name(self) -> str:
        """Return the name of the first sentence for messages, such as `sentence 17`."""
        return f"sentence {self.places[0] + 1:,}" if self.places else "no sentence"


def size_class(num_sentences: int) -> int:
    """Return the class of a request by its number of sentences (see `SIZES`)."""
    return sum(num_sentences >= first for first in SIZES)


def tasks_of(direction: int, sentences: Sequence[str], options: RequestOptions, workers: int) -> list[SentenceTask]:
    """Return the tasks of a request: one task in class 0, else several, each with sentences of like length."""
    size, places = size_class(len(sentences)), tuple(range(len(sentences)))
    step = len(sentences) or 1
    if size:
        places = tuple(sorted(places, key=lambda place: -len(sentences[place])))
        step = min(TASK_SENTENCES, max(SIZES[0], -(-len(places) // workers)))
    cuts = [places[start : start + step] for start in range(0, len(places), step)]
    return [SentenceTask(direction, tuple(sentences[place] for place in cut), options, size, cut) for cut in cuts]
