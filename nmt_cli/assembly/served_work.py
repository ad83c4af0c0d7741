"""The work of a process that searches for `nmt serve`: translators of all directions, built where needed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from nmt_cli.assembly.trained_translator import open_directions
from nmt_cli.experiment import Experiment
from nmt_cli.system.distributed import find_device
from nmt_cli.system.workers import BuiltLater, Work
from nmt_cli.translation.sentence_tasks import PROBE
from nmt_cli.translation.shared_search import SharedSearch
from nmt_cli.translation.translator import Translator


def served_work(models: Sequence[Sequence[Experiment]], loading: dict[str, Any]) -> Work:
    """Return the work that translates each `SentenceTask`; on a GPU the worker process itself builds the translators.

    Each of the `models` is a list of its directions. A task names its translator by a number that counts the directions
    of all models in order. A renewal of the work loads one model again, named by its index in `models`.

    Raises:
        InputError: a model cannot be loaded.
    """
    build = partial(_built, models, loading)
    return BuiltLater(build) if find_device(loading["device"]).type == "cuda" else build()


def _built(models: Sequence[Sequence[Experiment]], loading: dict[str, Any]) -> SharedSearch:
    return _work(models, loading, [open_directions(directions, **loading) for directions in models])


def _work(
    models: Sequence[Sequence[Experiment]], loading: dict[str, Any], opened: Sequence[list[Translator]]
) -> SharedSearch:
    return SharedSearch([one for own in opened for one in own], partial(_renewed, models, loading, opened))


def _renewed(
    models: Sequence[Sequence[Experiment]], loading: dict[str, Any], opened: Sequence[list[Translator]], number: int
) -> SharedSearch:
    """Return the work with model `number` loaded anew from disk; each of its translators has translated one word."""
    anew = open_directions([Experiment(one.directory, one.direction) for one in models[number]], **loading)
    for translator in anew:
        translator.translate_window([PROBE.encode()])
    return _work(models, loading, [anew if place == number else own for place, own in enumerate(opened)])
