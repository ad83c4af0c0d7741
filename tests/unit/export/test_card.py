"""The model card: its front matter is YAML whatever stands in names, and what is unknown is said to be."""

import hashlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from safetensors.torch import save_file

from nmt_cli.config.loader import validate
from nmt_cli.config.yaml_text import parse_yaml
from nmt_cli.export.card import LABELS, card, escape_markdown
from nmt_cli.scoring import METRICS
from nmt_cli.system.errors import ConfigError

ODD = ['it\'s: "so"', "no", "1e3", "- a", "#x", "{a: b}", "a | b", "yes: 'x\"", "\u2028line", "x\x85y", "😀", "`b`"]


def experiment(directory, name="m", language="en", licence=None, source="train.en", reports=None, model=None, tests=()):
    values = {
        "name": name,
        "model_dir": str(directory),
        "data": {"source_lang": language, "target_lang": "fr", "train": [{"source": source, "target": "train.fr"}]},
    }
    if model is not None:
        values["model"] = model
    values["data"]["test"] = list(tests)
    if licence is not None:
        values["data"]["licence"] = licence
    step = directory / "checkpoints/step-00000001"
    step.mkdir(parents=True)
    meta = {"format": 1, "nmt": "0.1.0", "step": 1, "tokenizers": {}, "metrics": {}, "shapes": {"a": [2, 3]}}
    (step / "meta.json").write_text(json.dumps(meta))
    save_file({"a": torch.zeros(2, 3)}, step / "model.safetensors")
    if reports is not None:
        (directory / "reports").mkdir()
        (directory / "reports/report.json").write_text(json.dumps({"sets": reports}))
    piece = SimpleNamespace(vocab_size=8, fingerprint="f")
    return SimpleNamespace(
        directory=directory,
        name=directory.name,
        config=validate(values, "test"),
        tokenizers=(piece, piece),
        fingerprints=None,
        fingerprint=lambda _: "own",
        checkpoints=SimpleNamespace(resolve=lambda _: step),
        cache_path=directory / "cache",
        reports_path=directory / "reports",
        improvement_path=directory / "improve.json",
    )


def front_matter(text):
    """As readers of YAML 1.1 and of 1.2 read it."""
    assert text.startswith("---\n")
    front, _, body = text.removeprefix("---\n").partition("\n---\n")
    values = yaml.safe_load(front)
    assert values == parse_yaml(front, "card")
    return values, body


@pytest.mark.parametrize("odd", ODD)
def test_the_front_matter_holds_any_name(tmp_path: Path, odd):
    scores = {"bleu": {"score": 12.345, "signature": f"sig\n{odd}"}}
    reports = {
        odd: {"models": ["/x/run"], "checkpoints": ["step-00000001"], "source": odd, "references": [odd], **scores}
    }
    one = experiment(tmp_path / "run", odd, odd, None, f"{odd}.en", reports)
    values, body = front_matter(card([one]))
    assert values["language"] == [odd, "fr"]
    assert values["license"] == "unknown"
    (entry,) = values["model-index"]
    assert entry["name"] == odd
    assert entry["results"][0]["dataset"]["name"] == odd
    assert entry["results"][0]["metrics"] == [
        {"type": "bleu", "name": "BLEU", "value": 12.35, "args": {"signature": f"sig\n{odd}"}}
    ]
    # Each row of a table has as many cells as its head, and nothing breaks out of its line.
    rows = [line.replace("\\|", "").count("|") for line in body.split("\n") if line.startswith("| ") or "|---" in line]
    assert set(rows) <= {3, 4, 6}
    assert not {"\u2028", "\x85"} & set(body)


@pytest.mark.parametrize(
    ("licences", "told"),
    [
        (("MIT", "MIT"), "mit"),
        (("MIT", None), "unknown"),
        (("MIT", "CC-BY-4.0"), "unknown"),
        (("CC-BY 2.0 (France) Attribution: tatoeba.org",) * 2, "cc-by-2.0"),
    ],
)
def test_several_models_have_a_licence_if_all_state_it(tmp_path: Path, licences, told):
    models = [experiment(tmp_path / name, licence=licence) for name, licence in zip("ab", licences, strict=True)]
    assert front_matter(card(models))[0]["license"] == told


