"""Trainings with compiled kernels and without, through the real command line: what is said, and what goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import contents

from nmt_cli.ops import native
from nmt_cli.ops.kernel_library import NOT_BUILT


@pytest.fixture
def not_built(monkeypatch) -> None:
    """As where there was no compiler."""
    monkeypatch.setattr(native, "_library", lambda: NOT_BUILT)


def steps(config: Path, number: int, directory: str = "run") -> list[str]:
    rhythm = ("training.validation_freq=2", "training.schedule=constant", "training.warmup_steps=0")
    sets = (*rhythm, f"training.max_steps={number}", f"model_dir={config.parent / directory}")
    return ["train", "--config", str(config), *(word for one in sets for word in ("--set", one))]


@pytest.mark.usefixtures("echoed_dev_set")
@pytest.mark.usefixtures("not_built")
def test_without_kernels_it_is_said_once(nmt, config: Path):
    told = "nmt runs without its compiled kernels, which is slower. Reinstall nmt-cli on a machine with a C++ compiler"
    result = nmt(*steps(config, 2))
    assert result.code == 0, result.err
    assert result.err.count(told) == 1
    result = nmt("translate", "--model", config.parent / "run", stdin=b"Where is the station?\n")
    assert result.code == 0, result.err
    assert result.err.count(told) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("echoed_dev_set")
@pytest.mark.skipif(not native.is_built(), reason="installed without a compiler")
def test_a_training_goes_on_by_the_path_on_which_it_began(nmt, config: Path, monkeypatch):
    """Bit for bit. Fails if the state does not say by which path."""
    with monkeypatch.context() as patched:
        patched.setattr(native, "_library", lambda: NOT_BUILT)
        for arguments in (steps(config, 6, "alone"), steps(config, 4)):
            result = nmt(*arguments)
            assert result.code == 0, result.err
    result = nmt(*steps(config, 6))
    assert result.code == 0, result.err
    assert "training without compiled kernels, because the run began without them" in result.err
    assert contents(config.parent / "run") == contents(config.parent / "alone")


@pytest.mark.usefixtures("echoed_dev_set")
@pytest.mark.skipif(not native.is_built(), reason="installed without a compiler")
@pytest.mark.slow
def test_a_training_that_lost_its_kernels_warns_and_goes_on(nmt, config: Path, monkeypatch):
    result = nmt(*steps(config, 2))
    assert result.code == 0, result.err
    assert "compiled kernels" not in result.err
    monkeypatch.setattr(native, "_library", lambda: NOT_BUILT)
    result = nmt(*steps(config, 4))
    assert result.code == 0, result.err
    told = (
        "the run began with compiled kernels, which this installation lacks. "
        "Training continues without them: slower, and different in the last digits"
    )
    assert result.err.count(told) == 1
