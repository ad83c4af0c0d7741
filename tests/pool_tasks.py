"""Tasks for tests of the pool: what they do is said by their text."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt_cli.system.errors import InputError
from nmt_cli.system.workers import OneByOne
from nmt_cli.translation.counts import Counts
from nmt_cli.translation.line_tasks import LineResult, LineTask


@dataclass(frozen=True)
class Say:
    """Words that come back. Some do more: `die:FILE` kills the worker unless there is FILE, `wait:FILE`
    makes FILE.begun and waits for FILE; see `do`."""

    words: tuple[str, ...]

    def alone(self) -> Sequence[Say]:
        return [Say((word,)) for word in self.words]

    def joined(self, results):
        return [word for result in results for word in result]

    def name(self) -> str:
        return f"word {self.words[0]}"


def do(task: Say) -> list[str]:
    found = []
    for word in task.words:
        kind, _, path = word.partition(":")
        if kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "die" and not Path(path).exists():
            Path(path).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "fail":
            raise InputError("cannot say that")
        if kind == "mistake":
            raise KeyError(word)
        if kind == "wait":
            Path(f"{path}.begun").touch()
        while kind == "wait" and not Path(path).exists():
            time.sleep(0.01)
        found.append(f"{kind.upper()} {os.getpid()}" if kind == "pid" else kind.upper())
    return found


def build() -> OneByOne:
    return OneByOne(do)


def build_nothing() -> OneByOne:
    raise InputError("there is no such model")


def build_bug() -> OneByOne:
    raise KeyError("model")


def build_and_die() -> OneByOne:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def upper(task: LineTask) -> LineResult:
    """A translator that writes the number of each line, its prefix, the line in capitals, and the option `mark`."""
    prefixes = task.prefixes or ("",) * len(task.lines)
    for line in task.lines:
        do(Say((line.decode(),)))
    mark = dict(task.changed).get("mark", "").encode()
    rows = zip(task.numbers, prefixes, task.lines, strict=True)
    return LineResult(
        tuple(b"%d %s%s%s\n" % (n, p.encode(), line.upper(), mark) for n, p, line in rows), Counts(len(task.lines))
    )


def build_upper() -> OneByOne:
    return OneByOne(upper)
