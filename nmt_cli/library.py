"""The calls that a program or a notebook needs: load, translate, score, align, train.

They build the same objects as the commands, with the same defaults and errors. An `NmtError` carries the message that
the command line prints; where it names an option, such as --beam-size, the argument is `beam_size`. Importing this is
quick: each call imports what it needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nmt_cli.system.console import format_count
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.scoring import Score
    from nmt_cli.translation.forced_decoding import PairScore
    from nmt_cli.translation.results import TranslatedLine
    from nmt_cli.translation.translator import Translator


def load(
    *directories: str | Path,
    checkpoint: str = "best",
    device: str = "auto",
    precision: str = "auto",
    source_lang: str | None = None,
    target_lang: str | None = None,
    beam_size: int | None = None,
    n_best: int = 1,
    length_penalty: float | None = None,
    normalize_input: bool | None = None,
    alignment: bool = False,
    confidence: bool = False,
    glossary: str | Path | None = None,
) -> Translator:
    """Return the model in a directory, or the ensemble of several, ready to translate and to align.

    Without a directory it is the model that `nmt translate` would take. None leaves the model's own default.

    Args:
        directories: model directories.
        checkpoint: the weights: best, last, a step, or a name.
        device: auto, cpu, cuda or cuda:N.
        precision: auto (which is fp32), fp32, bf16 or int8.
        source_lang: the language of the source, required for a model of several directions.
        target_lang: the language to translate into.
        beam_size: number of partial translations that the search keeps.
        n_best: number of translations of each line, at most `beam_size`.
        length_penalty: the exponent of the length penalty.
        normalize_input: adapt the writing of each line to that of the training text before it is translated.
        alignment: each translation has `links` and `weights` between its words and those of the source.
        confidence: each translation has the probabilities that it (`confidence`) and each of its words
            (`word_confidence`) are correct.
        glossary: a file of terms and their translations.

    Raises:
        InputError: a model cannot be read, or cannot do what is asked for.
    """
    from nmt_cli.assembly.model_options import ModelOptions
    from nmt_cli.assembly.translation_task import DecodingOverrides, TranslationTask, open_line_translator

    for option, value in (("--beam-size", beam_size), ("--n-best", n_best)):
        if value is not None and value < 1:
            raise InputError(f"{option} {value}: must be at least 1")

    models = ModelOptions(
        [Path(directory) for directory in directories], checkpoint, device, precision=precision,
        source_lang=source_lang, target_lang=target_lang,
    )  # fmt: skip
    task = TranslationTask(
        file=None, output=None, format="jsonl", confidence=confidence,
        glossary=None if glossary is None else str(glossary),
    )  # fmt: skip
    decoding = DecodingOverrides(
        beam_size=beam_size, n_best=n_best, length_penalty=length_penalty, normalize_input=normalize_input,
        alignment=alignment,
    )  # fmt: skip
    task.check(decoding)
    with _torch_threads(None):
        return open_line_translator(task, models.experiments(), models, decoding)


def translate(model: Translator, lines: Iterable[str], *, threads: int = 1) -> list[TranslatedLine]:
    """Return the translations of each line, in order; `best.text` of each is what `nmt translate` prints.

    Args:
        model: what `load` returned.
        lines: lines of text; none holds a line break.
        threads: threads of the computation. With one, as in the workers of `nmt translate`, the translations are the
            same as those of the command.

    Raises:
        InputError: `lines` is a single string, or a line holds a line break.
    """
    checked = _checked_lines("lines", lines)
    with _torch_threads(threads):
        return list(model.translate(checked))


def align(model: Translator, sources: Iterable[str], targets: Iterable[str], *, threads: int = 1) -> list[PairScore]:
    """Return the alignment of each pair: `links` and `weights` between words, and `log_prob` of the translation.

    Args:
        model: what `load` returned.
        sources: lines in the source language.
        targets: their translations, line by line.
        threads: threads of the computation.

    Raises:
        InputError: there are more or fewer sources than targets, or the model has no attention.
    """
    from nmt_cli.assembly.word_alignment import alignment_scorer

    pairs = list(zip(*_parallel_texts({"sources": sources, "targets": targets}), strict=True))
    with _torch_threads(threads):
        return alignment_scorer(model).scores(pairs)


def score(
    hypotheses: Iterable[str],
    *references: Iterable[str],
    metrics: Sequence[str] = ("bleu", "chrf", "ter"),
    lowercase: bool = False,
    tokenize: str | None = None,
) -> dict[str, Score]:
    """Return the scores by sacreBLEU, not rounded, with their signatures, as a dictionary by the name of the metric.

    Args:
        hypotheses: translations.
        references: correct translations, line by line; several are different translations of the same lines.
        metrics: bleu, chrf and ter, or some of them.
        lowercase: BLEU ignores case.
        tokenize: the tokenizer of BLEU; None means sacreBLEU's default, 13a.

    Raises:
        InputError: there is no reference, a metric or a tokenizer is unknown, or the texts differ in length.
    """
    from nmt_cli.scoring import score_corpus

    named = {"hypotheses": hypotheses} | {f"reference {i}": lines for i, lines in enumerate(references, start=1)}
    ours, *others = _parallel_texts(named)
    return {found.name: found for found in score_corpus(
        ours, others, metrics=metrics, lowercase=lowercase, tokenize=tokenize
    )}  # fmt: skip


def train(config: str | Path, changes: Mapping[str, object] | None = None) -> Path:
    """Train the model of a configuration, or resume its training, and return its directory. Progress goes to stderr.

    An interruption ends the training after a checkpoint is written, and the same call resumes from there.

    Args:
        config: the configuration, a YAML file.
        changes: keys of the configuration with other values, such as {"training.max_steps": 100}.

    Raises:
        ConfigError: the configuration is wrong.
        InputError: a text, the model directory or the device is unfit.
        Interrupted: a signal has come, and what was to be saved is saved.
    """
    from nmt_cli.assembly.training_run import train_model

    overrides = [f"{key}={json.dumps(value, default=str)}" for key, value in (changes or {}).items()]
    with _torch_threads(None):
        return train_model(Path(config), overrides, dry_run=False).directory


@contextmanager
def _torch_threads(number: int | None) -> Iterator[None]:
    """Set torch's number of threads in the block, unless `number` is None, and restore the old number afterwards."""
    import torch

    before = torch.get_num_threads()
    if number is not None:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _parallel_texts(named: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the texts as lists of lines, in order; `InputError` names two texts that differ in length."""
    texts = {name: _checked_lines(name, lines) for name, lines in named.items()}
    first, *others = texts
    for name in others:
        if len(texts[name]) != len(texts[first]):
            raise InputError(
                f"{first} has {format_count(len(texts[first]), 'line')} and {name} has "
                f"{format_count(len(texts[name]), 'line')}; line i of one must belong to line i of the other, so the "
                "counts must be equal"
            )
    return list(texts.values())


def _checked_lines(name: str, lines: Iterable[str]) -> list[str]:
    """Return the lines as a list; refuse a single string instead of lines, and a line break within a line."""
    if isinstance(lines, str):
        raise InputError(f"{name}: is one text; give a list of lines, such as text.splitlines()")
    checked = list(lines)
    for number, line in enumerate(checked, start=1):
        if "\n" in line:
            raise InputError(f"{name}: line {number:,} holds a line break; give each line by itself")
    return checked
