"""Model directories of every format version that was released, kept as they were written: see tests/models/make.py."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

MODELS = Path(__file__).parents[1] / "models"
VERSIONS = sorted(path.name for path in MODELS.iterdir() if path.is_dir() and path.name.startswith("format-"))


@pytest.fixture(params=VERSIONS)
def yesterday(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy, its corpora where its configuration says."""
    shutil.copytree(MODELS / request.param, tmp_path, dirs_exist_ok=True)
    config = tmp_path / "run/config.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("@HERE@", str(tmp_path)), encoding="utf-8")
    return tmp_path


def test_it_translates_as_it_did(nmt, yesterday: Path):
    result = nmt("translate", yesterday / "source.txt", "--model", yesterday / "run")
    assert result.code == 0, result.err
    assert result.out == (yesterday / "expected.txt").read_bytes()


def test_its_training_goes_on(nmt, yesterday: Path):
    before = (yesterday / "run/metrics.jsonl").read_text().splitlines()
    last = json.loads((yesterday / "run/checkpoints/index.json").read_text())["last"]
    result = nmt("train", "--config", yesterday / "run/config.yaml", "--set", f"training.max_steps={last + 4}")
    assert result.code == 0, result.err
    assert f"resuming at step {last}" in result.err
    assert json.loads((yesterday / "run/checkpoints/index.json").read_text())["last"] == last + 4
    assert (yesterday / "run/metrics.jsonl").read_text().splitlines()[: len(before)] == before


def test_it_can_be_inspected_and_averaged(nmt, yesterday: Path):
    assert nmt("inspect", yesterday / "run").code == 0
    result = nmt("average", "--model", yesterday / "run", "--last", "2", "--name", "mean")
    assert result.code == 0, result.err
    assert nmt("translate", yesterday / "source.txt", "--model", yesterday / "run", "--checkpoint", "mean").code == 0
