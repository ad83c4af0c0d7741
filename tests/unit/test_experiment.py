"""The directory of a run."""

from __future__ import annotations

from nmt_cli.assembly.tokenizers import write_config
from nmt_cli.config.loader import validate
from nmt_cli.experiment import Experiment

VALUES = {
    "name": "x", "model_dir": "x",
    "data": {"source_lang": "en", "target_lang": "de", "train": [{"source": "a", "target": "b"}]},
}  # fmt: skip


def test_the_configuration_is_the_one_that_the_run_wrote_last(tmp_path):
    """Fails if it stays the one that was compared with what the user gave."""
    experiment = Experiment(tmp_path / "run")
    for seed in (1, 2):
        write_config(experiment, validate({**VALUES, "seed": seed}, "test"))
        assert experiment.config.seed == seed
