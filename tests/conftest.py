"""For all tests: one thread, the real command line, and one small model trained with it."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from command_line import CONFIG, Result, run_here
from echoing import Echo
from hypothesis import HealthCheck, settings

from nmt_cli.demo import phrasebook
from nmt_cli.system.signals import TERMINATION_SIGNALS

# Tiny models gain nothing from more threads, and lose much where another program has the core.
os.environ["OMP_NUM_THREADS"] = "1"  # for the processes that tests start
# No test fails because a machine is slow. `make soak` runs the quick tests with `--hypothesis-profile all`.
settings.register_profile("all", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("all"), max_examples=40)
settings.load_profile("quick")


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _signals_are_heard():
    """Also where the tests run in the background of a script, which has SIGINT ignored, and what they start too."""
    for number in TERMINATION_SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _is_measured_briefly(monkeypatch: pytest.MonkeyPatch):
    """`nmt check` trains for a moment, not for seconds, and a training tries its precision and threads as briefly."""
    for name in (
        "assembly.speed.SECONDS",
        "assembly.measured_settings.THREADS_SECONDS",
        "training.precision_trial.MAX_TRIAL_SECONDS",
    ):
        monkeypatch.setattr(f"nmt_cli.{name}", 0.0)


@pytest.fixture
def nmt(capfd: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """The command line; `nmt("translate", path, stdin=b"...")`."""

    def run(*args: str | Path, stdin: bytes = b"", env: dict[str, str] | None = None) -> Result:
        with capfd.disabled():
            return run_here(*(str(arg) for arg in args), stdin=stdin, env=env)

    return run


Once = Callable[[str, Callable[[Path], object]], Path]


def state_of(directory: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of each file."""
    files = {path: path.stat() for path in sorted(directory.rglob("*")) if path.is_file()}
    return {str(path): (found.st_size, found.st_mtime_ns) for path, found in files.items()}


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Once]:
    """`once("name", make)` returns a directory that `make` has filled, once in a run, whichever worker came first.

    The other workers wait for it. All share it, so a test that changes something in it must do so in a copy.
    """
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "once"
    shared.mkdir(exist_ok=True)
    states = {}

    def made(name: str, make: Callable[[Path], object]) -> Path:
        directory, ready = shared / name, shared / f"{name}.ready"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not ready.exists():
                shutil.rmtree(directory, ignore_errors=True)  # half of it, from a worker in which `make` failed
                directory.mkdir()
                make(directory)
                ready.touch()
        states[directory] = state_of(directory)
        return directory

    yield made
    changed = {path for directory, state in states.items() for path, _ in state_of(directory).items() ^ state.items()}
    assert not changed, "tests have changed files that they share; let them change a copy"


@pytest.fixture(scope="session")
def corpus(once: Once) -> Path:
    """A small phrase book: train, dev and test in en and fr."""

    def write(directory: Path) -> None:
        phrasebook.write(phrasebook.generate(seed=7, num_train=600, num_dev=20, num_test=30), directory)

    return once("corpus", write)


@pytest.fixture
def config(tmp_path: Path, corpus: Path) -> Path:
    """A configuration whose model directory is `run` beside it."""
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG.format(model_dir=tmp_path / "run", corpus=corpus), encoding="utf-8")
    return path


@pytest.fixture
def echoed_dev_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let trainings in this process judge the dev set by its loss alone: it is not translated, only echoed.

    Its translations and the confidence that is fitted to them take two thirds of the time of a small training.
    """
    monkeypatch.setattr("nmt_cli.training.validation.Translator", Echo)
    monkeypatch.setattr("nmt_cli.assembly.training_run.calibrate_after_training", lambda *_: None)


@pytest.fixture(scope="session")
def stored_model(once: Once) -> Path:
    """A model directory that an earlier version has left: for tests that do not mind which, as nothing is trained."""

    def copy(directory: Path) -> None:
        shutil.copytree(Path(__file__).parent / "models/format-1-init", directory, dirs_exist_ok=True)
        config = directory / "run/config.yaml"
        config.write_text(config.read_text(encoding="utf-8").replace("@HERE@", str(directory)), encoding="utf-8")

    return once("stored", copy) / "run"


@pytest.fixture(scope="session")
def model(once: Once, corpus: Path) -> Path:
    """A model directory trained for a few steps: enough to produce some text."""
    sets = (
        "training.max_steps=100", "training.validation_freq=50", "training.batch_size=400", "model.embedding_size=32",
        "model.decoder.hidden_size=32", "model.dropout.embedding=0", "model.dropout.recurrent=0",
        "training.checkpoint_freq=50",
    )  # fmt: skip

    def train(directory: Path) -> None:
        path = directory / "config.yaml"
        path.write_text(CONFIG.format(model_dir=directory / "run", corpus=corpus), encoding="utf-8")
        result = run_here("train", "--config", str(path), *(word for one in sets for word in ("--set", one)))
        assert result.code == 0, result.err

    return once("model", train) / "run"
