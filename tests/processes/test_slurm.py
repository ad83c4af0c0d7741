"""The script for Slurm, with stand-ins for Slurm's own commands: one host, two processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from launching import ROOT, outcomes

SCRIPT = ROOT / "docs/slurm/train.sbatch"
STAND_INS = {
    "scontrol": '#!/bin/sh\ntest "$1 $2 $3" = "show hostnames here" && echo 127.0.0.1\n',
    "srun": '#!/bin/sh\ntest "$1" = "--kill-on-bad-exit=1" && shift && exec "$@"\n',
}


@pytest.fixture
def slurm(tmp_path: Path) -> dict[str, str]:
    """The environment that Slurm gives a job."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, text in STAND_INS.items():
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    path = f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    job = {"SLURM_JOB_NODELIST": "here", "SLURM_JOB_NUM_NODES": "1", "SLURM_GPUS_ON_NODE": "2", "SLURM_JOB_ID": "7"}
    return {"PATH": path, "NMT_PORT": "0", **job}


@pytest.mark.soak
def test_a_job_trains_and_submitted_again_says_that_it_has(launch, slurm, config):
    arguments = [SCRIPT, config, "--set", "training.max_steps=4", "--set", "training.device=cpu"]
    (end,) = outcomes([launch.program("bash", *arguments, env=slurm)])
    assert end.code == 0, end.err
    assert "2 processes of 1 thread\n" in end.err
    assert "finished: max_steps 4 reached" in end.err
    (end,) = outcomes([launch.program("bash", *arguments, env=slurm)])
    assert end.code == 0, end.err
    assert "finished already (max_steps 4 reached)" in end.err


def test_without_a_configuration_it_says_how_it_is_called(launch, slurm):
    (end,) = outcomes([launch.program("bash", SCRIPT, env=slurm)])
    assert end.code != 0
    assert "usage: sbatch docs/slurm/train.sbatch CONFIG [--set KEY=VALUE ...]" in end.err
