"""The same seed, machine and number of threads give the same bytes, twice."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from command_line import start_nmt


def trained(config: Path, name: str, **environment: str) -> dict[str, str]:
    """SHA-256 of what a training leaves, in a process of its own."""
    process = start_nmt(
        "train", "--config", config, "--set", f"model_dir={config.parent / name}", "--set",
        "tokenizer.sampling_alpha=0.1", stderr=-3, env=os.environ | environment,
    )  # fmt: skip
    assert process.wait() == 0
    run = config.parent / name
    files = [*run.rglob("*.safetensors"), *run.rglob("*.model")]
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.slow
def test_training_twice_gives_the_same_bytes_whatever_python_hashes_and_where_it_runs(config: Path, tmp_path: Path):
    """Fails if a set is walked in its own order, or a clock, a path or a host gets into a file."""
    first = trained(config, "first", PYTHONHASHSEED="1", TZ="UTC")
    assert len(first) >= 5
    assert trained(config, "second", PYTHONHASHSEED="2", TZ="Asia/Tokyo", HOSTNAME="other") == first
    assert trained(config, "other", PYTHONHASHSEED="1", LC_ALL="C") == first