def test_only_models_with_attention_have_its_tag(tmp_path: Path):
    without = experiment(tmp_path / "a", model={"attention": {"type": "none"}})
    with_attention = experiment(tmp_path / "b")
    for experiments, expected in (
        ([without], ["translation", "rnn", "nmt"]),
        ([without, with_attention], ["translation", "rnn", "attention", "nmt"]),
    ):
        values, _ = front_matter(card(experiments))
        assert values["tags"] == expected


def test_what_the_directory_does_not_know_is_unknown(tmp_path):
    text = card([experiment(tmp_path / "run")])
    assert "| train.en | unknown | unknown | 1 | unknown |" in text
    assert "Licence, as the configuration states it: unknown." in text
    assert "On the dev set, of this checkpoint: unknown." in text
    assert "| epochs trained | unknown |" in text
    assert front_matter(text)[0]["model-index"] == []


@pytest.mark.parametrize(
    ("progress", "epochs"),
    [
        ('{"epochs_done": 2.638157894736842}', "2.64"),
        ("{}", "unknown"),
        ('{"epochs_done": "3"}', "unknown"),
        ("{", "unknown"),
    ],
)
def test_the_epochs_are_those_of_the_checkpoint(tmp_path, progress, epochs):
    """An average of checkpoints has none, and a training goes on after its best checkpoint."""
    one = experiment(tmp_path / "run")
    (one.directory / "metrics.jsonl").write_text('{"event": "train", "step": 3, "epoch": 4.3}\n')
    (one.checkpoints.resolve("best") / "trainer.json").write_text(progress)
    assert f"| epochs trained | {epochs} |" in card([one])


def test_lines_and_hashes_are_those_of_the_cache(tmp_path):
    one = experiment(tmp_path / "run", licence="CC-BY-4.0")
    digests = [hashlib.sha256(side).hexdigest() for side in (b"en", b"fr")]
    manifest = {
        "key": {"tokenizers": ["f", "f"], "content": [digests]},
        "reports": {"train.en | train.fr": {"read": 9, "kept": 7, "left_out": {"too long": 2}, "replaced": 0}},
    }
    (one.cache_path / "0123").mkdir(parents=True)
    (one.cache_path / "0123/manifest.json").write_text(json.dumps(manifest))
    text = card([one])
    assert f"| train.en | 9 | 7 | 1 | `{digests[0]}` |" in text
    assert f"| train.fr | 9 | 7 | 1 | `{digests[1]}` |" in text
    assert "Pairs were left out that are too long." in text
    assert front_matter(text)[0]["license"] == "cc-by-4.0"
    for number, other in enumerate((b"earlier en", b"another en")):  # of attempts before the first checkpoint
        digest = hashlib.sha256(other).hexdigest()
        key = {**manifest["key"], "content": [[digest, digests[1]]]}
        key |= {"filters": {"max_length": 7, "max_length_ratio": None, "invalid_utf8": "error"}} if number else {}
        (one.cache_path / f"99{number}").mkdir()
        (one.cache_path / f"99{number}/manifest.json").write_text(json.dumps({**manifest, "key": key}))
    state = one.checkpoints.resolve("best") / "trainer.json"
    state.write_text(json.dumps({"text": " ".join(digest[:16] for digest in digests)}))
    assert f"| train.en | 9 | 7 | 1 | `{digests[0]}` |" in card([one])
    state.unlink()
    shutil.rmtree(one.cache_path / "990")
    assert f"| train.en | 9 | 7 | 1 | `{digests[0]}` |" in card([one])
    manifest["key"]["tokenizers"] = ["another", "f"]
    (one.cache_path / "0123/manifest.json").write_text(json.dumps(manifest))
    assert "| train.en | unknown | unknown | 1 | unknown |" in card([one])


def test_a_result_of_improve_names_the_files_that_were_given(tmp_path):
    one = experiment(tmp_path / "run", source="stages/back.en")
    stages = [{"lines": {"/c/mono.fr": 1200}}]
    inputs = {"/c/train.en": "0a", "/c/train.fr": "0b", "/c/mono.fr": "0c", "/c/dev.en": "0d", "/c/dev.fr": "0e"}
    config = {"data": {"dev": {"source": "/c/dev.en", "target": "/c/dev.fr"}}}
    record = {"format": 1, "config": config, "inputs": inputs, "stages": stages}
    (one.directory / "improve.json").write_text(json.dumps(record))
    text = card([one])
    assert "| train.en | unknown | `0a` |\n| train.fr | unknown | `0b` |\n| mono.fr | 1,200 | `0c` |" in text
    assert "was written by machines" in text
    assert "back" not in text
    assert front_matter(text)[0]["datasets"] == ["train", "mono"]


