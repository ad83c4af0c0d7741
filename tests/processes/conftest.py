"""Several processes of one training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CONFIG
from launching import Launcher


@pytest.fixture
def launch() -> Iterator[Launcher]:
    launcher = Launcher()
    yield launcher
    launcher.close()


@pytest.fixture
def config(tmp_path: Path, corpus: Path) -> Path:
    """Without dropout, patience and a schedule that knows the end; its model directory is `run` beside it."""
    text = CONFIG.format(model_dir=tmp_path / "run", corpus=corpus)
    quiet = "{embedding: 0, recurrent: 0, annotation: 0, readout: 0, source_word: 0, target_word: 0}"
    text = text.replace("model:\n", f"model:\n  dropout: {quiet}\n")
    path = tmp_path / "config.yaml"
    text = text.replace("  max_epochs: null\n", "  max_epochs: null\n  patience: null\n  schedule: constant\n")
    path.write_text(text, encoding="utf-8")
    return path
