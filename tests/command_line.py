"""The real command line, called from tests, and the configuration of a small model."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nmt_cli.cli import main
from nmt_cli.system.signals import preserve_handlers


@dataclass(frozen=True)
class Result:
    """Result of a command."""

    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.decode().split("\n")[:-1]


@contextmanager
def timer_kept() -> Iterator[None]:
    """Let the timer of the test run on after the block, in which the program sets one of its own.

    A timer that would have ended in the block ends a second later, when the streams are those of the test again.
    """
    answer, began = signal.getsignal(signal.SIGALRM), time.monotonic()
    seconds, _ = signal.getitimer(signal.ITIMER_REAL)

    def go_on() -> None:
        if seconds:
            signal.signal(signal.SIGALRM, answer)
            signal.setitimer(signal.ITIMER_REAL, max(1.0, seconds - (time.monotonic() - began)))

    try:
        yield
    except SystemExit:
        go_on()
        raise
    go_on()  # but not after the exception by which the timer itself ends the test


def run_here(*args: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> Result:
    """Run `nmt` in this process, with real file descriptors: what a subprocess gives, without importing torch anew."""
    files = [tempfile.TemporaryFile() for _ in range(3)]  # noqa: SIM115 (closed at the end)
    files[0].write(stdin)
    files[0].seek(0)
    saved = [os.dup(number) for number in range(3)]
    streams, argv, before = (sys.stdin, sys.stdout, sys.stderr), sys.argv, dict(os.environ)
    try:
        for number, file in enumerate(files):
            os.dup2(file.fileno(), number)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w"), os.fdopen(os.dup(2), "w"),
        )  # fmt: skip
        sys.argv = ["nmt", *args]
        os.environ.update(env or {})
        try:
            with timer_kept(), preserve_handlers():
                main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            stream.close()
        sys.stdin, sys.stdout, sys.stderr = streams
        sys.argv = argv
        os.environ.clear()
        os.environ.update(before)
        for number, descriptor in enumerate(saved):
            os.dup2(descriptor, number)
            os.close(descriptor)
    contents = []
    for file in files[1:]:
        file.seek(0)
        contents.append(file.read())
        file.close()
    files[0].close()
    return Result(code, contents[0], contents[1].decode(errors="replace"))


def start_nmt(*args: str | Path, **how: object) -> subprocess.Popen[bytes]:
    """The command line as a process of its own, for signals and pipes."""
    return subprocess.Popen([sys.executable, "-m", "nmt_cli", *(str(arg) for arg in args)], **how)  # type: ignore[call-overload]


def stored_model(directory: Path) -> Path:
    """Copy the model of format 1 to `run` in a directory, which is the one that its configuration names."""
    shutil.copytree(Path(__file__).parent / "models/format-1/run", directory / "run")
    config = directory / "run/config.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("@HERE@", str(directory)), encoding="utf-8")
    return directory / "run"


TIMES = ("seconds", "tokens_per_second")


def contents(run: Path) -> dict[str, bytes]:
    """Return what must be equal, however a training came to the same step."""
    found = {
        str(path.relative_to(run)): path.read_bytes() for path in sorted((run / "checkpoints").rglob("*.safetensors"))
    }
    found["index"] = (run / "checkpoints/index.json").read_bytes()
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().split("\n")[:-1]]
    for record in records:
        for key in TIMES:
            record.pop(key, None)
    found["metrics"] = json.dumps(records).encode()
    return found


CONFIG = """
name: tiny
model_dir: {model_dir}
data:
  source_lang: en
  target_lang: fr
  train: [{{source: {corpus}/train.en, target: {corpus}/train.fr}}]
  dev: {{source: {corpus}/dev.en, target: {corpus}/dev.fr}}
  test: [{{name: book, source: {corpus}/test.en, target: {corpus}/test.fr}}]
tokenizer: {{vocab_size: 420}}
model:
  embedding_size: 16
  encoder: {{hidden_size: 16}}
  decoder: {{hidden_size: 16}}
  attention: {{size: 16}}
training:
  batch_size: 200
  learning_rate: 1.0e-2
  max_epochs: null
  max_steps: 12
  validation_freq: 6
  checkpoint_freq: 3
  logging_freq: 2
  keep_last: 2
  keep_best: 2
  ema_decay: 0.9
  precision: fp32
  threads: 1
decoding: {{beam_size: 3, max_length_a: 1.0, max_length_b: 10}}
"""
