"""Loads the newer checkpoint of a model that is being trained while the server goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nmt_cli.console import log, warn
from nmt_cli.serve.metrics import Metrics
from nmt_cli.serve.texts import Direction

SECONDS = 1.0
"""Between two looks at the model directories."""


@dataclass(slots=True)
class Watched:
    """A direction with the way to its newest checkpoint."""

    direction: Direction
    newest: Callable[[], str]
    """Names the checkpoint that would be loaded now, so that another name means another checkpoint."""
    reload: Callable[[], None]
    """Has the engine load it."""
    seen: str


class Watcher:
    """A thread that looks after new checkpoints. Where one fails to load, the old model goes on."""

    def __init__(self, watched: Sequence[Watched], metrics: Metrics, *, seconds: float = SECONDS) -> None:
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
                self._look_at(one)

    def _look_at(self, one: Watched) -> None:
        names = f"{one.direction.source}-{one.direction.target}"
        unreadable = None
        try:
            newest = one.newest()
        except Exception as error:
            newest, unreadable = "the newest checkpoint", error
        seen = newest if unreadable is None else str(unreadable)
        if seen == one.seen:
            return
        one.seen = seen
        try:
            if unreadable is not None:
                raise unreadable
            one.reload()
        except Exception as error:
            self._metrics.reloads["failed"] += 1
            warn(f"{names}: {newest} cannot be loaded, so the model of before goes on: {error}")
            return
        self._metrics.reloads["loaded"] += 1
        log(f"{names}: loaded {newest}")
