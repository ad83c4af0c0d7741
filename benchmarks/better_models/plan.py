"""The stages of the study, those first that are cheap or likely to pay."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.better_models.sooner import sizes, sooner
from benchmarks.better_models.stages import Workplace
from benchmarks.better_models.systems import Agreeing, Models, Rescored
from benchmarks.better_models.table import Corpus, Part, Scale, Table
from benchmarks.better_models.texts import (
    MASK,
    NUM_MASKED,
    TO_SOURCE,
    TO_TARGET,
    both_directions,
    masked,
    multi30k,
    tatoeba,
)
from nmt_cli.experiment import Experiment
from nmt_cli.training.checkpoints import Index

TAG = "<BT>"
"""The first piece of a source that a machine wrote, as in `nmt improve`."""


def table_of(data: Path, scale: Scale) -> Table:
    """Return all stages, those first that are cheap or likely to pay."""
    table = Table(data, scale)
    one, five, all_ = (multi30k(table, f"text-{number}", number) for number in (1_000, 5_000, 29_000))
    for prefix, corpus, minutes in (("B1", one, 9), ("B5", five, 12)):
        few_pairs_alone(table, prefix, corpus, minutes)
    captions(table, all_)
    for prefix, corpus, minutes in (("B1", one, 9), ("B5", five, 12)):
        source_text(table, prefix, corpus, minutes)
    sooner(table, 1)
    few_pairs_and_captions(table, "B5", five)
    better_students(table, all_)
    sooner(table, 2)
    vie = tatoeba(table, "text-vi-en", "vie", "vi", "en")
    into_english(table, "C-vi-en", vie, 10, 25)
    from_english(table, "C-en-vi", tatoeba(table, "text-en-vi", "vie", "en", "vi"), 10, 30)
    few_pairs_and_captions(table, "B1", one)
    second_round(table, all_)
    into_english(table, "C-zh-en", tatoeba(table, "text-zh-en", "cmn", "zh", "en"), 25, 60)
    from_english(table, "C-en-zh", tatoeba(table, "text-en-zh", "cmn", "en", "zh"), 25, 60)
    larger(table, all_)
    many_pairs(table, "C-en-fr", tatoeba(table, "text-en-fr", "fra", "en", "fr"))
    return table


def pairs_of(corpus: Corpus, target: tuple[str, str] | None = None) -> Part:
    """Return the pairs, or their sources with other targets."""
    return Part((corpus.name, f"pairs.{corpus.source}"), target or (corpus.name, f"pairs.{corpus.target}"))


def made_by(stage: str, corpus: Corpus, ratio: float | None = None, *, is_reverse: bool = False) -> Part:
    """Return the pairs that a stage has translated."""
    source, target = (stage, f"made.{corpus.source}"), (stage, f"made.{corpus.target}")
    ratio = corpus.ratio if ratio is None else ratio
    return Part(target, source, ratio) if is_reverse else Part(source, target, ratio)


def few_pairs_alone(table: Table, prefix: str, corpus: Corpus, minutes: float) -> None:
    """Single trainings on the pairs, of two seeds each."""
    pairs = [pairs_of(corpus)]
    for seed in (1, 2):
        table.trained(
            f"{prefix}-alone-{seed}", corpus, "the pairs alone, as `nmt init` configures it", minutes, pairs,
            seed=seed, sets=("training.keep_best=4",),
        )  # fmt: skip
    snapshots(table, f"{prefix}-snapshots", corpus, f"{prefix}-alone-1")
    table.system(
        f"{prefix}-alone-ensemble", corpus, "ensemble of two", 1,
        Models((f"{prefix}-alone-1/model", f"{prefix}-alone-2/model")),
    )  # fmt: skip
    kinds: dict[str, dict[str, Sequence[str]]] = {
        "lexical": {"sets": ("model.dropout.readout=0.75",)},
        "lexical-first": {"first": ("model.dropout.readout=0.9", "training.max_epochs=10")},
        "no-source-word": {"sets": ("model.dropout.source_word=0.0",)},
    }
    said = {
        "lexical": "a larger share of the lexical model: more dropout of the readout beside it",
        "lexical-first": "the lexical model learns first: begun with weights from ten epochs with readout dropout 0.9",
        "no-source-word": "no dropout of source words, to compare with the hidden words",
    }
    for which in ("frequent", "rare"):
        copies = masked(table, f"{prefix}-hidden-{which}", corpus, which)
        target = (corpus.name, f"pairs.{corpus.target}")
        parts = [Part((copies, f"{n}.{corpus.source}"), target, weight=1 / NUM_MASKED) for n in range(NUM_MASKED)]
        for seed in (1, 2):
            table.trained(
                f"{prefix}-{which}-{seed}", corpus, f"dropout of whole words, {which} ones more often", minutes, parts,
                seed=seed, sets=("model.dropout.source_word=0.0",), symbols=(MASK,),
            )  # fmt: skip
    for seed in (1, 2):
        for kind, options in kinds.items():
            more = 1.2 if "first" in options else 1.0
            table.trained(
                f"{prefix}-{kind}-{seed}", corpus, said[kind], minutes * more, pairs, seed=seed,
                sets=options.get("sets", ()), first=options.get("first", ()),
            )  # fmt: skip


def snapshots(table: Table, name: str, corpus: Corpus, of: str) -> str:
    """Add the ensemble of the best checkpoints of one training."""
    count = table.scale.number(4, 2)

    def prepare(place: Workplace) -> dict[str, Any]:
        model = Experiment(place.of(of) / "model")
        best = model.checkpoints.index().best
        for number in range(count):
            ranked, copy = best[min(number, len(best) - 1)], Experiment(place.directory / f"snapshot-{number}")
            shutil.rmtree(copy.directory, ignore_errors=True)
            shutil.copytree(model.directory, copy.directory, ignore=shutil.ignore_patterns("step-*"))
            step = ranked.step
            shutil.copytree(model.checkpoints.path_of(step), copy.checkpoints.path_of(step))
            copy.checkpoints.write_index(Index(step, (ranked,), (step,), "a copy"))
        return {"steps": [ranked.step for ranked in best]}

    models = tuple(f"{name}/snapshot-{number}" for number in range(count))
    return table.system(
        name, corpus, "ensemble of the four best checkpoints of one training", 1, Models(models), (of,), prepare=prepare
    )


def source_text(table: Table, prefix: str, corpus: Corpus, minutes: float) -> None:
    """Forward translation of text in the source language, and one model of both directions."""
    teachers = Models((f"{prefix}-alone-1/model", f"{prefix}-alone-2/model"))
    forth = table.translated(
        f"{prefix}-forth", corpus, "the ensemble translates the English text", 5, (corpus.name, "mono.en"), teachers,
        first="en",
    )  # fmt: skip
    parts = [pairs_of(corpus), made_by(forth, corpus)]
    for seed in (1, 2):
        table.trained(
            f"{prefix}-source-text-{seed}", corpus, "pairs and English text translated forward", 2.5 * minutes, parts,
            seed=seed, sets=_epochs(corpus, 1.0 if corpus.name == "text-1000" else 0.5),
        )  # fmt: skip
    both = both_directions(table, f"{prefix}-directions", corpus)
    ends = (corpus.source, corpus.target)
    parts = [
        Part((both, f"to-{to}.source"), (both, f"to-{to}.target")) for to in reversed(ends)
    ]  # fmt: skip
    table.trained(
        f"{prefix}-both-directions", corpus, "one model of both directions, which a mark names", 2 * minutes, parts,
        symbols=(TO_SOURCE, TO_TARGET), tag=TO_TARGET,
    )  # fmt: skip


def _epochs(corpus: Corpus, share: float) -> tuple[str, ...]:
    """Return the setting for a share of the epochs that `nmt init` gives to few pairs."""
    usual = {"text-1000": 100, "text-5000": 50}[corpus.name]
    return (f"training.max_epochs={round(usual * share)}",)


def back_translated(table: Table, prefix: str, corpus: Corpus, minutes: tuple[float, float]) -> str:
    """Add a reverse model and its translation of the target text."""
    reverse = table.trained(
        f"{prefix}-reverse", corpus, "the reverse model", minutes[0],
        [Part((corpus.name, f"pairs.{corpus.target}"), (corpus.name, f"pairs.{corpus.source}"))], direction="reverse",
    )  # fmt: skip
    return table.translated(
        f"{prefix}-back", corpus, "the target text is translated back", minutes[1],
        (corpus.name, f"mono.{corpus.target}"), Models((f"{reverse}/model",)), first=corpus.source, tag=TAG,
    )  # fmt: skip


def forward(
    table: Table,
    name: str,
    corpus: Corpus,
    parts: Sequence[Part],
    minutes: float,
    *,
    seeds: int = 3,
    sets: Sequence[str] = (),
) -> Models:
    """Add trainings with several seeds, their ensemble, which is returned, and that of snapshots of the first."""
    names = [
        table.trained(
            f"{name}-{seed}", corpus, "pairs and translated text", minutes, parts, seed=seed, symbols=(TAG,),
            sets=(*sets, "training.keep_best=4") if seed == 1 else sets,
        )
        for seed in range(1, seeds + 1)
    ]  # fmt: skip
    models = Models(tuple(f"{each}/model" for each in names))
    table.system(f"{name}-ensemble", corpus, f"ensemble of {seeds}", 2, models)
    snapshots(table, f"{name}-snapshots", corpus, names[0])
    return models


def from_right(
    table: Table, prefix: str, corpus: Corpus, parts: Sequence[Part], models: Models, minutes: float, reverse: str
) -> None:
    """Add a model that writes from the right, and n-best lists that it and the reverse model score again."""
    right = table.trained(
        f"{prefix}-right", corpus, "a model that writes from the last word to the first", minutes, parts,
        symbols=(TAG,), direction="right",
    )  # fmt: skip
    n_best = table.scale.number(20, 3)
    for kind, of in (("rescored-one", Models(models.models[:1])), ("rescored", models)):
        system = Rescored(of, (f"{right}/model",), (f"{reverse}/model",), f"{prefix}-{kind}", n_best)
        said = "the first model" if kind == "rescored-one" else "the ensemble"
        table.system(
            f"{prefix}-{kind}", corpus, f"n-best lists of {said}, scored again from the right and in reverse", 8, system
        )


def agreeing(table: Table, prefix: str, corpus: Corpus, models: Models) -> None:
    """Add choices among samples of the first model and of the ensemble."""
    number = table.scale.number(64, 4)
    for temperature in (0.5, 1.0):
        for kind, of, times in (("one", Models(models.models[:1]), 1), ("ensemble", models, len(models.models))):
            table.system(
                f"{prefix}-agree-{kind}-{temperature}", corpus,
                f"minimum Bayes risk among {number} samples and the 20 best, temperature {temperature}", 3 + 3 * times,
                Agreeing(of, number, temperature, table.scale.number(20, 3)),
            )  # fmt: skip


def student(
    table: Table,
    prefix: str,
    corpus: Corpus,
    teacher: Models | Rescored,
    others: Sequence[Part],
    minutes: tuple[float, float],
    *,
    sets: Sequence[str] = (),
) -> str:
    """Add one model that learns from a teacher's translations of the pairs' sources."""
    taught = table.translated(
        f"{prefix}-teach", corpus, "the teacher translates the sources of the pairs", minutes[0],
        (corpus.name, f"pairs.{corpus.source}"), teacher, first=corpus.source,
    )  # fmt: skip
    parts = [pairs_of(corpus, (taught, f"translated.{corpus.target}")), *others]
    return table.trained(
        f"{prefix}-student", corpus, "one model learns from the teacher", minutes[1], parts, symbols=(TAG,), sets=sets
    )


def captions(table: Table, corpus: Corpus) -> None:
    """29,000 pairs and captions, as in docs/studies/captions.md; an ensemble, and a model from the right."""
    back = back_translated(table, "A", corpus, (35, 6))
    parts = [pairs_of(corpus), made_by(back, corpus)]
    models = forward(table, "A-forward", corpus, parts, 74)
    student(table, "A-ensemble", corpus, models, parts[1:], (14, 74))
    from_right(table, "A", corpus, parts, models, 74, "A-reverse")
    agreeing(table, "A", corpus, models)


A_MODELS = Models(tuple(f"A-forward-{seed}/model" for seed in (1, 2, 3)))


def better_students(table: Table, corpus: Corpus) -> None:
    """A student of the ensemble whose lists were scored again."""
    teacher = Rescored(
        A_MODELS, ("A-right/model",), ("A-reverse/model",), "A-rescored", table.scale.number(10, 3), is_fast=True
    )
    student(table, "A-rescored", corpus, teacher, [made_by("A-back", corpus)], (45, 74))


def second_round(table: Table, corpus: Corpus) -> None:
    """A better reverse model, its translations, and a model that learns from them."""
    forth = table.translated(
        "A-forth", corpus, "the ensemble's translations of the pairs' English, for the reverse model", 1,
        (corpus.name, "pairs.en"), "A-ensemble-teach", first="de", tag=TAG,
    )  # fmt: skip
    itself = table.translated(
        "A-self", corpus, "the reverse model translates captions for itself", 6, (corpus.name, "mono.de"),
        Models(("A-reverse/model",)), first="de",
    )  # fmt: skip
    parts = [
        Part((corpus.name, "pairs.de"), (corpus.name, "pairs.en")),
        *(made_by(stage, corpus, 1.0, is_reverse=True) for stage in (forth, itself)),
    ]
    table.trained(
        "A-reverse-2", corpus, "a reverse model that learns from translations too", 75, parts, direction="reverse",
        symbols=(TAG,),
    )  # fmt: skip
    back = table.translated(
        "A-back-2", corpus, "the captions are translated back again", 8, (corpus.name, "mono.de"),
        Models(("A-reverse-2/model",)), first="en", tag=TAG,
    )  # fmt: skip
    table.trained(
        "A-forward-round-2", corpus, "pairs and captions of the second round", 74,
        [pairs_of(corpus), made_by(back, corpus)], symbols=(TAG,),
    )  # fmt: skip


def larger(table: Table, corpus: Corpus) -> None:
    """Larger models, alone, in the ensemble, and as a student."""
    for size, minutes in ((384, 100), (512, 150)):
        table.trained(
            f"A-forward-{size}", corpus, f"{size} units, with the captions of the first round", minutes,
            [pairs_of(corpus), made_by("A-back", corpus)], symbols=(TAG,), sets=sizes(size),
        )  # fmt: skip
    models = (*A_MODELS.models, "A-forward-384/model", "A-forward-512/model")
    table.system(
        "A-five-ensemble", corpus, "ensemble of the three and of the larger two", 4, Models(models),
    )  # fmt: skip
    rescored = Rescored(
        Models(models), ("A-right/model",), ("A-reverse/model",), "A-five-rescored", table.scale.number(20, 3)
    )
    table.system(
        "A-five-rescored", corpus, "their n-best lists, scored again from the right and in reverse", 14, rescored,
    )  # fmt: skip
    teacher = replace(rescored, n_best=table.scale.number(10, 3), is_fast=True)
    student(table, "A-five", corpus, teacher, [made_by("A-back", corpus)], (75, 100), sets=sizes(384))


def few_pairs_and_captions(table: Table, prefix: str, corpus: Corpus) -> None:
    """Few pairs with captions, with English text too, and both at once."""
    part = 1.0 if corpus.name == "text-5000" else 0.4
    back = back_translated(table, prefix, corpus, (12 * part, 6))
    parts = [pairs_of(corpus), made_by(back, corpus)]
    models = forward(table, f"{prefix}-captions", corpus, parts, 65 * part, seeds=2)
    forth = table.translated(
        f"{prefix}-captions-forth", corpus, "the ensemble translates the English text", 6, (corpus.name, "mono.en"),
        models, first="en",
    )  # fmt: skip
    table.trained(
        f"{prefix}-captions-source-text", corpus, "and the English text, translated forward by the ensemble", 75 * part,
        [*parts, made_by(forth, corpus)], symbols=(TAG,), sets=_epochs(corpus, 0.6),
    )  # fmt: skip
    again = table.translated(
        f"{prefix}-again-forth", corpus, "the same for the reverse model, with a mark", 1, (corpus.name, "mono.en"),
        forth, first="de", tag=TAG,
    )  # fmt: skip
    reverse = [
        Part((corpus.name, "pairs.de"), (corpus.name, "pairs.en")),
        made_by(again, corpus, is_reverse=True),
    ]
    table.trained(
        f"{prefix}-again-reverse", corpus, "a reverse model that learns from the English text", 65 * part, reverse,
        direction="reverse", symbols=(TAG,),
    )  # fmt: skip
    better = table.translated(
        f"{prefix}-again-back", corpus, "the captions are translated back again", 6, (corpus.name, "mono.de"),
        Models((f"{prefix}-again-reverse/model",)), first="en", tag=TAG,
    )  # fmt: skip
    table.trained(
        f"{prefix}-both-texts", corpus, "both directions at once: English text forward, better captions back",
        75 * part, [pairs_of(corpus), made_by(better, corpus), made_by(forth, corpus)], symbols=(TAG,),
        sets=_epochs(corpus, 0.6),
    )  # fmt: skip


def into_english(table: Table, prefix: str, corpus: Corpus, alone: float, whole: float) -> None:
    """Back-translation, ensemble, student and rescoring, for pairs whose target side has more text."""
    table.trained(f"{prefix}-alone", corpus, "the pairs alone", alone, [pairs_of(corpus)])
    back = back_translated(table, prefix, corpus, (alone, 4))
    parts = [pairs_of(corpus), made_by(back, corpus)]
    models = forward(table, f"{prefix}-forward", corpus, parts, whole)
    student(table, f"{prefix}-ensemble", corpus, models, parts[1:], (4, whole))
    from_right(table, prefix, corpus, parts, models, whole, f"{prefix}-reverse")


def from_english(table: Table, prefix: str, corpus: Corpus, alone: float, whole: float) -> None:
    """Forward translation of English text by an ensemble."""
    for seed in (1, 2):
        table.trained(f"{prefix}-alone-{seed}", corpus, "the pairs alone", alone, [pairs_of(corpus)], seed=seed)
    names = (f"{prefix}-alone-1", f"{prefix}-alone-2")
    models = Models(tuple(f"{name}/model" for name in names))
    table.system(f"{prefix}-alone-ensemble", corpus, "ensemble of two", 1, models)
    forth = table.translated(
        f"{prefix}-forth", corpus, "the ensemble translates English text", 6, (corpus.name, "mono.en"), models,
        first="en",
    )  # fmt: skip
    parts = [pairs_of(corpus), made_by(forth, corpus)]
    table.trained(f"{prefix}-source-text", corpus, "pairs and English text translated forward", whole, parts)


def many_pairs(table: Table, prefix: str, corpus: Corpus) -> None:
    """An ensemble of two, its student, and rescoring from the right, for 140,000 pairs."""
    pairs = [pairs_of(corpus)]
    models = forward(table, f"{prefix}-forward", corpus, pairs, 196, seeds=2)
    student(table, f"{prefix}-ensemble", corpus, models, [], (40, 196))
    table.trained(
        f"{prefix}-reverse", corpus, "the reverse model", 196,
        [Part((corpus.name, f"pairs.{corpus.target}"), (corpus.name, f"pairs.{corpus.source}"))], direction="reverse",
    )  # fmt: skip
    from_right(table, prefix, corpus, pairs, models, 196, f"{prefix}-reverse")
