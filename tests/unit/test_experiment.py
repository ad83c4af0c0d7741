"""The directory of a run."""

from __future__ import annotations

import pytest

from nmt_cli.assembly.file_checks import refuse_overwriting
from nmt_cli.assembly.tokenizers import write_config
from nmt_cli.assembly.training_inputs import refuse_own_files
from nmt_cli.config.loader import validate
from nmt_cli.experiment import Experiment
from nmt_cli.system.errors import InputError

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


def test_a_training_makes_the_listed_files_and_directories_and_no_others(model):
    """Breaks where a training writes a file that the list lacks, so that nothing protects it."""
    experiment = Experiment(model)
    listed = {*experiment.files, *experiment.directories, experiment.lock_path}
    made = set(experiment.directory.iterdir()) - {experiment.reports_path}  # which is of `nmt evaluate`
    assert made <= listed
    assert len(made) > 8


def test_no_file_of_a_run_is_taken_for_its_text(tmp_path):
    experiment = Experiment(tmp_path)
    for path in experiment.files:
        path.touch()
        config = validate({**VALUES, "data": {**VALUES["data"], "train": [{"source": str(path), "target": "b"}]}}, "")
        with pytest.raises(InputError, match=rf"data\.train\.0\.source: .*{path.name} would be overwritten"):
            refuse_own_files(experiment, config)


def test_no_output_replaces_a_file_of_a_run(tmp_path):
    experiment = Experiment(tmp_path)
    experiment.checkpoints.directory.mkdir()
    for path in (*experiment.files, experiment.improvement_path):
        path.touch()
    for path in (*experiment.files, experiment.improvement_path):
        with pytest.raises(InputError, match=f"{path.name}: belongs to the model in {tmp_path}"):
            refuse_overwriting(path, [])
