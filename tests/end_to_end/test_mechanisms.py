"""Every mechanism learns what it is for: a small task, exactly, on lines that it has not seen."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]

CONFIG = """
name: task
model_dir: {directory}/run
data:
  source_lang: x
  target_lang: y
  train: [{{source: {directory}/train.source, target: {directory}/train.target}}]
tokenizer: {{model_type: word, vocab_size: 16}}
model:
  embedding_size: 32
  tied_embeddings: none
  encoder: {{hidden_size: 64}}
  decoder: {{hidden_size: 128}}
  attention: {{size: 64, window: 3}}
  dropout: {{embedding: 0.0, recurrent: 0.0, annotation: 0.0, readout: 0.0}}
training:
  batch_size: 800
  learning_rate: 5.0e-3
  warmup_steps: 50
  max_epochs: null
  max_steps: 600
  label_smoothing: 0.0
  checkpoint_freq: 600
  precision: fp32
  threads: 1
decoding: {{beam_size: 1}}
"""

NONE = ["model.attention.type=none", "model.decoder.recurrence=bahdanau", "training.max_steps=2000"]
LUONG = ["model.decoder.recurrence=luong"]
MECHANISMS = {
    "none, every step": (NONE, "reversal"),
    "none, initial": ([*NONE, "model.attention.context=initial"], "reversal"),
    "additive, conditional": ([], "reversal"),
    "additive, bahdanau": (["model.decoder.recurrence=bahdanau"], "reversal"),
    "dot, luong": ([*LUONG, "model.attention.type=dot"], "reversal"),
    "general, luong": ([*LUONG, "model.attention.type=general"], "reversal"),
    "general, luong, no input feeding": (
        [*LUONG, "model.attention.type=general", "model.decoder.input_feeding=false"],
        "reversal",
    ),
    "concat, luong": ([*LUONG, "model.attention.type=concat"], "reversal"),
    "local-m, luong": ([*LUONG, "model.attention.type=local-m"], "copy"),
    "local-p, luong": ([*LUONG, "model.attention.type=local-p"], "reversal"),
    "location": (["model.attention.type=location"], "reversal"),
    "location, smoothing": (["model.attention.type=location", "model.attention.smoothing=true"], "reversal"),
    "location, sharpening": (["model.attention.type=location", "model.attention.sharpening=2.0"], "reversal"),
    "coverage, linguistic": (
        ["model.attention.coverage=linguistic", "model.attention.coverage_loss=0.5"],
        "reversal",
    ),
    "coverage, neural": (["model.attention.coverage=neural"], "reversal"),
    "multihead": (["model.attention.type=multihead"], "reversal"),
}
IN_CI = ("additive, conditional", "local-p, luong")
"""The default, and the one with most parts of its own."""


def write_task(directory: Path, task: str) -> tuple[list[str], list[str]]:
    """Write training lines of two to six words; the held-out sources and targets come back."""
    random_ = random.Random(1)
    drawn = (" ".join(random_.choices(WORDS, k=random_.randint(2, 6))) for _ in range(6000))
    sources = list(dict.fromkeys(drawn))
    targets = [" ".join(line.split()[::-1]) if task == "reversal" else line for line in sources]
    for side, lines in (("source", sources), ("target", targets)):
        (directory / f"train.{side}").write_text("".join(f"{line}\n" for line in lines[:-300]), encoding="utf-8")
    return sources[-300:], targets[-300:]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in IN_CI else pytest.mark.soak) for name in MECHANISMS]
)
def test_a_mechanism_learns_its_task_exactly(nmt, tmp_path: Path, name: str):
    """At least 99 % of 300 held-out lines, word for word."""
    changes, task = MECHANISMS[name]
    sources, targets = write_task(tmp_path, task)
    (tmp_path / "config.yaml").write_text(CONFIG.format(directory=tmp_path), encoding="utf-8")
    trained = nmt(
        "train", "--config", tmp_path / "config.yaml", *(word for change in changes for word in ("--set", change))
    )
    assert trained.code == 0, trained.err
    text = "".join(f"{line}\n" for line in sources).encode()
    translated = nmt("translate", "--model", tmp_path / "run", stdin=text)
    exact = sum(ours == expected for ours, expected in zip(translated.lines, targets, strict=True))
    assert exact >= 0.99 * len(targets)
