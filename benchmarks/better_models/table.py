"""The table of stages: trainings, translations, and systems that are scored on the dev set."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.better_models.lines import read_lines, reversed_words, write_lines
from benchmarks.better_models.stages import Stage, Workplace
from benchmarks.better_models.systems import ONE_WORKER, Models, Rescored, System
from benchmarks.runs import metrics
from nmt_cli.config.loader import dump_config, load_config
from nmt_cli.config.schema import Config
from nmt_cli.corpora.sizes import size_changes, sizes_for
from nmt_cli.corpora.survey import survey
from nmt_cli.data.pairs import Corpus as TextPair
from nmt_cli.experiment import Experiment
from nmt_cli.improve.training import Corpus as Pairs
from nmt_cli.improve.training import training_config

RATIO = 2.0
"""Translated lines of an epoch, as a multiple of the pairs, as in `nmt improve`."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Pairs, a dev and a test set, and perhaps text in one language; a stage of this name prepares them."""

    name: str
    source: str
    target: str
    tokenize: str = "none"
    """The way BLEU cuts words."""
    ratio: float = RATIO

    def file(self, root: Path, name: str) -> Path:
        return root / self.name / name


@dataclass(frozen=True, slots=True)
class Part:
    """A part of what a training learns from, in its direction: each side is a stage and a file in its directory."""

    source: tuple[str, str]
    target: tuple[str, str]
    ratio: float | None = None
    """Its lines in an epoch as a multiple of the pairs, at most all; None: all."""
    weight: float | None = None
    """Another share of its lines."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Settings of all stages: the precision, and the sizes that `--tiny` shrinks to try the program."""

    is_tiny: bool
    precision: str = "auto"
    """The precision of all trainings. What `auto` finds may differ from run to run on a busy machine."""

    def lines(self, number: int) -> int:
        """Return how many lines are read where all would read `number`."""
        return max(100, number // 200) if self.is_tiny else number

    def number(self, whole: int, tiny: int) -> int:
        return tiny if self.is_tiny else whole

    @property
    def sets(self) -> tuple[str, ...]:
        """Settings of every training, which come last."""
        precision = (f"training.precision={self.precision}",)
        sizes = ("embedding_size", "encoder.hidden_size", "decoder.hidden_size", "attention.size")
        tiny = (
            *(f"model.{key}=16" for key in sizes),
            *("training.max_steps=4", "training.max_epochs=null", "training.validation_freq=2"),
            *("training.warmup_steps=1", "training.schedule=constant", "decoding.max_length_a=1"),
        )
        return (*precision, *tiny) if self.is_tiny else precision


class Table:
    """Stages in the order in which they run, and the systems among them."""

    def __init__(self, data: Path, scale: Scale) -> None:
        self.data, self.scale = data, scale
        self.stages: list[Stage] = []
        self.systems: dict[str, tuple[Corpus, System]] = {}

    def add(
        self,
        name: str,
        purpose: str,
        minutes: float,
        work: Callable[[Workplace], Mapping[str, Any]],
        needs: Iterable[str] = (),
    ) -> str:
        """Append a stage and return its name."""
        self.stages.append(Stage(name, purpose, minutes, work, tuple(dict.fromkeys(needs))))
        return name

    def system(
        self,
        name: str,
        corpus: Corpus,
        purpose: str,
        minutes: float,
        system: System,
        needs: Iterable[str] = (),
        *,
        prepare: Callable[[Workplace], Mapping[str, Any]] = lambda _: {},
        seed: int | None = None,
    ) -> str:
        """Append a stage that makes a system and scores it on the dev set."""

        def work(place: Workplace) -> dict[str, Any]:
            result = {"set": "dev", "corpus": corpus.name, "seed": seed, **prepare(place)}
            return {**result, **scored(place, corpus, system, "dev")}

        self.systems[name] = (corpus, system)
        by = (each for each in system.needs if each != name)
        return self.add(name, purpose, minutes, work, (corpus.name, *needs, *by))

    def trained(
        self,
        name: str,
        corpus: Corpus,
        purpose: str,
        minutes: float,
        parts: Sequence[Part],
        *,
        seed: int = 1,
        sets: Sequence[str] = (),
        first: Sequence[str] = (),
        direction: str = "forward",
        symbols: Sequence[str] = (),
        tag: str | None = None,
    ) -> str:
        """Append a training.

        Args:
            first: settings of a training whose weights this one begins with.
            direction: `forward`, `reverse`, or `right`: target lines are written from the last word to the first.
            symbols: marks that the tokenizer keeps whole.
            tag: mark of each line of the dev and test sets.
            others: as in `Table.system`.
        """
        training = Training(corpus, tuple(parts), seed, direction, tuple(symbols), tag)

        def prepare(place: Workplace) -> dict[str, Any]:
            more = tuple(sets)
            if first:
                training.run(place, "first", (*sets, *first, *self.scale.sets))
                more += (f"training.init_from={place.directory / 'first'}",)
            model = training.run(place, "model", (*more, *self.scale.sets))
            records = metrics(model, "validation")
            return {"updates": records[-1]["step"], "curve": [[each["step"], each["bleu"]] for each in records]}

        needs = [side[0] for part in parts for side in (part.source, part.target)]
        system = Models((f"{name}/model",), tag, direction == "right")
        if direction == "reverse":

            def work(place: Workplace) -> dict[str, Any]:
                result = prepare(place)
                return {"set": "dev", "seed": seed, "bleu": max(bleu for _, bleu in result["curve"]), **result}

            return self.add(name, purpose, minutes, work, (corpus.name, *needs))
        return self.system(name, corpus, purpose, minutes, system, needs, prepare=prepare, seed=seed)

    def translated(
        self,
        name: str,
        corpus: Corpus,
        purpose: str,
        minutes: float,
        text: tuple[str, str],
        translator: Models | Rescored | str,
        *,
        first: str,
        tag: str | None = None,
    ) -> str:
        """Append the translation of a text. `translated.XX` has a line for each of its lines. `made.XX` and `made.YY`
        are pairs without the bad ones; `first` is the language of the side that a model learns from, with the tag.
        The translator may be a stage that has translated the same text."""
        other = corpus.target if first == corpus.source else corpus.source
        language = other if text[1].endswith(f".{first}") else first

        def work(place: Workplace) -> dict[str, Any]:
            source, made = place.of(text[0]) / text[1], place.directory / f"translated.{language}"
            if isinstance(translator, str):
                made = place.of(translator) / made.name
            elif isinstance(translator, Rescored):
                translator.translate(place, source, made)
            else:
                fast = ("--beam-size", "5", "--precision", "int8", "--device", "cpu")
                place.once(made, "translate", source, *translator.options(place), "-o", made, *fast, *ONE_WORKER)
            sides = (made, source) if language == first else (source, made)
            for end in (corpus.source, corpus.target):
                (place.directory / f"made.{end}").unlink(missing_ok=True)
            if self.scale.is_tiny:  # what a tiny model writes is all bad
                for side, end, mark in zip(sides, (first, other), (tag, None), strict=True):
                    lines = read_lines(side)
                    write_lines(place.directory / f"made.{end}", (f"{mark} {line}" if mark else line for line in lines))
                return {"lines": len(lines)}
            (place.directory / "made.dropped.tsv").unlink(missing_ok=True)
            marked = ("--tag", tag) if tag else ()
            place.nmt("clean", *sides, "-o", place.directory / "made", "--keep", "markup", *marked)
            return {"lines": len(read_lines(place.directory / f"made.{first}"))}

        by = (translator,) if isinstance(translator, str) else translator.needs
        return self.add(name, purpose, minutes, work, (text[0], *by))


@dataclass(frozen=True, slots=True)
class Training:
    """A training on some parts, configured as `nmt improve` would."""

    corpus: Corpus
    parts: tuple[Part, ...]
    seed: int
    direction: str
    symbols: tuple[str, ...]
    tag: str | None

    def run(self, place: Workplace, name: str, sets: Sequence[str]) -> Path:
        """Train, or go on, and return the model directory."""
        model = place.directory / name
        if not Experiment(model).checkpoints.index().finish_reason:
            config = place.directory / f"{name}.yaml"
            if not config.exists():
                write_lines(config, dump_config(self._config(place, model)).splitlines())
            changes = [word for key in (*self._dev(place), "training.threads=1", *sets) for word in ("--set", key)]
            place.nmt("train", "--config", config, *changes)
        forget_training(model)
        return model

    def _dev(self, place: Workplace) -> tuple[str, ...]:
        """Return settings for a dev set that is written as the training's text is."""
        changed = []
        for side, end in (("source", self.corpus.source), ("target", self.corpus.target)):
            if (side == "source" and self.tag) or (side == "target" and self.direction == "right"):
                path = place.directory / f"dev.{end}"
                lines = read_lines(self.corpus.file(place.root, path.name))
                write_lines(path, (f"{self.tag} {line}" for line in lines) if self.tag else map(reversed_words, lines))
                changed.append(f"data.dev.{side}={path}")
        if self.direction == "right":
            changed.append("decoding.normalize_input=false")  # a line that ends with its first word has no writing
        return tuple(changed)

    def _config(self, place: Workplace, model: Path) -> Config:
        base = load_config(self.corpus.file(place.root, "base.yaml"))
        num_pairs = len(read_lines(self.corpus.file(place.root, f"pairs.{self.corpus.source}")))
        corpora = []
        direction = base.data.direction.reverse_direction if self.direction == "reverse" else base.data.direction
        for number, part in enumerate(self.parts):
            source, target = (place.of(stage) / file for stage, file in (part.source, part.target))
            if self.direction == "right":
                turned = place.directory / f"turned.{number}"
                write_lines(turned, map(reversed_words, read_lines(target)))
                target = turned
            lines = len(read_lines(source))
            weight = 1.0 if part.ratio is None else min(1.0, part.ratio * num_pairs / max(1, lines))
            corpora.append(Pairs(source, target, lines, part.weight or float(f"{weight:.3g}"), direction))
        an_epoch = round(sum(each.pairs_per_epoch for each in corpora))
        alone = survey([TextPair(base.data.train[0].source, base.data.train[0].target)])
        texts = survey([TextPair(str(each.source), str(each.target)) for each in corpora])
        is_larger = an_epoch > 1.05 * num_pairs
        return training_config(
            base,
            corpora,
            model=model,
            seed=self.seed,
            factor=an_epoch / num_pairs,
            symbols=self.symbols,
            sizes=size_changes(base, sizes_for(alone), sizes_for(replace(texts, num_pairs=an_epoch)))
            if is_larger
            else {},
            is_reverse=self.direction == "reverse",
            is_result=False,
        )


def forget_training(model: Path) -> None:
    """Remove what only a training that goes on needs; all of it would fill the disk."""
    shutil.rmtree(Experiment(model).cache_path, ignore_errors=True)
    for path in model.glob("checkpoints/*/trainer.safetensors"):
        path.unlink()


def scored(place: Workplace, corpus: Corpus, system: System, name: str) -> dict[str, Any]:
    """Return the scores of a system on the dev or test set, with their signatures."""
    source, reference = (corpus.file(place.root, f"{name}.{end}") for end in (corpus.source, corpus.target))
    output, report = place.directory / f"{name}.hyp", place.directory / f"{name}.json"
    more = {}
    if isinstance(system, Rescored) and name == "dev":
        more = system.tune(place, source, output, reference, corpus.tokenize)
    system.translate(place, source, output)
    options = ("--metric", "bleu", "--metric", "chrf", "--json", "--tokenize", corpus.tokenize)
    place.nmt("score", output, "--reference", reference, *options, output=report)
    values = json.loads(report.read_text(encoding="utf-8"))
    return {
        **more,
        **{metric: values[metric]["score"] for metric in ("bleu", "chrf")},
        "signatures": [values[metric]["signature"] for metric in ("bleu", "chrf")],
    }
