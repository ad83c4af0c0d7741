"""The recipes of the tutorial that go beyond one training, with the toolkit's own commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def train(nmt, config: Path, directory: Path, *sets: str) -> None:
    options = [word for one in (f"model_dir={directory}", "training.max_steps=40", *sets) for word in ("--set", one)]
    result = nmt("train", "--config", config, *options)
    assert result.code == 0, result.err


@pytest.mark.soak
def test_an_ensemble_is_distilled_into_one_model(nmt, config: Path, corpus: Path, tmp_path: Path):
    train(nmt, config, tmp_path / "one")
    shutil.copytree(tmp_path / "one" / "tokenizer", tmp_path / "two" / "tokenizer")
    train(nmt, config, tmp_path / "two", "seed=2")
    distilled = tmp_path / "distilled.fr"
    both = ("--model", tmp_path / "one", "--model", tmp_path / "two")
    result = nmt("translate", corpus / "train.en", *both, "--precision", "int8", "-o", distilled)
    assert result.code == 0, result.err
    assert len(distilled.read_bytes().split(b"\n")) == 601
    train(nmt, config, tmp_path / "small", f"data.train.0.target={distilled}", "model.decoder.hidden_size=8")
    assert len(nmt("translate", corpus / "test.en", "--model", tmp_path / "small").lines) == 30


def test_text_of_the_target_language_is_translated_back_and_tagged(nmt, config: Path, corpus: Path, tmp_path: Path):
    reverse = [
        f"data.{part}={corpus / name}"
        for part, name in (
            ("train.0.source", "train.fr"),
            ("train.0.target", "train.en"),
            ("dev.source", "dev.fr"),
            ("dev.target", "dev.en"),
        )
    ]
    train(nmt, config, tmp_path / "back", *reverse)
    drawn = nmt("translate", corpus / "train.fr", "--model", tmp_path / "back", "--sample", "--seed", "1")
    assert len(drawn.lines) == 600
    mono = tmp_path / "mono.en"
    mono.write_text("".join(f"<BT> {line}\n" for line in drawn.lines), encoding="utf-8")
    pairs = (
        f"[{{source: {corpus}/train.en, target: {corpus}/train.fr}}, "
        f"{{source: {mono}, target: {corpus}/train.fr, weight: 0.5}}]"
    )
    # The text of a model that has hardly learnt holds many characters.
    train(
        nmt, config, tmp_path / "forth", f"data.train={pairs}", "tokenizer.vocab_size=800", "tokenizer.symbols=[<BT>]"
    )
    (first,) = nmt("encode", "--model", tmp_path / "forth", stdin=b"<BT> The car is red.\n").lines
    assert "<BT>" in first.split()
    assert len(nmt("translate", corpus / "test.en", "--model", tmp_path / "forth").lines) == 30
