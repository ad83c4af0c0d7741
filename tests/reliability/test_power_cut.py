"""The files that a power cut leaves at any moment: only what was pushed to the disk is certain to be there.

A training runs while every fsync is remembered: of a file its bytes, of a directory its names. After each operation the
two worst disks are built that the file system may leave (Pillai et al., 2014): one that holds nothing that was not
pushed, and one that holds every name but of the files' bytes only what was pushed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import contents, run_here
from faults import Faulty, watched
from test_killed import train

from nmt_cli.assembly.trained_model import load_model
from nmt_cli.experiment import Experiment
from nmt_cli.training.checkpoints import read_trainer_tensors

Entry = tuple[int, bool]
"""The inode behind a name, and whether it is a directory."""


class Platter:
    """A disk (see `faults.watched`) that remembers what was pushed to it."""

    def __init__(self, root: Path, after_each: Callable[[Platter], None]) -> None:
        self._root, self._after_each = root, after_each
        self._bytes: dict[int, bytes] = {}
        self._names: dict[int, dict[str, Entry]] = {}
        self._held: list[int] = []
        """Open descriptors: an inode that is held is not given to another file."""
        self._looking = False
        self._push(root)

    def operate(self, what: str, path: object, do: Callable[[], Any], torn: object = None) -> Any:
        result = do()
        if not self._looking:
            self._looking = True  # what the checks do is not looked at
            if what == "fsync":
                self._push(Path(os.readlink(f"/proc/self/fd/{path}")))
            if what != "write":
                self._after_each(self)
            self._looking = False
        return result

    def _push(self, path: Path) -> None:
        inode = path.stat().st_ino
        if inode not in self._bytes and inode not in self._names:
            self._held.append(os.open(path, os.O_RDONLY))
        if path.is_dir():
            self._names[inode] = {entry.name: (entry.inode(), entry.is_dir()) for entry in os.scandir(path)}
            for entry in os.scandir(path):
                if not entry.is_dir():
                    self._held.append(os.open(entry.path, os.O_RDONLY))
        else:
            self._bytes[inode] = path.read_bytes()

    def close(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)

    def after_the_cut(self, to: Path, *, with_names: bool) -> None:
        """Build what is left below `to`: with all names, or with those that were pushed."""
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir()
        self._build(self._root.stat().st_ino, self._root if with_names else None, to)

    def _build(self, inode: int, living: Path | None, to: Path) -> None:
        if living is not None:
            entries = {e.name: (e.inode(), e.is_dir()) for e in os.scandir(living)}
        else:
            entries = self._names.get(inode, {})
        for name, (child, is_directory) in entries.items():
            if is_directory:
                (to / name).mkdir()
                self._build(child, None if living is None else living / name, to / name)
            else:
                (to / name).write_bytes(self._bytes.get(child, b""))


def last_step(run: Path) -> int:
    """The step at which the run there would go on, all of it read; 0 at the beginning."""
    experiment = Experiment(run)
    if not (run / "checkpoints/index.json").exists():
        return 0
    index = experiment.checkpoints.index()
    assert index.last is not None
    for name in ("last", "best"):
        load_model(experiment, name)
    assert read_trainer_tensors(experiment.checkpoints.path_of(index.last))
    told = {json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines() if "check" in line}
    assert {step for step in (3, 6, 9, 12) if step <= index.last} <= told
    return index.last


def disks_of_a_training(config: Path, keep: Callable[[int], bool]) -> list[Path]:
    """Train, check the disk that a power cut would leave after every operation, and keep some of them."""
    root = config.parent / "disk"
    root.mkdir()
    kept: list[Path] = []
    reached, count = 0, 0

    def check(platter: Platter) -> None:
        nonlocal reached, count
        for with_names in (False, True):
            to = config.parent / "cut"
            platter.after_the_cut(to, with_names=with_names)
            step = last_step(to / "run")
            if not with_names:
                assert step >= reached
                reached = step
            if keep(count):
                kept.append(to.rename(config.parent / f"cut-{count}"))
            count += 1

    platter = Platter(root, check)
    try:
        with watched(platter):  # type: ignore[arg-type]
            result = run_here(*map(str, train(config, "disk/run")))
    finally:
        platter.close()
    assert result.code == 0, result.err
    assert reached == 12
    print(f"{count} disks")
    return kept


def goes_on(faulty: Faulty, config: Path, monkeypatch: pytest.MonkeyPatch, disks: list[Path]) -> None:
    monkeypatch.setattr(faulty, "translates_dev_set", True)
    whole = contents(config.parent / "disk/run")
    assert disks
    for disk in disks:
        result = faulty.run(*train(config, f"{disk.name}/run"))
        assert result.code == 0, result.err
        assert contents(disk / "run") == whole, disk


@pytest.mark.slow
def test_a_power_cut_at_any_moment_leaves_the_last_checkpoint_whole(faulty: Faulty, config: Path, monkeypatch):
    """Fails if a file, its directory or a new directory is not pushed, where the index is written before the
    checkpoint is pushed, and where metrics are not pushed before the index."""
    goes_on(faulty, config, monkeypatch, disks_of_a_training(config, lambda number: number % 100 == 0))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_after_any_power_cut_training_ends_like_an_undisturbed_one(faulty: Faulty, config: Path, monkeypatch):
    goes_on(faulty, config, monkeypatch, disks_of_a_training(config, lambda _: True))
