"""Model directories of every format version and release, kept as they were written: see tests/models/make.py.

`format-1-init` was made by commit 1fb7890 from `given.yaml`, as `nmt init` wrote it, with 24 units instead of 256.
It repeats itself in two lines. Since then such text is cut, so these two lines have been changed by hand.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

MODELS = Path(__file__).parents[1] / "models"
VERSIONS = sorted(
    path.name for path in MODELS.iterdir() if path.is_dir() and path.name.startswith(("format-", "release-"))
)


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


@pytest.mark.parametrize("yesterday", ["format-1-init"], indirect=True)
def test_odd_lines_are_translated_as_they_were(nmt, yesterday: Path):
    """Capitals, numbers, emoji, tags, addresses and white space, with a model whose configuration `nmt init` wrote."""
    result = nmt("translate", yesterday / "odd.txt", "--model", yesterday / "run")
    assert result.code == 0, result.err
    assert result.out == (yesterday / "odd.expected.txt").read_bytes()


@pytest.mark.parametrize("yesterday", ["format-1-init"], indirect=True)
def test_it_aligns_and_judges_its_translations_as_it_did(nmt, yesterday: Path):
    options = ("--format", "jsonl", "--alignment", "hard", "--confidence")
    result = nmt("translate", yesterday / "source.txt", "--model", yesterday / "run", *options)
    assert result.code == 0, result.err
    expected = (yesterday / "expected.jsonl").read_text().splitlines()
    for line, before in zip(map(json.loads, result.out.splitlines()), map(json.loads, expected), strict=True):
        for name in ("source", "translation", "alignment"):
            assert line[name] == before[name]
        assert line["score"] == pytest.approx(before["score"], abs=1e-4)
        assert line["confidence"] == pytest.approx(before["confidence"], abs=1e-3)
        assert line["word_confidence"] == pytest.approx(before["word_confidence"], abs=1e-3)


@pytest.mark.usefixtures("echoed_dev_set")
def test_its_training_goes_on(nmt, yesterday: Path):
    before = (yesterday / "run/metrics.jsonl").read_text().splitlines()
    last = json.loads((yesterday / "run/checkpoints/index.json").read_text())["last"]
    result = nmt("train", "--config", yesterday / "run/config.yaml", "--set", f"training.max_steps={last + 4}")
    assert result.code == 0, result.err
    assert f"resuming at update {last}" in result.err
    assert json.loads((yesterday / "run/checkpoints/index.json").read_text())["last"] == last + 4
    assert (yesterday / "run/metrics.jsonl").read_text().splitlines()[: len(before)] == before


def test_it_can_be_inspected_and_averaged(nmt, yesterday: Path):
    assert nmt("inspect", yesterday / "run").code == 0
    result = nmt("average", "--model", yesterday / "run", "--last", "2", "--name", "mean")
    assert result.code == 0, result.err
    assert nmt("translate", yesterday / "source.txt", "--model", yesterday / "run", "--checkpoint", "mean").code == 0
