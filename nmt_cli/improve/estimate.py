"""Estimates of time and disk space, from a short training and translation on this machine."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from nmt_cli.config.loader import dump_config, validate
from nmt_cli.config.schema import Config
from nmt_cli.config.yaml_text import parse_yaml
from nmt_cli.data.lines import iter_lines, open_input
from nmt_cli.data.tokenizer import Tokenizer
from nmt_cli.experiment import Experiment
from nmt_cli.improve.child import CommandProcess
from nmt_cli.improve.stages import Stage
from nmt_cli.system.errors import Interrupted, NmtError

TRIAL_PAIRS = 20_000
TRIAL_LINES = 100
CLEANED_LINES_PER_SECOND = 10_000
STARTUP_SECONDS = 4.0
NUM_CHECKPOINTS = 3
"""Checkpoints in the disk space that `nmt check` expects for the trial: the best, the last, and one being written."""
BYTES_OF_PIECES = 80
"""Approximate bytes of a pair that is stored as piece ids."""


class TrialError(NmtError):
    """The trial that measures the machine failed."""


@dataclass
class Speed:
    """The speed of this machine with a configuration, and the sizes of checkpoints and text on the disk."""

    pairs_per_second: float = 150.0
    """Pairs per second in training."""
    pairs_per_step: float = 75.0
    rows_per_second: float = 300.0
    """Rows per second in translation: lines times prefixes of the search, times models in an ensemble."""
    checkpoint_bytes: float = 60e6
    bytes_per_line: float = 70.0
    dev_lines: int = 0
    is_measured: bool = False
    _factors: dict[str, float] = field(default_factory=dict)
    """Time of the last finished stage of each kind, divided by its estimate."""

    def seconds(self, stage: Stage) -> float:
        """Return the estimated seconds that a stage will take."""
        return self._factors.get(stage.work.kind, 1.0) * self._usual_seconds(stage)

    def seconds_left(self, stages: Iterable[Stage]) -> float:
        """Return the estimated seconds that stages will take together."""
        return sum(map(self.seconds, stages))

    def learn(self, stage: Stage, seconds: float) -> None:
        """Correct the estimates of a kind of stage by the seconds that a finished one took.

        A time of at most STARTUP_SECONDS is ignored: a killed attempt may have done most of a resumed stage.
        """
        usual = self._usual_seconds(stage)
        if seconds > STARTUP_SECONDS and usual > STARTUP_SECONDS:
            self._factors[stage.work.kind] = seconds / usual

    def _usual_seconds(self, stage: Stage) -> float:
        work = stage.work
        if work.kind == "clean":
            return 1.0 + work.lines / CLEANED_LINES_PER_SECOND
        if work.kind == "translate":
            return STARTUP_SECONDS + work.lines * work.rows / self.rows_per_second
        seconds = STARTUP_SECONDS + work.lines / self.pairs_per_second
        if stage.config is not None and self.dev_lines:
            validations = work.lines / self.pairs_per_step / stage.config.training.validation_freq
            seconds += validations * self.dev_lines * stage.config.decoding.beam_size / self.rows_per_second
        return seconds

    def stored_bytes(self, stage: Stage) -> float:
        """Return the bytes that a stage will leave on the disk."""
        if stage.config is None:
            return stage.work.stored_lines * self.bytes_per_line
        training = stage.config.training
        return stage.work.stored_lines * BYTES_OF_PIECES + self.checkpoint_bytes * (
            training.keep_best + training.keep_last
        )


def measure_machine(config: Config, tokenizers: Mapping[str, Tokenizer], *, beam_size: int, int8: bool) -> Speed:
    """Return the speed of this machine. The speed of training is measured by `nmt check`, and that of translation on a
    few lines with a model after one update, all in a temporary directory.

    `tokenizers` (by side) were trained on all pairs: the few pairs of the trial may not allow as large a vocabulary.

    Raises:
        TrialError: the trial failed.
    """
    with tempfile.TemporaryDirectory(prefix="nmt-improve-") as name:
        directory = Path(name)
        dev_lines = _num_dev_lines(config)
        config = config.for_direction(config.data.directions[0])
        corpus = config.data.train[0]
        sides = (_first_lines(corpus.source, TRIAL_PAIRS), _first_lines(corpus.target, TRIAL_PAIRS))
        for side, lines in zip(("source", "target"), sides, strict=True):
            (directory / side).write_bytes(b"".join(line + b"\n" for line in lines))
        (directory / "few").write_bytes(b"".join(line + b"\n" for line in sides[1][:TRIAL_LINES]))
        _write_config(config, directory)
        _write_tokenizers(tokenizers, directory)
        speed = Speed(is_measured=True, dev_lines=dev_lines)
        trial = ("--config", str(directory / "trial.yaml"))
        _read_check_report(_run(directory, "check", *trial, "--json"), speed, num_pairs=len(sides[0]))
        _run(directory, "train", *trial, "--set", "training.max_steps=1")
        precision = ["--precision", "int8", "--device", "cpu"] if int8 else ["--device", config.training.device]
        threads = ["--threads", str(config.training.threads)] if config.training.threads else []
        output = _run(
            directory, "translate", str(directory / "few"), "--model", str(directory / "model"), "-o",
            str(directory / "translated"), "--beam-size", str(beam_size), *precision, *threads,
        )  # fmt: skip
        if found := re.search(r"([\d,]+) lines? in ([\d.]+) s", output):
            num_lines = int(found[1].replace(",", ""))
            speed.rows_per_second = num_lines * beam_size / max(0.01, float(found[2]))
        written = sum(map(len, sides[0])) + sum(map(len, sides[1]))
        speed.bytes_per_line = 1 + written / max(1, 2 * len(sides[0]))
    return speed


def _write_config(config: Config, directory: Path) -> None:
    """Write the configuration of the trial: one epoch on its pairs, and translations at most 2 pieces longer than the
    source."""
    values: dict[str, Any] = parse_yaml(dump_config(config), "trial")
    values["model_dir"] = str(directory / "model")
    data = values["data"]
    data |= {"dev": None, "test": [], "monolingual": None, "invalid_utf8": "replace", "word_pairs": False}
    data["train"] = [{"source": str(directory / "source"), "target": str(directory / "target")}]
    values["training"] |= {
        "max_steps": None, "max_epochs": 1, "max_minutes": None, "schedule": "constant", "init_from": None,
        "tensorboard": False, "early_stopping_direction": None, "keep_best": 1, "keep_last": 1,
    }  # fmt: skip
    values["model"]["pretrained"] |= {"source": None, "target": None, "freeze": False}
    values["decoding"] |= {"max_length_a": 1.0, "max_length_b": 2}
    text = dump_config(validate(values, "trial"))
    (directory / "trial.yaml").write_text(text, encoding="utf-8")


def _write_tokenizers(tokenizers: Mapping[str, Tokenizer], directory: Path) -> None:
    """Write the tokenizers into the model directory of the trial, as `nmt tokenizer` would."""
    trial = Experiment(directory / "model")
    trial.tokenizer_path("joint").parent.mkdir(parents=True)
    shutil.copyfile(directory / "trial.yaml", trial.config_path)
    for side, tokenizer in tokenizers.items():
        trial.tokenizer_path(side).write_bytes(tokenizer.model)


def _run(directory: Path, *arguments: str) -> str:
    """Run a command of `nmt` and return its output; `TrialError` if it fails, `Interrupted` if a signal came."""
    with (directory / "log").open("w+b") as log:
        child = CommandProcess(arguments, log)
        code = child.run()
        log.seek(0)
        output = log.read().decode(errors="replace")
    if child.received:
        raise Interrupted("stopped", child.received)
    if code:
        last = output.strip().splitlines()[-1:] or ["it said nothing"]
        raise TrialError(f"the trial that measures this machine failed: {last[0].removeprefix('nmt: ')}")
    return output


def _read_check_report(output: str, speed: Speed, *, num_pairs: int) -> None:
    """Set the training speed and the checkpoint size in `speed`, from the output of `nmt check --json` on one epoch.

    `num_pairs` is the number of pairs in the epoch. `TrialError` is raised if the report has no time.
    """
    *said, report = output.splitlines()
    expected = json.loads(report)["expected"]
    if expected["minutes"] is None:
        why = (said or ["it said nothing"])[-1].removeprefix("warning: ")
        raise TrialError(f"the trial that measures this machine failed: {why}")
    speed.pairs_per_second = max(0.01, num_pairs / max(0.01, 60.0 * expected["minutes"]))
    speed.pairs_per_step = max(0.01, num_pairs / expected["updates"])
    speed.checkpoint_bytes = expected["disk_bytes"]["checkpoints"] / NUM_CHECKPOINTS


def _num_dev_lines(config: Config) -> int:
    return sum(len(_first_lines(dev.source, 1_000_000)) for dev in config.data.dev_sets)


def _first_lines(path: str, number: int) -> list[bytes]:
    with open_input(path) as stream:
        return list(islice(iter_lines(stream), number))


def format_duration(seconds: float) -> str:
    """Return a time as text: `40 s`, `12 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def plan_lines(stages: Sequence[Stage], speed: Speed) -> list[str]:
    """Return the plan as lines of text: name, time, disk space and command of each stage, and last the totals."""
    lines = []
    for stage in stages:
        size = speed.stored_bytes(stage) / 1e6
        time = "finished" if stage.record_path.is_file() else format_duration(speed.seconds(stage))
        lines.append(f"{stage.name:<24}{time:>12}{size:>10,.1f} MB  {stage.purpose}")
        lines.append(f"    {stage.command}")
    total = sum(speed.stored_bytes(stage) for stage in stages) / 1e6
    seconds_left = speed.seconds_left(stage for stage in stages if not stage.record_path.is_file())
    lines.append(f"{'together':<24}{format_duration(seconds_left):>12}{total:>10,.1f} MB")
    return lines
