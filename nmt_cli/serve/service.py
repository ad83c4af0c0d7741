"""The answers of the server: a method for each kind of request. All that it knows of HTTP is the status of an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any

from nmt_cli.formats.readers import ENDINGS
from nmt_cli.serve.directions import Directions
from nmt_cli.serve.document_limits import DocumentLimiter
from nmt_cli.serve.engine_interface import Cancellation
from nmt_cli.serve.kept_files import KeptFiles
from nmt_cli.serve.limits import Limits
from nmt_cli.serve.metrics import Metrics
from nmt_cli.serve.requests import Fields, File, RequestRefused
from nmt_cli.serve.texts import (
    Answer,
    Direction,
    TaskOptions,
    TranslatedFile,
    text_of_file,
    text_of_html,
    translate_file,
    translate_html,
    translate_texts,
)
from nmt_cli.text.alignment import hard_alignment
from nmt_cli.translation.output_formats import confidence_of
from nmt_cli.translation.results import TranslatedLine

FILE_ENDINGS = (".txt", *ENDINGS)


@dataclass(frozen=True, slots=True)
class Task:
    """A checked request to translate texts."""

    texts: list[str]
    names: list[str]
    """The name of each text in errors."""
    is_list: bool
    detected_languages: list[dict[str, Any]] | None
    """The detected language of each text and its confidence; None if the client has named the source language."""
    sources: list[str]
    target: str
    is_html: bool
    options: TaskOptions


@dataclass(frozen=True, slots=True)
class FileTask:
    """A checked request to translate a file."""

    direction: Direction | None
    """None if the file is in the target language already."""
    target: str
    file: File
    options: TaskOptions


class Service:
    """Answers requests about the directions that are served."""

    def __init__(
        self, directions: Directions, limits: Limits, metrics: Metrics, problem: Callable[[], str | None], *,
        needs_key: bool,
    ) -> None:  # fmt: skip
        self.directions, self.limits, self.metrics = directions, limits, metrics
        self.problem = problem
        """Returns why the search does not work, or None if it works; may block for some seconds."""
        self.needs_key = needs_key
        self._files = KeptFiles()
        self._documents = DocumentLimiter(limits)

    # Translation ----------------------------------------------------------------------------------------------------

    def task(self, fields: Fields, cancellation: Cancellation) -> Task:
        """Return the checked task of a request to translate texts.

        Raises:
            RequestRefused: something is missing, wrong, not served, or too much.
            InputError: a piece of HTML whose language is to be detected is damaged.
            TaskCancelled: nobody waits for the answer any more.
        """
        given = fields.texts("q")
        source, target = fields.code("source"), fields.code("target")
        kind = fields.text("format") if fields.values.get("format") else "text"
        if kind not in ("text", "html"):
            raise RequestRefused(400, f"{kind[:40]} format is not supported")
        is_list, texts = isinstance(given, list), given if isinstance(given, list) else [given]
        names = [f"q[{place}] (counted from 0)" for place in range(len(texts))] if is_list else ["q"]
        options = self._task_options(fields)
        if kind == "html":
            for name, is_given in (("prefix", bool(options.prefix)), ("confidence", options.with_confidence)):
                if is_given:
                    raise RequestRefused(400, f"Invalid request: {name} goes with the format text")
        self._check_size(texts, is_costly=bool(options.alternatives) or options.with_alignment)
        found_target = self._language(target)
        detected_languages = None
        if source.lower() == "auto":
            self._check_detection()
            detected_languages = self.directions.detect_each(
                self._words(texts, names, kind, cancellation), found_target
            )
            sources = [one["language"] for one in detected_languages]
        else:
            found_source, found_target = self._pair(source, target)
            sources = [found_source] * len(texts)
        for code in sources:
            direction = self.directions.get_direction(code, found_target)
            if code != found_target and direction is None:
                raise RequestRefused(400, f"{found_target} is not available as a target language from {code}")
            if options.with_confidence and direction is not None and not direction.engine.capabilities.confidence:
                raise RequestRefused(
                    400, f"Invalid request: the model from {code} to {found_target} cannot tell its confidence; the "
                    "operator of the server can fit it: nmt evaluate --calibrate --model DIR",
                )  # fmt: skip
        return Task(texts, names, is_list, detected_languages, sources, found_target, kind == "html", options)

    def _words(
        self, texts: Sequence[str], names: Sequence[str], kind: str, cancellation: Cancellation
    ) -> Sequence[str]:
        """Return each text as it is needed to detect its language: HTML is cut to its beginning, without tags."""
        if kind == "text":
            return texts
        direction = next(iter(self.directions))
        return [
            text_of_html(direction, name, text, self._documents, cancellation)
            for name, text in zip(names, texts, strict=True)
        ]

    def _task_options(self, fields: Fields) -> TaskOptions:
        """Return the options in the fields of a request: all fields except the texts and the languages."""
        prefix, most = fields.text("prefix") if fields.values.get("prefix") else "", self.limits.prefix_characters
        if len(prefix) > most:
            raise RequestRefused(413, f"Invalid request: prefix ({len(prefix)}) exceeds its limit ({most})")
        if "\n" in prefix:
            raise RequestRefused(400, "Invalid request: prefix has a line end; it must be one line")
        return TaskOptions(
            fields.number("alternatives", most=self.limits.alternatives),
            fields.flag("alignment"),
            fields.flag("confidence"),
            prefix,
            fields.glossary("glossary", most=self.limits.glossary_characters),
        )

    def _check_size(self, texts: Sequence[str], *, is_costly: bool) -> None:
        size = sum(map(len, texts))
        limit = min(self.limits.characters, self.limits.costly_characters) if is_costly else self.limits.characters
        if size > limit:
            raise RequestRefused(413, f"Invalid request: request ({size}) exceeds text limit ({limit})")
        if len(texts) > self.limits.texts:
            raise RequestRefused(
                413, f"Invalid request: request ({len(texts)}) exceeds batch limit ({self.limits.texts})"
            )

    def _check_detection(self) -> None:
        if not self.directions.profiles:
            raise RequestRefused(400, "this server cannot detect languages: its models have no profiles of them")

    def _language(self, code: str) -> str:
        found = self.directions.find(code)
        if found is None:
            raise RequestRefused(400, f"{code} is not supported")
        return found

    def _pair(self, source: str, target: str) -> tuple[str, str]:
        """Return the source and target language that a client means, preferably as variants between which a model
        translates."""
        return self.directions.pair(source, target) or (self._language(source), self._language(target))

    def translate(self, task: Task, cancellation: Cancellation) -> dict[str, Any]:
        """Wait for the translation of the texts, and return the JSON object that answers the request."""
        answers: list[Answer] = [Answer(text, (), ()) for text in task.texts]
        for source in dict.fromkeys(task.sources):
            direction = self.directions.get_direction(source, task.target)
            if direction is None:  # the text is in the target language already
                continue
            places = [
                place for place, own in enumerate(task.sources) if own == source and not task.texts[place].isspace()
            ]
            if not places:
                continue
            self.metrics.count_characters(sum(len(task.texts[place]) for place in places))
            for place, answer in zip(places, self._answers(direction, places, task, cancellation), strict=True):
                answers[place] = answer

        def shown(values: Sequence[Any]) -> Any:
            return list(values) if task.is_list else values[0]

        result: dict[str, Any] = {"translatedText": shown([answer.text for answer in answers])}
        if task.detected_languages is not None:
            result["detectedLanguage"] = shown(task.detected_languages)
        if task.options.alternatives:
            result["alternatives"] = shown([list(answer.alternatives) for answer in answers])
        if task.options.with_alignment:
            sentences = [one for answer in answers for one in answer.sentences]
            is_small = sum(map(_num_weights, sentences)) <= self.limits.weights
            result["alignment"] = shown(
                [[_alignment_json(one, with_weights=is_small) for one in answer.sentences] for answer in answers]
            )
        if task.options.with_confidence:
            result["confidence"] = shown([round(answer.confidence, 6) for answer in answers])
            result["word_confidence"] = shown([_word_confidence(answer) for answer in answers])
        return result

    def _answers(self, direction: Direction, places: list[int], task: Task, cancellation: Cancellation) -> list[Answer]:
        """Return the translations of the texts of a task that are at `places`."""
        # With alignments each text is on its own, because sentences that two texts share are translated once.
        groups = [[place] for place in places] if task.options.with_alignment else [places]
        answers: list[Answer] = []
        for group in groups:
            names = [task.names[place] for place in group]
            translate = partial(translate_html, names=names) if task.is_html else translate_texts
            texts = [task.texts[place] for place in group]
            answers += translate(direction, texts, task.options, self._documents, cancellation)
        return answers

    def detect(self, fields: Fields) -> list[dict[str, Any]]:
        """Return the languages that the text of a request may be in, most probable first, each with a confidence (0 to
        100).

        Raises:
            RequestRefused: the text is missing or too long, or the server cannot detect languages.
        """
        given = fields.texts("q")
        text = given if isinstance(given, str) else "\n".join(given)
        self._check_size([text], is_costly=False)
        self._check_detection()
        return self.directions.detect(text)

    # Files ----------------------------------------------------------------------------------------------------------

    def file_task(self, fields: Fields, cancellation: Cancellation) -> FileTask:
        """Return the checked task of a request to translate a file.

        Raises:
            RequestRefused: something is missing, wrong, or not served.
            InputError: a file whose language is to be detected is damaged.
            TaskCancelled: nobody waits for the file any more.
        """
        file = fields.files.get("file")
        if file is None or not file.name:
            raise RequestRefused(400, "Invalid request: missing file parameter")
        source, asked = fields.code("source"), fields.code("target")
        target = self._language(asked)
        if (ending := PurePath(file.name).suffix.lower()) not in FILE_ENDINGS:
            found = f"ending {ending[:40]}" if ending else "file name without an ending"
            raise RequestRefused(
                400, f"Invalid request: file format not supported: {found}; use one of {', '.join(FILE_ENDINGS)}"
            )
        if source.lower() == "auto":
            self._check_detection()
            first = next(iter(self.directions))
            words = text_of_file(first, file.name, file.content, self._documents, cancellation)
            found = self.directions.detect_each([words], target)[0]["language"]
        else:
            found, target = self._pair(source, asked)
        direction = self.directions.get_direction(found, target)
        if direction is None and found != target:
            raise RequestRefused(400, f"{target} is not available as a target language from {found}")
        if fields.flag("confidence"):
            raise RequestRefused(400, "Invalid request: confidence goes with texts, not with files")
        glossary = fields.glossary("glossary", most=self.limits.glossary_characters)
        return FileTask(direction, target, file, TaskOptions(glossary=glossary))

    def translate_file(self, task: FileTask, cancellation: Cancellation) -> tuple[str, list[str]]:
        """Translate a file; return the name under which the result can be fetched for a while, and warnings, a
        sentence each."""
        direction, file = task.direction, task.file
        name, translated = PurePath(file.name).name[-100:], TranslatedFile(file.content, [])
        if direction is not None:
            translated = translate_file(direction, name, file.content, task.options, self._documents, cancellation)
        return self._files.add(name, task.target, translated.content), translated.warnings

    def file(self, name: str) -> bytes:
        """Return the content of a translated file by the name that `translate_file` has given it.

        Raises:
            RequestRefused: there is no file of this name, or it is no longer kept.
        """
        content = self._files.get(name)
        if content is None:
            raise RequestRefused(404, "there is no such file, or not any more")
        return content

    # About the server -----------------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Return the settings of the server for a web page: limits, features and the languages that it first shows."""
        first = next(iter(self.directions))
        named = {one["code"]: {"code": one["code"], "name": one["name"]} for one in self.directions.languages()}
        return {
            "charLimit": self.limits.characters,
            "frontendTimeout": 300,
            "apiKeys": self.needs_key,
            "keyRequired": self.needs_key,
            "suggestions": False,
            "filesTranslation": True,
            "supportedFilesFormat": list(FILE_ENDINGS),
            "confidence": [
                {"source": one.source, "target": one.target}
                for one in self.directions
                if one.engine.capabilities.confidence
            ],
            "language": {"source": named[first.source], "target": named[first.target]},
        }

    def metrics_text(self) -> str:
        """Return the metrics of the server and of each direction in the text format of Prometheus."""
        counts = [(direction, direction.engine.counts()) for direction in self.directions]
        return self.metrics.text(
            (
                {"source": direction.source, "target": direction.target},
                {
                    "nmt_sentences_total": counted.sentences,
                    "nmt_batches_total": counted.batches,
                    "nmt_search_seconds_total": counted.seconds,
                    "nmt_search_failures_total": counted.failures,
                    "nmt_waiting_sentences": counted.waiting,
                },
            )
            for direction, counted in counts
        )


def _num_weights(sentence: TranslatedLine) -> int:
    weights = sentence.translations[0].weights
    return 0 if weights is None else weights.size


def _alignment_json(sentence: TranslatedLine, *, with_weights: bool) -> dict[str, Any]:
    """Return a sentence, its best translation, and the links and attention weights between their words.

    The weights have a row for each target word and a column for each source word; None without `with_weights`.
    """
    best = sentence.translations[0]
    weights = best.weights
    links = hard_alignment(weights) if weights is not None else best.links or ()
    return {
        "source": sentence.source,
        "target": best.text,
        "links": [list(link) for link in links],
        "weights": weights.round(4).tolist() if weights is not None and with_weights else None,
        **confidence_of(best),
    }


def _word_confidence(answer: Answer) -> list[float]:
    """Return the confidence (0 to 1) of each white-space word of an answer; 1 in a text that was not translated."""
    values = answer.word_confidence or (1.0,) * len(answer.text.split())
    return [round(value, 6) for value in values]
