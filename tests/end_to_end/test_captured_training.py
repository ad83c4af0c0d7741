"""Training from captured graphs through the real command line; `Tapes` stand in for the GPU's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from command_line import contents
from unit.training.tapes import Tapes

from nmt_cli.ops import native
from nmt_cli.training import captured


@pytest.fixture(autouse=True)
def _path():
    """Act like a GPU: a tape, like a graph, holds what torch does."""
    with native.path(native.PLAIN):
        yield


@pytest.fixture
def tapes(monkeypatch) -> list[Tapes]:
    """Those of every training that the command line begins."""
    made: list[Tapes] = []

    def graphs_for(device):
        made.append(Tapes())
        return made[-1]

    monkeypatch.setattr(captured, "graphs_for", graphs_for)
    return made


def losses(run: Path) -> list[float]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [record["loss"] for record in records if record["event"] == "train"]


GRAPHS = ("--set", "training.cuda_graphs=true")
NOISELESS = ("embedding", "recurrent", "annotation", "readout", "source_word", "target_word")


@pytest.mark.slow
def test_captured_and_plain_training_lose_alike(nmt, config: Path, monkeypatch):
    """Without dropout, since the masks are those of the padded batch."""
    sets = [word for name in NOISELESS for word in ("--set", f"model.dropout.{name}=0")]
    plain = nmt("train", "--config", config, *sets, "--set", f"model_dir={config.parent / 'plain'}")
    assert plain.code == 0, plain.err
    monkeypatch.setattr(captured, "graphs_for", lambda device: Tapes())
    result = nmt("train", "--config", config, *sets, *GRAPHS)
    assert result.code == 0, result.err
    assert "are replayed from CUDA graphs" in result.err
    assert losses(config.parent / "run") == pytest.approx(losses(config.parent / "plain"), rel=1e-4)


@pytest.mark.slow
def test_a_captured_training_that_is_stopped_and_raised_ends_like_an_undisturbed_one(nmt, config: Path, tapes):
    """Bit for bit, with noise, two parts and the average. A resumed training captures what the other only replays.
    Fails if the noise is drawn from one generator through the whole training."""
    values = ("schedule=constant", "accumulate=2", "batch_size=60", "validation_freq=12")
    sets = [*GRAPHS, *(word for value in values for word in ("--set", f"training.{value}"))]
    whole = nmt("train", "--config", config, *sets, "--set", f"model_dir={config.parent / 'whole'}")
    assert whole.code == 0, whole.err
    for steps in ("5", "12"):
        part = nmt("train", "--config", config, *sets, "--set", f"training.max_steps={steps}")
        assert part.code == 0, part.err
    ours, theirs = contents(config.parent / "run"), contents(config.parent / "whole")
    for name in ("checkpoints/step-00000012/model.safetensors", "checkpoints/step-00000012/trainer.safetensors"):
        assert ours[name] == theirs[name], name
    captures = [one.asked.count("capture") for one in tapes]
    assert sum(captures[1:]) > captures[0] > 0
    assert all(one.asked.count("replay") > one.asked.count("capture") for one in tapes)


@pytest.mark.slow
def test_a_captured_training_out_of_memory_halves_the_batch_and_goes_on(nmt, config: Path, tapes, monkeypatch):
    real, refused = Tapes.run, []

    def greedy(self, work):
        if not refused:
            refused.append(1)
            raise torch.OutOfMemoryError("CUDA out of memory")
        real(self, work)

    monkeypatch.setattr(Tapes, "run", greedy)
    result = nmt("train", "--config", config, *GRAPHS, "--set", "training.max_steps=3")
    assert result.code == 0, result.err
    assert "out of memory at step 1; going on with the batch in 2 parts" in result.err
    assert tapes[0].asked[0] == "release"
    runs, captures = tapes[0].asked.count("run"), tapes[0].asked.count("capture")
    assert runs == captures
    assert tapes[0].asked.count("replay") == 6 + captures  # two parts of three batches, and the comparisons


@pytest.mark.slow
def test_a_captured_training_skips_what_is_not_finite_and_goes_on(nmt, config: Path, tapes, monkeypatch):
    """Fails if the NaN of a skipped update stays in the gradients."""
    real = Tapes.run

    def ruin(self, work):
        real(self, work)
        if self.asked.count("run") == 2:
            for gradient in work.func.__self__._gradients:
                gradient.fill_(float("nan"))

    monkeypatch.setattr(Tapes, "run", ruin)
    result = nmt("train", "--config", config, *GRAPHS, "--set", "training.max_steps=6")
    assert result.code == 0, result.err
    assert result.err.count("is not finite; skipped") == 1


def test_graphs_are_off_by_default(nmt, config: Path, tapes):
    assert nmt("train", "--config", config, "--set", "training.max_steps=2").code == 0
    assert tapes == []


@pytest.mark.slow
def test_a_training_whose_graphs_failed_resumes_without_them_and_exactly(nmt, config: Path, monkeypatch):
    """Fails if it tries again, and draws the noise of padded batches until that fails."""
    made: list[Tapes] = []

    def graphs_for(device):
        made.append(Tapes(failure=RuntimeError("operation not permitted")))
        return made[-1]

    monkeypatch.setattr(captured, "graphs_for", graphs_for)
    sets = (*GRAPHS, "--set", "training.schedule=constant")
    whole = nmt("train", "--config", config, *sets, "--set", f"model_dir={config.parent / 'whole'}")
    assert whole.code == 0, whole.err
    assert whole.err.count("cannot be captured (operation not permitted); training goes on without CUDA graphs") == 1
    for steps in ("5", "12"):
        assert nmt("train", "--config", config, *sets, "--set", f"training.max_steps={steps}").code == 0
    assert made[2].asked == []
    ours, theirs = contents(config.parent / "run"), contents(config.parent / "whole")
    for name in ("checkpoints/step-00000012/model.safetensors", "checkpoints/step-00000012/trainer.safetensors"):
        assert ours[name] == theirs[name], name
