"""The five calls for programs do what the commands do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import nmt_cli

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/library.md").read_text(encoding="utf-8")


@pytest.fixture
def lines(corpus: Path) -> list[str]:
    return (corpus / "test.en").read_text(encoding="utf-8").splitlines()[:8]


def test_a_translation_is_the_text_that_the_command_prints(nmt, model: Path, lines: list[str]):
    printed = nmt("translate", "--model", model, "--threads", "1", stdin="\n".join(lines).encode()).lines
    loaded = nmt_cli.load(model)
    assert [line.best.text for line in nmt_cli.translate(loaded, lines)] == printed
    assert [line.source for line in nmt_cli.translate(loaded, iter(lines))] == lines
    assert nmt_cli.translate(loaded, []) == []


def test_what_is_asked_for_when_loading_is_there(nmt, model: Path, lines: list[str]):
    options = ("--beam-size", "4", "--n-best", "2", "--alignment", "soft", "--format", "jsonl", "--confidence")
    printed = nmt("translate", "--model", model, *options, stdin="\n".join(lines).encode())
    loaded = nmt_cli.load(str(model), beam_size=4, n_best=2, alignment=True, confidence=True)
    for line, record in zip(nmt_cli.translate(loaded, lines), map(json.loads, printed.lines), strict=True):
        assert [found.text for found in line.translations] == [one["translation"] for one in record["hypotheses"]]
        assert line.best.weights is not None
        assert np.allclose(line.best.weights, record["alignment"], atol=1e-5)
        assert line.best.confidence == pytest.approx(record["confidence"], abs=1e-5)


def test_pairs_are_aligned_and_scored_as_the_commands_do(nmt, model: Path, corpus: Path):
    files = corpus / "test.en", corpus / "test.fr"
    links = nmt("align", *files, "--model", model, "--threads", "1").lines
    log_probs = nmt("rescore", *files, "--model", model, "--threads", "1").lines
    sides = [path.read_text(encoding="utf-8").splitlines() for path in files]
    found = nmt_cli.align(nmt_cli.load(model), *sides)
    assert [" ".join(f"{source}-{target}" for source, target in pair.links) for pair in found] == links
    assert [pair.log_prob for pair in found] == pytest.approx([*map(float, log_probs)], abs=2e-6)


def test_scores_are_those_of_the_command(nmt, corpus: Path, tmp_path: Path):
    references = (corpus / "test.fr").read_text(encoding="utf-8").splitlines()
    hypotheses = [line.replace("e", "i", 1) for line in references]
    (tmp_path / "out").write_text("".join(f"{line}\n" for line in hypotheses), encoding="utf-8")
    printed = json.loads(nmt("score", tmp_path / "out", "--reference", corpus / "test.fr", "--json").out)
    found = nmt_cli.score(hypotheses, references)
    assert {name: {"score": one.score, "signature": one.signature} for name, one in found.items()} == printed
    assert set(nmt_cli.score(hypotheses, references, references, metrics=["chrf"])) == {"chrf"}


@pytest.mark.usefixtures("echoed_dev_set")
def test_a_training_goes_on_where_it_stopped(nmt, config: Path):
    directory = nmt_cli.train(config, {"training.max_steps": 3, "name": "12:30"})
    steps = directory / "checkpoints/index.json"
    assert json.loads(steps.read_text())["last"] == 3
    result = nmt("train", "--config", config, "--set", "training.max_steps=6", "--set", "name='12:30'")
    assert result.code == 0, result.err
    assert "resuming at update 3" in result.err
    assert nmt_cli.train(str(config), {"training.max_steps": 6, "name": "12:30"}) == directory  # it is finished
    assert json.loads(steps.read_text())["last"] == 6


def test_torch_has_as_many_threads_after_a_call_as_before(model: Path, lines: list[str]):
    loaded = nmt_cli.load(model)
    torch.set_num_threads(2)
    try:
        nmt_cli.translate(loaded, lines)
        nmt_cli.align(loaded, lines, lines)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_errors_are_the_messages_of_the_commands(model: Path, tmp_path: Path, corpus: Path):
    loaded = nmt_cli.load(model)
    for call, told in (
        (lambda: nmt_cli.load(tmp_path / "none"), "none: there is no such model directory"),
        (lambda: nmt_cli.load(model, beam_size=0), "--beam-size 0: must be at least 1"),
        (lambda: nmt_cli.load(model, beam_size=2, n_best=3), "--n-best 3: is more than the beam, 2"),
        (lambda: nmt_cli.translate(loaded, "one text"), "lines: is one text; give a list of lines"),
        (lambda: nmt_cli.translate(loaded, ["a", "b\nc"]), "lines: line 2 holds a line break"),
        (lambda: nmt_cli.align(loaded, ["a", "b"], ["a"]), "sources has 2 lines and targets has 1 line"),
        (lambda: nmt_cli.score(["a"], "a"), "reference 1: is one text"),
        (lambda: nmt_cli.score(["a"]), "no reference is given; give at least one"),
        (lambda: nmt_cli.train(tmp_path / "none.yaml"), "none.yaml"),
        (lambda: nmt_cli.train(tmp_path / "none.yaml", {"training.max_stepz": 1}), "none.yaml"),
    ):
        with pytest.raises(nmt_cli.NmtError, match=re.escape(told)):
            call()


def test_the_import_is_quick():
    """Counted in modules: no library, and of the package only what the calls are declared in."""
    code = "import sys; before = set(sys.modules); import nmt_cli; print(*sorted(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = ran.stdout.split()
    outside = {name.partition(".")[0] for name in loaded} - {"nmt_cli", *sys.stdlib_module_names}
    assert outside == set()
    assert {name for name in loaded if name.startswith("nmt_cli.")} == {
        "nmt_cli.library", "nmt_cli.system", "nmt_cli.system.console",
        "nmt_cli.system.errors", "nmt_cli.system.signals", "nmt_cli.version",
    }  # fmt: skip


@pytest.mark.slow
def test_the_page_about_python_works_as_it_stands(model: Path, corpus: Path, config: Path, tmp_path: Path):
    shutil.copytree(model, tmp_path / "runs/demo")
    shutil.copytree(corpus, tmp_path / "runs/demo/data")
    shutil.copy(config, tmp_path / "my.yaml")
    program = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.M | re.S))
    assert {name for name in nmt_cli.__all__ if f"nmt_cli.{name}(" in program} == set(nmt_cli.__all__) - {
        "NmtError", "__version__",
    }  # fmt: skip
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == str(tmp_path / "runs/trial")
