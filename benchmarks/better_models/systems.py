"""What translates a dev or test set: models, choices among their n-best lists, choices among samples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, Protocol

from benchmarks.better_models.lines import read_lines, reversed_words, write_lines
from benchmarks.better_models.stages import Workplace
from nmt_cli.commands.translate import translate

CHOOSING = "benchmarks.better_models.choosing"
ONE_THREAD = ("--threads", "1")
ONE_WORKER = (*ONE_THREAD, *(("--workers", "1") if "workers" in signature(translate).parameters else ()))
"""The options of `nmt translate` for one process of one thread. Versions with workers would begin one for each core."""


class System(Protocol):
    """A model or several that translate dev and test sets."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The stages that made its models."""

    def translate(self, place: Workplace, source: Path, output: Path) -> None:
        """Write the translation of each line."""


@dataclass(frozen=True, slots=True)
class Models:
    """One model, or several as an ensemble: directories of models below the root."""

    models: tuple[str, ...]
    tag: str | None = None
    """The first word of every line that is translated."""
    reads_from_right: bool = False
    """The models write each line from its last word to its first."""

    @property
    def needs(self) -> tuple[str, ...]:
        return _stages(self.models)

    def options(self, place: Workplace) -> list[str]:
        return [word for model in self.models for word in ("--model", str(place.of(model)))]

    def translate(self, place: Workplace, source: Path, output: Path) -> None:
        if self.tag is not None:
            tagged = place.directory / f"{output.name}.tagged"
            write_lines(tagged, (f"{self.tag} {line}" for line in read_lines(source)))
            source = tagged
        made = place.directory / f"{output.name}.right" if self.reads_from_right else output
        place.once(made, "translate", source, *self.options(place), "-o", made, *ONE_WORKER)
        if self.reads_from_right:
            write_lines(output, map(reversed_words, read_lines(made)))


@dataclass(frozen=True, slots=True)
class Rescored:
    """The best of an n-best list by its own score, that of models that read from the right, and the reverse model's.

    `tuned` is the stage that has the weights, which the dev set decided.
    """

    models: Models
    right: tuple[str, ...]
    reverse: tuple[str, ...]
    tuned: str
    n_best: int
    is_fast: bool = False
    """Search in int8."""

    @property
    def needs(self) -> tuple[str, ...]:
        return (*_stages((*self.models.models, *self.right, *self.reverse)), self.tuned)

    def translate(self, place: Workplace, source: Path, output: Path) -> None:
        self.choose(place, self.candidates(place, source, output), output)

    def candidates(self, place: Workplace, source: Path, output: Path) -> list[str | Path]:
        """Return the arguments of `choosing.py` that name the list and the scores."""
        base = output.name
        found, texts, turned, sources, right, reverse = (
            place.directory / f"{base}.{end}" for end in ("list", "texts", "turned", "sources", "right", "reverse")
        )
        number = str(self.n_best)
        place.once(
            found, "translate", source, *self.models.options(place), "-o", found, *ONE_WORKER, "--format", "moses",
            "--beam-size", number, "--n-best", number, *(("--precision", "int8") if self.is_fast else ()),
        )  # fmt: skip
        arguments: list[str | Path] = [found, "--scores"]
        for models, is_reverse, made in ((self.right, False, right), (self.reverse, True, reverse)):
            if not models:
                continue
            if not made.exists():
                written = texts if is_reverse else turned
                listed = ("candidates", found, "--source", source, "--texts", written, "--sources", sources)
                place.python("-m", CHOOSING, *listed, *(() if is_reverse else ("--reverse",)))
                pair = (texts, sources) if is_reverse else (sources, turned)
                place.nmt("rescore", *pair, *Models(models).options(place), "-o", made, *ONE_THREAD)
            arguments.append(made)
        return arguments

    def choose(self, place: Workplace, arguments: Sequence[str | Path], output: Path) -> None:
        weights = place.of(self.tuned) / "weights.json"
        place.python("-m", CHOOSING, "choose", *arguments, "--weights", weights, "-o", output)

    def tune(self, place: Workplace, source: Path, output: Path, reference: Path, tokenize: str) -> dict[str, Any]:
        """Choose the weights on the dev set."""
        arguments, weights = self.candidates(place, source, output), place.directory / "weights.json"
        place.python(
            *("-m", CHOOSING, "tune", *arguments),
            *("--reference", reference, "--tokenize", tokenize, "-o", weights),
        )
        values: dict[str, Any] = json.loads(weights.read_text(encoding="utf-8"))
        return {"weights": values["weights"], "without_weights": values["without"]}


@dataclass(frozen=True, slots=True)
class Agreeing:
    """The sample that agrees most with all others by chrF: minimum Bayes risk (Kumar & Byrne, 2004)."""

    models: Models
    number: int
    temperature: float
    n_best: int = 0
    """Translations of an n-best list that join the samples."""

    @property
    def needs(self) -> tuple[str, ...]:
        return self.models.needs

    def translate(self, place: Workplace, source: Path, output: Path) -> None:
        found, best = (place.directory / f"{output.name}.{end}" for end in ("samples", "list"))
        common: tuple[str | Path, ...] = (
            "translate",
            source,
            *self.models.options(place),
            *ONE_WORKER,
            "--format",
            "moses",
        )
        drawn = ("--sample", "--temperature", str(self.temperature), "--n-best", str(self.number))
        place.once(found, *common, *drawn, "-o", found)
        lists = [found]
        if self.n_best:
            place.once(best, *common, "--beam-size", str(self.n_best), "--n-best", str(self.n_best), "-o", best)
            lists.append(best)
        place.python("-m", CHOOSING, "agree", *lists, "-o", output)


def _stages(models: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(model.split("/")[0] for model in models))
