"""The studies of the papers: their systems are configurations that load, their text is made without loss."""

from pathlib import Path

import pytest

from benchmarks.papers import attentions, lengths
from benchmarks.runs import Run
from nmt_cli.config.loader import load_config
from nmt_cli.model.build import build_model

ROOT = Path(__file__).parents[2]
RUNS = [
    *(attentions._run(name, "test.en") for name in attentions.SYSTEMS),
    *(lengths._run(name) for name in lengths.SYSTEMS),
]


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def overrides_of(run: Run) -> list[str]:
    return [value for flag, value in zip(run.arguments, run.arguments[1:], strict=False) if flag == "--set"]


@pytest.mark.parametrize("run", [pytest.param(run, id=run.name) for run in RUNS])
def test_a_system_is_a_configuration_that_loads_and_builds(run):
    config = load_config(run.config, overrides_of(run))
    assert config.model_dir == str(run.directory)
    model = build_model(config.model, source_vocab_size=300, target_vocab_size=300)
    assert model.has_attention == ("none" not in run.name and "encdec" not in run.name)


def test_no_two_systems_share_a_directory():
    assert len({run.directory for run in RUNS}) == len(RUNS)


def test_all_systems_of_a_study_have_one_seed_and_budget_but_for_the_second_seed():
    for study in (attentions.DIRECTORY, lengths.DIRECTORY):
        configs = [load_config(run.config, overrides_of(run)) for run in RUNS if run.directory.parent == study]
        assert len({config.training.model_dump_json() for config in configs}) == 1
    differing = [run.name for run in RUNS if load_config(run.config, overrides_of(run)).seed != 1]
    assert differing == ["additive, seed 2"]


@pytest.mark.parametrize("limit", [1, 7, 30])
def test_neighbours_are_joined_up_to_the_limit_and_nothing_is_lost(limit):
    pairs = [(" ".join(["s"] * (1 + number % 9)), f"t{number}") for number in range(50)]
    joined = list(lengths.join(pairs, lambda: limit))
    assert " ".join(target for _, target in joined).split() == [target for _, target in pairs]
    assert " ".join(source for source, _ in joined) == " ".join(source for source, _ in pairs)
    for source, target in joined:
        assert len(source.split()) <= limit or len(target.split()) == 1
