"""For all tests: one thread, the real command line, and one small model trained with it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from command_line import CONFIG, Result, run_here

from nmt_cli.demo import phrasebook
from nmt_cli.signals import ENDING

# Tiny models gain nothing from more threads, and lose much where another program has the core.
os.environ["OMP_NUM_THREADS"] = "1"  # for the processes that tests start


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _signals_are_heard():
    """Also where the tests run in the background of a script, which has SIGINT ignored, and what they start too."""
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _is_measured_briefly(monkeypatch: pytest.MonkeyPatch):
    """`nmt check` trains for a moment, not for seconds, and a training tries its precision and threads as briefly."""
    for name in ("commands.measuring.SECONDS", "commands.choosing.THREADS_SECONDS", "training.precision.SECONDS"):
        monkeypatch.setattr(f"nmt_cli.{name}", 0.0)


@pytest.fixture
def nmt(capfd: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """The command line; `nmt("translate", path, stdin=b"...")`."""

    def run(*args: str | Path, stdin: bytes = b"", env: dict[str, str] | None = None) -> Result:
        with capfd.disabled():
            return run_here(*(str(arg) for arg in args), stdin=stdin, env=env)

    return run


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small phrase book: train, dev and test in en and fr."""
    directory = tmp_path_factory.mktemp("corpus")
    phrasebook.write(phrasebook.generate(seed=7, num_train=600, num_dev=20, num_test=30), directory)
    return directory


@pytest.fixture
def config(tmp_path: Path, corpus: Path) -> Path:
    """A configuration whose model directory is `run` beside it."""
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG.format(model_dir=tmp_path / "run", corpus=corpus), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Path:
    """A model directory trained for a few steps: enough to produce some text."""
    directory = tmp_path_factory.mktemp("model")
    path = directory / "config.yaml"
    path.write_text(CONFIG.format(model_dir=directory / "run", corpus=corpus), encoding="utf-8")
    result = run_here(
        "train",
        "--config",
        str(path),
        "--set",
        "training.max_steps=100",
        "--set",
        "training.validation_freq=50",
        "--set",
        "training.batch_size=400",
        "--set",
        "model.embedding_size=32",
        "--set",
        "model.decoder.hidden_size=32",
        "--set",
        "model.dropout.embedding=0",
        "--set",
        "model.dropout.recurrent=0",
        "--set",
        "training.checkpoint_freq=50",
    )
    assert result.code == 0, result.err
    return directory / "run"
