"""The task loop of a process that translates lines; translator and output format are built where they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from nmt_cli.assembly.model_options import ModelOptions
from nmt_cli.assembly.translation_task import (
    DecodingOverrides,
    TranslationTask,
    open_line_translator,
    open_task_translator,
)
from nmt_cli.experiment import Experiment
from nmt_cli.system.console import warn
from nmt_cli.system.distributed import find_device
from nmt_cli.system.errors import InputError
from nmt_cli.system.workers import LazyTaskLoop, SequentialTaskLoop, TaskLoop
from nmt_cli.translation.line_tasks import translate_task
from nmt_cli.translation.output_formats import formatter
from nmt_cli.translation.results import TranslatedLine, Translation
from nmt_cli.translation.translator import Translator


def line_work(
    outputs: Literal["lines", "sentences"],
    task: TranslationTask,
    experiments: Sequence[Experiment],
    models: ModelOptions,
    decoding: DecodingOverrides,
    fingerprints: Sequence[str] = (),
) -> TaskLoop:
    """Return the loop that translates each `LineTask`; on a GPU, the worker process itself builds the translator.

    With `outputs` "lines", the output for a line is in the format of the task, as bytes. With "sentences", for a
    document, it is the best translation of the sentence. `fingerprints` are the SHA-256 that the models must have, in
    their order; if it is empty, nothing is compared.

    Raises:
        InputError: a model cannot be loaded, has another fingerprint than on the machine of the command, lacks an
            attention that is needed, or more translations of a line are wanted than its beam holds.
    """
    build = partial(_build_loop, outputs, task, experiments, models, decoding, fingerprints)
    return LazyTaskLoop(build) if find_device(models.device).type == "cuda" else build()


def _build_loop(
    outputs: Literal["lines", "sentences"],
    task: TranslationTask,
    experiments: Sequence[Experiment],
    models: ModelOptions,
    decoding: DecodingOverrides,
    fingerprints: Sequence[str],
) -> SequentialTaskLoop:
    open_ = open_line_translator if outputs == "lines" else open_task_translator
    translator = open_(task, experiments, models, decoding)
    for experiment, fingerprint in zip(experiments, fingerprints, strict=False):
        if experiment.fingerprint(models.checkpoint) != fingerprint:
            raise InputError(
                f"{experiment.directory}: holds another model here than where the command was given; every machine of "
                "the cluster must see the same model under the same path"
            )
    if outputs == "sentences":
        _prepare_for_sentences(translator, task, decoding)
        return SequentialTaskLoop(partial(translate_task, translator, _best_translation))
    has_terms = task.glossary is not None
    write = formatter(task.format, n_best=decoding.n_best, alignment=task.alignment, glossary=has_terms)

    def encoded_output(number: int, translated: TranslatedLine) -> bytes:
        return write(number, translated).encode("utf-8", errors="replace")

    return SequentialTaskLoop(partial(translate_task, translator, encoded_output))


def _prepare_for_sentences(translator: Translator, task: TranslationTask, decoding: DecodingOverrides) -> None:
    """Let the translator return the attention, by which tags and placeholders are placed, and do no markup itself.

    For a sentence of a document, the caller takes the markup out before translation and puts it back afterwards.
    """
    if not translator.models.has_attention and (task.is_document or decoding.markup):
        without = translator.models.no_attention_message
        warn(f"{without}, so the order of the words alone places tags and placeholders")
    overrides = {"with_alignment": translator.models.has_attention, "keep_markup": False}
    translator.options = translator.options.model_copy(update=overrides)


def _best_translation(_: int, translated: TranslatedLine) -> Translation:
    return translated.best
