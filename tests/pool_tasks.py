"""Tasks for tests of the pool: what they do is said by their text."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt_cli.system.errors import InputError
from nmt_cli.system.workers import Inbox, SequentialTaskLoop, TaskLoop
from nmt_cli.translation.counts import Counts
from nmt_cli.translation.line_tasks import LineResult, LineTask
from nmt_cli.translation.results import TranslatedLine, Translation
from nmt_cli.translation.sentence_tasks import Capabilities, SearchStatistics, SentenceResult, SentenceTask


@dataclass(frozen=True)
class Say:
    """Words that come back. Some do more: `die:FILE` kills the worker unless there is FILE, `wait:FILE`
    makes FILE.begun and waits for FILE; see `do`."""

    words: tuple[str, ...]

    def subtasks(self) -> Sequence[Say]:
        return [Say((word,)) for word in self.words]

    def join_results(self, results):
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


def build() -> SequentialTaskLoop:
    return SequentialTaskLoop(do)


def build_big() -> SequentialTaskLoop:
    """Work whose results are larger than what a connection holds."""
    return SequentialTaskLoop(lambda task: "x" * 600_000)


def build_with_one_fork() -> SequentialTaskLoop:
    """Build in a zygote that can start one worker."""
    forks, fork = [], os.fork

    def refuse() -> int:
        if forks:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        forks.append(1)
        return fork()

    os.fork = refuse
    return SequentialTaskLoop(do)


def build_endless(loading: str) -> SequentialTaskLoop:
    """Say in a file that it is loading, and load for ever."""
    Path(loading).touch()
    while True:
        time.sleep(1)


def build_unreadable() -> SequentialTaskLoop:
    raise FileNotFoundError(2, "No such file or directory", "model.safetensors")


def together(inbox: Inbox) -> None:
    """Begin all tasks that have come, and do them after that."""
    while (first := inbox.next()) is not None:
        begun = [first]
        while (message := inbox.next(block=False)) is not None:
            begun.append(message)
        for message in begun:
            inbox.send_result(message.number, do(message.value))


def build_together() -> TaskLoop:
    return together


class Version(SequentialTaskLoop):
    """Work that tells which version of it was loaded; the version `bad` cannot be."""

    def __init__(self, version: str) -> None:
        super().__init__(lambda _: version)

    def reloaded(self, version: str) -> Version:
        if version == "bad":
            raise InputError("there is no such version")
        return Version(version)


def build_version() -> Version:
    return Version("first")


def build_nothing() -> SequentialTaskLoop:
    raise InputError("there is no such model")


def build_bug() -> SequentialTaskLoop:
    raise KeyError("model")


def build_and_die() -> SequentialTaskLoop:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def upper(task: LineTask) -> LineResult:
    """A translator that writes the number of each line, its prefix, the line in capitals, and the option `mark`."""
    prefixes = task.prefixes or ("",) * len(task.lines)
    for line in task.lines:
        do(Say((line.decode(),)))
    mark = dict(task.overrides).get("mark", "").encode()
    rows = zip(task.numbers, prefixes, task.lines, strict=True)
    return LineResult(
        tuple(b"%d %s%s%s\n" % (n, p.encode(), line.upper(), mark) for n, p, line in rows), Counts(len(task.lines))
    )


def build_upper() -> SequentialTaskLoop:
    return SequentialTaskLoop(upper)


def build_sentences(dies_where: str = "") -> SequentialTaskLoop:
    """Workers for `SentenceTask`s, which do what the sentences say; all die at once where there is a file."""

    def found(task: SentenceTask) -> SentenceResult:
        if dies_where and Path(dies_where).exists():
            os.kill(os.getpid(), signal.SIGKILL)
        said = do(Say(task.sentences))
        translated = [
            TranslatedLine(own, (Translation(text, 0.0, 0.0),)) for own, text in zip(task.sentences, said, strict=True)
        ]
        return SentenceResult(
            translated, Capabilities(alignment=False, confidence=False), SearchStatistics(len(said), 1, 0.5)
        )

    return SequentialTaskLoop(found)
