"""The directions of a configuration: what they are, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from nmt_cli.config.loader import validate
from nmt_cli.config.schema import Config
from nmt_cli.system.errors import ConfigError, InputError
from nmt_cli.text.direction import Direction


def text(source: str, target: str, **more: Any) -> dict[str, Any]:
    return {
        "source": f"{source}-{target}.{source}", "target": f"{source}-{target}.{target}", "source_lang": source,
        "target_lang": target, **more,
    }  # fmt: skip


def config(*directions: tuple[str, str], dev: Any = None, training: Any = None, **data: Any) -> Config:
    texts = [text(*direction) for direction in directions]
    data = {"train": texts, "dev": texts if dev is None else dev, **data}
    return validate({"name": "a", "model_dir": "runs/a", "data": data, "training": training or {}}, "config")


def problems(*directions: tuple[str, str], **how: Any) -> str:
    with pytest.raises(ConfigError) as error:
        config(*directions, **how)
    return str(error.value)


def test_a_configuration_with_two_languages_has_one_direction_and_no_tags():
    one = validate(
        {
            "name": "a", "model_dir": "runs/a",
            "data": {"source_lang": "en", "target_lang": "fr", "train": [{"source": "a", "target": "b"}]},
        },
        "config",
    )  # fmt: skip
    assert one.data.directions == (("en", "fr"),)
    assert one.data.direction == Direction("en", "fr")
    assert one.data.tags == ()
    assert one.for_direction(Direction("en", "fr")) is one


def test_only_several_targets_need_tags():
    assert config(("vi", "en"), ("fr", "en")).data.tags == ()
    assert config(("en", "vi"), ("en", "fr")).data.tags == ("<2vi>", "<2fr>")
    assert config(("vi", "en"), ("fr", "en"), source_tags=True).data.tags == ("<from:vi>", "<from:fr>")


def test_the_part_of_one_direction_is_the_configuration_of_a_model_of_it():
    part = config(("en", "vi"), ("en", "zh"), test=[text("en", "zh", name="t")]).for_direction(Direction("en", "zh"))
    assert part.data.directions == (("en", "zh"),)
    assert [corpus.source for corpus in part.data.train] == ["en-zh.en"]
    assert [test.name for test in part.data.test] == ["t"]
    assert [dev.target for dev in part.data.dev_sets] == ["en-zh.zh"]
    assert part.scoring.tokenize == "zh"


def test_several_directions_have_no_single_one():
    with pytest.raises(InputError, match=r"vi-en, en-vi\); choose one with --source-lang"):
        _ = config(("vi", "en"), ("en", "vi")).data.direction


@pytest.mark.parametrize("dev", [[text("vi", "en")], text("vi", "en")])
def test_a_direction_without_dev_text_is_refused(dev: Any):
    assert problems(("vi", "en"), ("en", "vi"), dev=dev) == (
        "config: data.dev: has no text in the direction en-vi; every direction needs one"
    )


def test_a_language_twice_is_refused():
    assert problems(("vi", "en"), ("en", "en")) == (
        "config: data.train: the direction en-en has the same language twice"
    )


def test_a_text_in_a_direction_that_is_not_trained_is_refused():
    assert problems(("vi", "en"), ("fr", "en"), test=[text("fr", "vi", name="t")]) == (
        "config: data.test.0: no training corpus has its direction, fr-vi; the directions are vi-en, fr-en"
    )


def test_early_stopping_by_a_direction_that_is_not_trained_is_refused():
    found = problems(("vi", "en"), ("fr", "en"), training={"early_stopping_direction": "en-vi"})
    assert found == ("config: training.early_stopping_direction: en-vi is not trained; there are: vi-en, fr-en")


def test_a_corpus_without_languages_is_refused():
    assert "data.train.1: has no languages" in problems(
        ("vi", "en"), train=[text("vi", "en"), {"source": "a", "target": "b"}]
    )


def test_text_in_one_language_belongs_to_the_only_language_of_its_side_or_names_it():
    texts = {"target": ["m.en"], "source": [{"text": "m.vi", "lang": "vi"}]}
    data = config(("vi", "en"), ("fr", "en"), monolingual=texts).data
    assert data.monolingual_files("target") == (("m.en", "en"),)
    assert data.monolingual_files("source") == (("m.vi", "vi"),)
    assert problems(("vi", "en"), ("fr", "en"), monolingual={"source": ["m.vi"]}) == (
        "config: data.monolingual.source.0: the source is in several languages (vi, fr); write {text: m.vi, lang: vi}, "
        "with the language of the file"
    )
    texts = {"target": [{"text": "m.vi", "lang": "vi"}]}
    assert problems(("vi", "en"), ("fr", "en"), monolingual=texts) == (
        "config: data.monolingual.target.0: vi is not a target language; there are: en"
    )
