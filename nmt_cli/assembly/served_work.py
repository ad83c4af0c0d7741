"""The task loop of a process that searches for `nmt serve`: translators of all directions, built where needed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from nmt_cli.assembly.trained_translator import open_directions
from nmt_cli.experiment import Experiment
from nmt_cli.system.distributed import find_device
from nmt_cli.system.workers import LazyTaskLoop, TaskLoop
from nmt_cli.translation.sentence_tasks import PROBE
from nmt_cli.translation.shared_search import SharedSearch
from nmt_cli.translation.translator import Translator


def served_work(models: Sequence[Sequence[Experiment]], loading_options: dict[str, Any]) -> TaskLoop:
    """Return the loop that translates each `SentenceTask`; on a GPU the worker process itself builds the translators.

    Each of the `models` is a list of its directions. A task names its translator by an index, from 0, into the
    directions of all models in order. The loop's `reloaded` takes the index of the model to load again.

    Raises:
        InputError: a model cannot be loaded.
    """
    build = partial(_build_loop, models, loading_options)
    return LazyTaskLoop(build) if find_device(loading_options["device"]).type == "cuda" else build()


def _build_loop(models: Sequence[Sequence[Experiment]], loading_options: dict[str, Any]) -> SharedSearch:
    return _shared_search(
        models, loading_options, [open_directions(directions, **loading_options) for directions in models]
    )


def _shared_search(
    models: Sequence[Sequence[Experiment]], loading_options: dict[str, Any], translators: Sequence[list[Translator]]
) -> SharedSearch:
    return SharedSearch(
        [one for own in translators for one in own], partial(_reload_model, models, loading_options, translators)
    )


def _reload_model(
    models: Sequence[Sequence[Experiment]],
    loading_options: dict[str, Any],
    translators: Sequence[list[Translator]],
    number: int,
) -> SharedSearch:
    """Return the loop with model `number` loaded anew from disk; each of its translators has translated one word."""
    anew = open_directions([Experiment(one.directory, one.direction) for one in models[number]], **loading_options)
    for translator in anew:
        translator.translate_window([PROBE.encode()])
    return _shared_search(
        models, loading_options, [anew if place == number else own for place, own in enumerate(translators)]
    )
