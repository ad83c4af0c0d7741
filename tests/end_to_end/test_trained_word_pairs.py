"""`data.word_pairs` through the real command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nmt_cli.experiment import Experiment


def sets(*options: str) -> list[str]:
    return [word for option in options for word in ("--set", option)]


def kept(run: Path) -> dict[str, str]:
    """The word pairs that a run keeps."""
    source, target = (path.read_text(encoding="utf-8").split("\n") for path in Experiment(run).word_pairs_paths)
    assert source[-1] == target[-1] == ""
    return dict(zip(source[:-1], target[:-1], strict=True))


@pytest.mark.usefixtures("echoed_dev_set")
def test_words_of_the_training_text_are_trained_on_with_their_translations(nmt, config: Path):
    result = nmt("train", "--config", config, *sets("data.word_pairs=true"))
    assert result.code == 0, result.err
    run = config.parent / "run"
    pairs = kept(run)
    assert f"\n{len(pairs)} word pairs learned from the training text in " in result.err
    assert f" -> {run}/cache/word_pairs\n" in result.err
    files = f"{run}/cache/word_pairs/source.txt | {run}/cache/word_pairs/target.txt"
    assert f"{files}: {len(pairs)} of {len(pairs)} pairs kept" in result.err
    assert f"tiny: {600 + len(pairs)} pairs" in result.err
    assert pairs["horse"] == "cheval"
    assert pairs["Marie"] == "Marie"


@pytest.mark.usefixtures("echoed_dev_set")
def test_a_run_without_the_key_has_none(nmt, config: Path):
    assert nmt("train", "--config", config).code == 0
    assert not (config.parent / "run/cache/word_pairs").exists()


@pytest.mark.usefixtures("echoed_dev_set")
@pytest.mark.slow
def test_a_run_goes_on_with_the_words_with_which_it_began(nmt, config: Path):
    """They are neither learned anew nor exchanged; those that are lost are found again."""
    run, whole = config.parent / "run", config.parent / "whole"
    train = ("train", "--config", config, *sets("data.word_pairs=true", "training.schedule=constant"))
    assert nmt(*train, *sets(f"model_dir={whole}")).code == 0
    assert nmt(*train, *sets("training.max_steps=5")).code == 0
    result = nmt(*train, *sets("training.max_steps=7"))
    assert result.code == 0
    assert "word pairs learned" not in result.err
    refused = nmt("train", "--config", config, *sets("training.schedule=constant"))
    assert refused.code == 2
    assert "these keys differ: data.word_pairs" in refused.err
    source, _ = Experiment(run).word_pairs_paths
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("horse", "mouse"), encoding="utf-8")
    refused = nmt(*train)
    assert refused.code == 2
    assert f"nmt: {source}: not the text with which the run in {run} began. Put it back" in refused.err
    source.unlink()
    result = nmt(*train)
    assert "word pairs learned" in result.err
    assert source.read_text(encoding="utf-8") == text
    last = "checkpoints/step-00000012/model.safetensors"
    assert (run / last).read_bytes() == (whole / last).read_bytes()


@pytest.mark.usefixtures("echoed_dev_set")
@pytest.mark.slow
def test_another_text_before_the_first_checkpoint_has_other_words(nmt, config: Path, corpus: Path):
    source = config.parent / "mine.en"
    source.write_bytes((corpus / "train.en").read_bytes())
    train = ("train", "--config", config, *sets("data.word_pairs=true", f"data.train.0.source={source}"))
    assert nmt(*train, *sets("training.max_steps=1")).code == 0
    shutil.rmtree(config.parent / "run/checkpoints")
    source.write_text(source.read_text(encoding="utf-8").replace("horse", "mouse"), encoding="utf-8")
    assert nmt(*train).code == 0
    assert kept(config.parent / "run")["mouse"] == "cheval"


@pytest.mark.usefixtures("echoed_dev_set")
@pytest.mark.parametrize(("language", "written"), [("zh", "狗"), ("fr", "我看狗")])
def test_pieces_are_words_where_a_language_writes_no_spaces(nmt, config: Path, tmp_path: Path, language, written):
    words = {"dogs": "狗", "cats": "猫", "Tom": "汤", "Anna": "安"}
    pairs = [(f"I see {one} and {two}.", f"我看{words[one]}和{words[two]}。") for one in words for two in words]
    for number, ending in enumerate(("en", "zh")):
        (tmp_path / f"text.{ending}").write_text("".join(f"{pair[number]}\n" for pair in pairs), encoding="utf-8")
    files = [f"data.train.0.{side}={tmp_path}/text.{ending}" for side, ending in (("source", "en"), ("target", "zh"))]
    options = (*files, "data.word_pairs=true", f"data.target_lang={language}", "tokenizer.model_type=char",
               "tokenizer.vocab_size=300", "data.dev=null", "training.max_steps=1")  # fmt: skip
    result = nmt("train", "--config", config, *sets(*options))
    assert result.code == 0, result.err
    assert (kept(config.parent / "run").get("dogs") == written) == (language == "zh")


@pytest.mark.usefixtures("echoed_dev_set")
def test_a_text_without_word_pairs_is_trained_on_all_the_same(nmt, config: Path, tmp_path: Path):
    for ending in ("en", "fr"):
        (tmp_path / f"text.{ending}").write_text("".join(f"{number} {number}\n" for number in range(300)))
    files = [f"data.train.0.{side}={tmp_path}/text.{ending}" for side, ending in (("source", "en"), ("target", "fr"))]
    options = (*files, "data.word_pairs=true", "data.dev=null", "tokenizer.vocab_size=280", "training.max_steps=2")
    result = nmt("train", "--config", config, *sets(*options))
    assert result.code == 0, result.err
    assert "0 word pairs learned" in result.err
    assert kept(config.parent / "run") == {}


@pytest.mark.usefixtures("echoed_dev_set")
def test_symbols_of_the_tokenizer_are_no_words(nmt, config: Path, corpus: Path, tmp_path: Path):
    lines = (corpus / "train.en").read_text(encoding="utf-8").splitlines()
    (tmp_path / "marked.en").write_text("".join(f"<BT> {line}\n" for line in lines), encoding="utf-8")
    options = (f"data.train.0.source={tmp_path}/marked.en", "data.word_pairs=true", "tokenizer.symbols=[<BT>]")
    assert nmt("train", "--config", config, *sets(*options, "training.max_steps=1")).code == 0
    assert "bt" not in {word for unit in kept(config.parent / "run") for word in unit.lower().split()}


def test_init_turns_it_on(nmt, tmp_path: Path, corpus: Path):
    files = ("--source", corpus / "train.en", "--target", corpus / "train.fr", "-o", tmp_path / "config.yaml")
    assert nmt("init", *files, "--source-lang", "en", "--target-lang", "fr").code == 0
    shown = nmt("train", "--config", tmp_path / "config.yaml", "--dry-run")
    assert b"word_pairs: true" in shown.out


@pytest.mark.usefixtures("echoed_dev_set")
def test_an_empty_training_text_is_refused(nmt, config: Path, model: Path, tmp_path: Path):
    (tmp_path / "empty").write_text("")
    empty = [f"data.train.0.{side}={tmp_path / 'empty'}" for side in ("source", "target")]
    origin = (f"training.init_from={model}", "model.embedding_size=32", "model.decoder.hidden_size=32")
    result = nmt("train", "--config", config, *sets("data.word_pairs=true", *origin, *empty))
    assert result.code == 2
    assert "no training pairs are left" in result.err
