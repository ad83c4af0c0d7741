"""Trainings that should reach 40 BLEU on val sooner than the recipe, by processor time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.better_models.lines import write_lines
from benchmarks.better_models.stages import CODE, Workplace
from benchmarks.better_models.table import Table, forget_training
from benchmarks.runs import metrics

RECIPE = CODE / "configs" / "multi30k_en_de.yaml"
EPOCH = 305
"""Updates of an epoch of `RECIPE`."""
GOALS = (38, 40, 42)
SAMPLED = ("training.sampled_softmax=true", "model.dropout.embedding=0")
"""What saves most by docs/studies/sampled-softmax.md."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Updates with some settings; a later phase begins with the weights of the one before."""

    epochs: int
    """Times `EPOCH` updates."""
    sets: tuple[str, ...]
    cost: float = 1.0
    """The time of an update, as a multiple of the usual one."""


AGAIN = ("training.warmup_steps=50",)
"""A later phase begins with an optimizer that knows nothing."""
NO_DROPOUT = tuple(f"model.dropout.{part}=0" for part in ("recurrent", "readout", "source_word", "target_word"))


def sizes(size: int) -> tuple[str, ...]:
    """Return settings that give all vectors of a model one size."""
    keys = ("embedding_size", "encoder.hidden_size", "decoder.hidden_size", "attention.size")
    return tuple(f"model.{key}={size}" for key in keys)


SOONER: dict[str, tuple[str, tuple[Phase, ...]]] = {
    "recipe": ("the recipe", (Phase(13, ()),)),
    "sampled": ("sampled softmax, no dropout of embeddings", (Phase(13, SAMPLED),)),
    "faster": ("and a learning rate of 6e-3", (Phase(7, (*SAMPLED, "training.learning_rate=6.0e-3")),)),
    "shorter-average": (
        "and an average over half as many updates",
        (Phase(7, (*SAMPLED, "training.ema_decay=0.998")),),
    ),
    "growing-batches": (
        "and batches of half the size for two epochs",
        (Phase(4, (*SAMPLED, "training.batch_size=750"), 0.6), Phase(5, (*SAMPLED, *AGAIN))),
    ),
    "short-first": (
        "and pairs of at most 16 pieces first",
        (Phase(1, (*SAMPLED, "data.max_length=16")), Phase(6, (*SAMPLED, *AGAIN))),
    ),
    "growing-vocabulary": (
        "and 4,000 pieces for two epochs",
        (Phase(2, (*SAMPLED, "tokenizer.vocab_size=4000")), Phase(5, (*SAMPLED, *AGAIN))),
    ),
    "no-dropout-first": (
        "and no dropout for two epochs",
        (Phase(2, (*SAMPLED, *NO_DROPOUT)), Phase(5, (*SAMPLED, *AGAIN))),
    ),
    "smaller": ("and 192 units", (Phase(8, (*SAMPLED, *sizes(192)), 0.75),)),
    "taught": ("and the ensemble's translations as text, whose time is not counted", (Phase(7, SAMPLED),)),
}
"""By name, what is changed, and the phases."""
TAUGHT = "A-ensemble-teach"
MINUTES_OF_EPOCH = 2.4


def sooner(table: Table, seed: int) -> None:
    """Add trainings that are scored after each epoch, with the processor time so far."""
    for name, (said, phases) in SOONER.items():
        minutes = sum(MINUTES_OF_EPOCH * phase.epochs * phase.cost * (0.85 if phase.sets else 1.0) for phase in phases)
        needs = ("text-29000", TAUGHT) if name == "taught" else ("text-29000",)
        table.add(
            f"D-{name}-{seed}", f"val 40 sooner: {said}", minutes, _Timed(table, phases, seed, name == "taught"), needs
        )


@dataclass(frozen=True, slots=True)
class _Timed:
    """A training in parts of an epoch, each a command of its own, so that its processor time is known.

    Each command reads the last state again, which takes some seconds. These count, for the recipe as for its rivals.
    """

    table: Table
    phases: tuple[Phase, ...]
    seed: int
    is_taught: bool

    def __call__(self, place: Workplace) -> dict[str, Any]:
        path = place.directory / "curve.json"
        curve: list[dict[str, float]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        epoch, before = self.table.scale.number(EPOCH, 2), 0
        for number, phase in enumerate(self.phases):
            parts = self.table.scale.number(phase.epochs, 2)
            model = place.directory / f"phase-{number}"
            begin = (f"training.init_from={place.directory / f'phase-{number - 1}'}",) if number else ()
            for part in range(len(curve) - before + 1, parts + 1):
                sets = (*self._common(place, epoch), *self._sets(phase), *begin, f"training.max_steps={part * epoch}")
                changes = [word for each in (f"model_dir={model}", *sets) for word in ("--set", each)]
                place.nmt("train", "--config", RECIPE, *changes)
                curve.append(
                    {
                        "updates": (before + part) * epoch,
                        "bleu": metrics(model, "validation")[-1]["bleu"],
                        "minutes": place.processor()[0] / 60,
                    }
                )
                write_lines(path, [json.dumps(curve)])
            before += parts
        for number in range(len(self.phases)):
            forget_training(place.directory / f"phase-{number}")
        reached = {f"minutes_to_{goal}": minutes_to(goal, curve) for goal in GOALS}
        return {"seed": self.seed, "corpus": "text-29000", **reached, "curve": curve}

    def _sets(self, phase: Phase) -> tuple[str, ...]:
        if not self.table.scale.is_tiny:
            return phase.sets
        return tuple(each for each in phase.sets if not each.startswith(("model.", "tokenizer.", "data.")))

    def _common(self, place: Workplace, epoch: int) -> tuple[str, ...]:
        texts = place.of("text-29000")
        files = {f"{part}.{side}": texts / f"{file}.{end}" for part, file in (("train.0", "train"), ("dev", "dev"))
                 for side, end in (("source", "en"), ("target", "de"))}  # fmt: skip
        if self.is_taught:
            files |= {"train.0.source": texts / "pairs.en", "train.0.target": place.of(TAUGHT) / "translated.de"}
        tiny = ("tokenizer.vocab_size=400", *sizes(16), "training.warmup_steps=1")
        return (
            *(f"data.{key}={file}" for key, file in files.items()),
            *(f"seed={self.seed}", "data.test=[]", "training.threads=1", "training.max_epochs=null"),
            *(f"training.validation_freq={epoch}", f"training.checkpoint_freq={epoch}", "training.num_samples=0"),
            f"training.precision={self.table.scale.precision}",
            *(tiny if self.table.scale.is_tiny else ()),
        )


def minutes_to(goal: float, curve: Sequence[Mapping[str, float]]) -> float | None:
    """Return the processor minutes at which a curve first reaches a BLEU, between two points; None if it does not."""
    bleu, minutes = 0.0, 0.0
    for point in curve:
        if point["bleu"] >= goal:
            share = (goal - bleu) / (point["bleu"] - bleu)
            return minutes + share * (point["minutes"] - minutes)
        bleu, minutes = point["bleu"], point["minutes"]
    return None
