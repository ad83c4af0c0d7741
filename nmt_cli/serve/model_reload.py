"""Loads newer checkpoints of the models that a server translates with, for models that are still being trained."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

from nmt_cli.serve.metrics import Metrics
from nmt_cli.system.console import log, warn

POLL_SECONDS = 1.0
"""Seconds between two checks of the model directories for new checkpoints."""
LONGEST_PAUSE = 60.0
"""Longest pause in seconds before another try to load a checkpoint. Each failure to load it doubles the pause."""


@dataclass(slots=True)
class WatchedModel:
    """A model whose newer checkpoints the server loads while it runs."""

    names: str
    """The languages that the model translates between, as they are shown in messages."""
    newest: Callable[[], str]
    """Returns the name of the checkpoint that would be loaded now; another name means another checkpoint."""
    reload: Callable[[], None]
    """Has the workers load the newest checkpoint."""
    loaded_checkpoint: str
    """Name of the checkpoint that the server uses."""
    failure: tuple[str, str] | None = None
    """Name of the checkpoint that the last try could not load, and the reason; None if there was no failure."""
    pause: float = 0.0
    try_again_at: float = 0.0


class Watcher:
    """A thread that looks for new checkpoints of the served models and has them loaded.

    If one cannot be loaded, the old model stays in use, and the new one is tried again: it may be half copied, or
    memory may have been short. A failure that repeats with the same message is logged once.
    """

    def __init__(self, watched: Sequence[WatchedModel], metrics: Metrics, *, seconds: float = POLL_SECONDS) -> None:
        self._watched, self._metrics, self._seconds = watched, metrics, seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="nmt-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; a model that is being loaded is not waited for."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(self._seconds):
            for one in self._watched:
                reload_if_newer(one, self._metrics, monotonic(), self._seconds)


def reload_if_newer(one: WatchedModel, metrics: Metrics, now: float, seconds: float) -> None:
    """Load the newest checkpoint of a model if it is not in use yet, and if it is not too early for another try.

    `now` is the time by `time.monotonic`, and `seconds` the pause after a first failure.
    """
    newest = "the newest checkpoint"
    try:
        newest = one.newest()
        if newest == one.loaded_checkpoint:
            one.failure = None
            return
        if one.failure and one.failure[0] == newest and now < one.try_again_at:
            return
        one.reload()
    except Exception as error:
        failure = newest, str(error)
        is_again = one.failure is not None and one.failure[0] == newest
        one.pause = min(2 * one.pause, LONGEST_PAUSE) if is_again else seconds
        one.try_again_at = now + one.pause
        if failure != one.failure:
            metrics.reloads["failed"] += 1
            warn(f"{one.names}: {newest} cannot be loaded; the old checkpoint stays in use: {error}")
        one.failure = failure
        return
    one.loaded_checkpoint, one.failure = newest, None
    metrics.reloads["loaded"] += 1
    log(f"{one.names}: loaded {newest}")
