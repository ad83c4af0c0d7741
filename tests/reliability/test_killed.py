"""Training killed anywhere and started again ends, bit for bit, like one that was left alone."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from command_line import contents
from faults import Faulty, Operation

VARIANTS = {
    "plain": (),
    "sampled pieces, batches in parts, word pairs": (
        "tokenizer.sampling_alpha=0.2",
        "training.accumulate=2",
        "data.word_pairs=true",
    ),
    "no average, plateau": ("training.ema_decay=0.0", "training.schedule=plateau", "training.optimizer=adadelta"),
}


def train(config: Path, name: str, *sets: str) -> list[str | Path]:
    settings = [f"model_dir={config.parent / name}", *sets]
    return ["train", "--config", config, *(word for one in settings for word in ("--set", one))]


def undisturbed(faulty: Faulty, config: Path, *sets: str) -> tuple[dict[str, bytes], tuple[Operation, ...]]:
    """The files that a training leaves, and the operations that it does on the way."""
    outcome = faulty.run(*train(config, "whole", *sets))
    assert outcome.code == 0, outcome.err
    return contents(config.parent / "whole"), outcome.operations


def resume_and_compare(faulty: Faulty, config: Path, name: str, *sets: str, whole: dict[str, bytes]) -> None:
    again = faulty.run(*train(config, name, *sets))
    assert again.code == 0, again.err
    assert contents(config.parent / name) == whole, name
    assert [str(path) for path in (config.parent / name).rglob("*.tmp")] == []


def telling(operations: Sequence[Operation]) -> list[int]:
    """The numbers of all operations but the writes to one file between the second and the last."""
    writes: dict[str, list[int]] = {}
    for number, (what, path) in enumerate(operations):
        if what == "write":
            writes.setdefault(path, []).append(number)
    alike = {number for numbers in writes.values() for number in numbers[2:-1]}
    return [number for number in range(len(operations)) if number not in alike]


def one_of_each_kind(operations: Sequence[Operation]) -> list[int]:
    """One torn write, one torn tensor file and one rename for each name of a file, drawn anew each time."""
    kinds: dict[tuple[str, str], list[int]] = {}
    for number, (what, path) in enumerate(operations):
        if what in ("write", "save", "replace"):
            kinds.setdefault((what, re.sub(r"[0-9a-f]{16}|\d+", "#", Path(path).name)), []).append(number)
    return sorted(random.choice(numbers) for numbers in kinds.values())


def killed_at(faulty: Faulty, config: Path, choose: Callable[[Sequence[Operation]], list[int]], *sets: str) -> None:
    whole, operations = undisturbed(faulty, config, *sets)
    chosen = choose(operations)
    print(f"{len(chosen)} of {len(operations):,} operations")
    for number in chosen:
        name = f"killed-at-{number}"
        killed = faulty.run(*train(config, name, *sets), at=number)
        assert killed.code == -signal.SIGKILL, (operations[number], killed.err)
        resume_and_compare(faulty, config, name, *sets, whole=whole)


@pytest.mark.soak
def test_killed_at_each_kind_of_operation_on_the_disk_it_ends_like_an_undisturbed_run(faulty: Faulty, config: Path):
    """Fails if the sums behind a log line or the cursor are left out of the state, where the metrics are not cut at
    the restored checkpoint, where the index is written before the checkpoint, and where a file is written in place."""
    killed_at(faulty, config, one_of_each_kind)


@pytest.mark.soak
def test_killed_in_its_last_acts_it_leaves_no_checkpoint_that_does_not_count(faulty: Faulty, config: Path):
    """Fails if the end does not remove what was left by a kill behind the last index."""

    def after_the_last_save(operations: Sequence[Operation]) -> list[int]:
        indices = [number for number, (what, path) in enumerate(operations) if what == "replace" and "index" in path]
        return [number for number in telling(operations) if number > indices[-2]]

    killed_at(faulty, config, after_the_last_save, "training.checkpoint_freq=2")


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sets", VARIANTS.values(), ids=VARIANTS)
def test_killed_at_every_operation_on_the_disk_it_ends_like_an_undisturbed_run(faulty: Faulty, config: Path, sets):
    killed_at(faulty, config, telling, *sets)


def killed_at_random_moments(faulty: Faulty, config: Path, times: int, *sets: str) -> None:
    """Until it has been killed so often, run after run: in steps, validations, and at the beginning too."""
    sets = (*sets, "training.logging_freq=1")
    whole, _ = undisturbed(faulty, config, *sets)
    seed = os.environ.get("NMT_TEST_SEED") or str(random.randrange(10**6))
    moments, kills, run = random.Random(seed), 0, 0
    print(f"NMT_TEST_SEED={seed}")
    while kills < times:
        name, code = f"run-{run}", -1
        while code and kills < times:
            code = faulty.run(*train(config, name, *sets), kill_after=moments.uniform(0.05, 0.8)).code
            assert code in (0, -signal.SIGALRM)
            kills += code != 0
        resume_and_compare(faulty, config, name, *sets, whole=whole)
        run += 1
    print(f"killed {kills} times in {run} runs")


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_like_an_undisturbed_run(faulty: Faulty, config: Path):
    killed_at_random_moments(faulty, config, 10)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("sets", "times"), list(zip(VARIANTS.values(), (100, 50, 50), strict=True)), ids=VARIANTS)
def test_killed_many_times_at_random_moments_it_ends_like_an_undisturbed_run(
    faulty: Faulty, config: Path, sets: tuple[str, ...], times: int
):
    killed_at_random_moments(faulty, config, times, *sets)


@pytest.mark.soak
def test_killed_at_any_operation_it_leaves_the_configuration_that_the_command_names(faulty: Faulty, config: Path):
    own = config.parent / "run/config.yaml"
    own.parent.mkdir()
    text = "# mine\n" + config.read_text()
    command = ("tokenizer", "--config", own)

    def kill_at(number: int | None) -> tuple[Operation, ...]:
        for path in own.parent.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        own.write_text(text)
        return faulty.run(*command, at=number).operations

    operations = kill_at(None)
    for number in telling(operations):
        kill_at(number)
        again = faulty.run(*command)
        assert again.code == 0, (operations[number], again.err)
        assert text in [path.read_text() for path in own.parent.glob("config.*.yaml")], operations[number]
