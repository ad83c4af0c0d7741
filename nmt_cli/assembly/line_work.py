"""The work of a process that translates lines: a translator and an output format, built where they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from nmt_cli.assembly.named_models import ModelOptions
from nmt_cli.assembly.requested_translation import RequestedDecoding, TranslationTask, need_attention, open_requested
from nmt_cli.experiment import Experiment
from nmt_cli.system.distributed import find_device
from nmt_cli.system.errors import InputError
from nmt_cli.system.workers import BuiltLater, OneByOne, Work
from nmt_cli.translation.line_tasks import translate_task
from nmt_cli.translation.output_formats import formatter


def line_work(
    task: TranslationTask, experiments: Sequence[Experiment], models: ModelOptions, decoding: RequestedDecoding
) -> Work:
    """Return what translates the `LineTask`s of a task; on a GPU, the worker itself builds it.

    Raises:
        InputError: as `translator_work` does.
    """
    build = partial(translator_work, task, experiments, models, decoding)
    return BuiltLater(build) if find_device(models.device).type == "cuda" else build()


def translator_work(
    task: TranslationTask, experiments: Sequence[Experiment], models: ModelOptions, decoding: RequestedDecoding
) -> OneByOne:
    """Return what translates the `LineTask`s of a task with one translator.

    Raises:
        InputError: a model cannot be loaded, has no attention that is needed, or has a smaller beam than translations
            of a line are wanted.
    """
    translator = open_requested(task, experiments, models, decoding)
    need_attention(translator)
    options = translator.options
    if options.sampling_temperature is None and decoding.n_best > options.beam_size:
        raise InputError(f"--n-best {decoding.n_best}: is more than the beam, {options.beam_size}; raise --beam-size")
    has_terms = task.glossary is not None
    write = formatter(task.format, n_best=decoding.n_best, alignment=task.alignment, glossary=has_terms)
    return OneByOne(partial(translate_task, translator, write))
