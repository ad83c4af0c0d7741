"""The configurations that come with the program: each loads, says what it reproduces, and describes a model."""

from importlib import resources
from pathlib import Path

import pytest
import torch

from nmt_cli.config.loader import load_config
from nmt_cli.model.build import build_model

DIRECTORY = Path(__file__).parents[3] / "configs"
CONFIGS = sorted(DIRECTORY.glob("*.yaml"))
every_config = pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)


def header_of(path):
    """The comment before the first key."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(lines)


def paths_in(config):
    data = config.data
    pairs = [*data.train, *data.test, *([data.dev] if data.dev else [])]
    return [config.model_dir, *(path for pair in pairs for path in (pair.source, pair.target))]


def test_there_are_configurations():
    assert {"demo", "multi30k_en_de", "bahdanau2015", "iwslt14_de_en", "low_resource", "wmt17_en_de"} <= {
        path.stem for path in CONFIGS
    }


@every_config
def test_a_configuration_loads_and_is_called_as_its_file(path):
    config = load_config(path)
    assert config.name == path.stem
    assert config.model_dir == f"runs/{path.stem}"


@every_config
def test_a_configuration_says_what_it_reproduces(path):
    assert "reproduces" in header_of(path).lower()


@every_config
def test_paths_are_relative_to_the_current_directory(path):
    assert all(not Path(named).is_absolute() and ".." not in named for named in paths_in(load_config(path)))


@every_config
def test_a_model_can_be_built(path):
    config = load_config(path)
    size = config.tokenizer.vocab_size
    with torch.device("meta"):
        model = build_model(config.model, source_vocab_size=size, target_vocab_size=size)
    assert sum(parameter.numel() for parameter in model.parameters()) > 0


def test_the_paper_has_the_sizes_of_the_paper():
    config = load_config(DIRECTORY / "bahdanau2015.yaml")
    with torch.device("meta"):
        model = build_model(config.model, source_vocab_size=30_000, target_vocab_size=30_000)
    assert model.source_embedding.shape == (30_000, 620)
    assert model.output_weight.shape == (30_000, 500)
    assert model.decoder.readout.hidden.weight.shape == (1_000, 1_000)  # 500 pairs for the maxout of s_i
    assert model.decoder.attention.score.query.shape == (1_000, 1_000)
    assert model.decoder.attention.score.key.weight.shape == (1_000, 2_000)
    training = config.training
    assert (training.optimizer, training.adadelta_rho, training.epsilon) == ("adadelta", 0.95, 1e-6)


def test_the_demo_is_the_packaged_one():
    packaged = resources.files("nmt_cli.demo").joinpath("demo.yaml").read_bytes()
    assert (DIRECTORY / "demo.yaml").read_bytes() == packaged