def test_scores_of_another_checkpoint_or_an_ensemble_are_not_those_of_the_model(tmp_path):
    entry = {"source": "t.en", "references": ["t.fr"], "chrf": {"score": 50.0, "signature": "s"}}
    reports = {
        "old": {**entry, "models": ["/x/run"], "checkpoints": ["step-00000009"]},
        "both": {
            **entry,
            "models": ["/x/run", "/x/b"],
            "checkpoints": ["step-00000001", "step-2"],
            "checkpoint": "best",
        },
    }
    text = card([experiment(tmp_path / "run", reports=reports)])
    assert front_matter(text)[0]["model-index"] == []
    assert text.count("which is not this checkpoint alone") == 2
    assert "nmt evaluate --model run --model b --source t.en --reference t.fr" in text


def test_scores_belong_to_the_weights_whatever_the_directory_is_called(tmp_path):
    entry = {"models": ["/x/before"], "checkpoints": ["step-00000001"], "chrf": {"score": 50.0, "signature": "s"}}
    reports = {"own": {**entry, "fingerprints": ["own"]}, "other": {**entry, "fingerprints": ["another"]}}
    text = card([experiment(tmp_path / "after", reports=reports)])
    (results,) = front_matter(text)[0]["model-index"][0]["results"]
    assert results["dataset"]["name"] == "own"
    assert "By after step-00000001:" in text
    assert "By before step-00000001, which is not this checkpoint alone:" in text


def test_the_command_names_the_files_where_the_configuration_has_others_of_the_name(tmp_path):
    entry = {"models": ["/x/run"], "checkpoints": ["step-00000001"], "chrf": {"score": 50.0, "signature": "s"}}
    reports = {"t": {**entry, "source": "/x/t.en", "references": ["/x/t.fr"]}}
    for number, (source, command) in enumerate({"/x/t.en": "--only t", "/x/u.en": "--source t.en"}.items()):
        tests = [{"name": "t", "source": source, "target": "/x/t.fr"}]
        assert f"nmt evaluate --model run {command}" in card(
            [experiment(tmp_path / f"{number}/run", reports=reports, tests=tests)]
        )


def test_a_length_penalty_that_was_chosen_is_told(tmp_path):
    tuned = {"chosen": 1.2, "dev_bleu": {"1.2": 9.0}}
    entry = {"models": ["/x/run"], "checkpoints": ["step-00000001"], "chrf": {"score": 50.0, "signature": "s"}}
    text = card([experiment(tmp_path / "run", reports={"t": {**entry, "length_penalty": tuned}})])
    assert "By run step-00000001, with the length penalty 1.2, which was chosen on the dev set:" in text
    (results,) = front_matter(text)[0]["model-index"][0]["results"]
    assert results["metrics"][0]["args"] == {"signature": "s", "length_penalty": 1.2}


def test_a_card_knows_every_metric_of_the_report():
    assert tuple(LABELS) == METRICS


@pytest.mark.parametrize("damaged", ["{", "[]", '{"sets": {"a": 3}}', '{"sets": {"a": {"bleu": 3, "models": 1}}}'])
def test_a_damaged_report_takes_no_card_away(tmp_path, damaged):
    one = experiment(tmp_path / "run", reports={})
    (one.reports_path / "report.json").write_text(damaged)
    assert "# m\n" in card([one])


@pytest.mark.parametrize("licence", ["", " ", "a\nb", 3])
def test_a_licence_is_a_line_of_text(tmp_path, licence):
    with pytest.raises(ConfigError, match=r"data\.licence"):
        experiment(tmp_path / "run", licence=licence)


def test_plain_text_is_no_markup():
    assert escape_markdown("a|b\n_c_ snake_case <i>") == "a\\|b \\_c\\_ snake_case \\<i\\>"
