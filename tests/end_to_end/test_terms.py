"""`nmt translate --glossary` through the real command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from marks import others_soak

SOURCES = ["Where is the red car?", "The house is small.", "", "My car and your car.", "He sells <b>the car</b>."]


@pytest.fixture
def terms(tmp_path: Path) -> Path:
    path = tmp_path / "terms.tsv"
    path.write_text("# terms\ncar\tla rose|le train\nbicycle\tle vélo\n", encoding="utf-8")
    return path


def translate(nmt, model: Path, sources: list[str], *options: object) -> list[dict]:
    stdin = "".join(f"{line}\n" for line in sources).encode()
    result = nmt("translate", "--model", model, "--format", "jsonl", *options, stdin=stdin)
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.lines]


@pytest.mark.parametrize(
    "more",
    others_soak(
        (), ("--alignment", "hard"), ("--markup",), ("--n-best", "2"), ("--copy-unknown",), ("--beam-size", "2")
    ),
)
def test_each_occurrence_is_translated_once_and_listed(nmt, model: Path, terms: Path, more):
    found = translate(nmt, model, SOURCES, "--glossary", terms, *more)
    assert [len(record["glossary"]) for record in found] == [1, 0, 0, 2, 1]
    for record in found:
        text = record["translation"].replace("<b>", "").replace("</b>", "")
        forms = sum(f" {text} ".count(form) for form in ("la rose", "le train"))
        assert forms == len(record["glossary"])
        for use in record["glossary"]:
            assert use["term"] == "car"
            assert " ".join(text.split()[slice(*use["target"])]) == use["translation"]
    assert [use["source"] for use in found[3]["glossary"]] == [[1, 2], [4, 5]]
    plain = translate(nmt, model, SOURCES, *more)
    assert [found[place]["translation"] for place in (1, 2)] == [plain[place]["translation"] for place in (1, 2)]


@pytest.mark.slow
def test_a_translation_does_not_depend_on_the_lines_around_it(nmt, model: Path, terms: Path):
    whole = translate(nmt, model, SOURCES * 4, "--glossary", terms)
    small = translate(nmt, model, SOURCES[::-1] * 4, "--glossary", terms, "--batch-tokens", "12")[::-1]
    assert [record["translation"] for record in whole] == [record["translation"] for record in small]


def test_a_prefix_and_an_ensemble_go_with_a_glossary(nmt, model: Path, terms: Path, tmp_path: Path):
    prefix = tmp_path / "prefix"
    prefix.write_text("Où est la rose \nLa mai\n\nMon\n\n", encoding="utf-8")
    found = translate(nmt, model, SOURCES, "--glossary", terms, "--prefix", prefix, "--model", model)
    assert found[0]["translation"].startswith("Où est la rose ")
    assert found[0]["translation"].count("la rose") == 1
    assert found[0]["glossary"] == [{"term": "car", "source": [4, 5], "translation": "la rose", "target": [2, 4]}]
    assert found[1]["translation"].startswith("La mai")
    assert len(found[3]["glossary"]) == 2


@pytest.mark.usefixtures("echoed_dev_set")
@pytest.mark.parametrize("more", others_soak((), ("--alignment", "soft"), ("--n-best", "2")))
def test_a_prefix_that_only_the_pieces_of_a_term_can_spell_is_kept(
    nmt, config: Path, terms: Path, tmp_path: Path, more
):
    """Characters have one spelling only; a term is said twice if the source has it twice."""
    options = ("tokenizer.model_type=char", "tokenizer.vocab_size=320", "training.max_steps=2")
    result = nmt("train", "--config", config, *(word for option in options for word in ("--set", option)))
    assert result.code == 0, result.err
    prefix = tmp_path / "prefix"
    prefix.write_text("la rose\nla\nle train\nle train et la rose\n", encoding="utf-8")
    sources = ["the car the car", "the car", "the car is a car", "car"]
    found = translate(nmt, tmp_path / "run", sources, "--glossary", terms, "--prefix", prefix, *more)
    for record, begun in zip(found, prefix.read_text(encoding="utf-8").splitlines(), strict=True):
        assert record["translation"].startswith(begun)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\tc\td\n", ":1: has 4 columns instead of 2 or 3."),
        ("a\tb\na\tc\n", ":2: 'a' has another translation than in line 1."),
    ],
)
def test_a_wrong_glossary_is_refused(nmt, model: Path, tmp_path: Path, text: str, message: str):
    path = tmp_path / "terms.tsv"
    path.write_text(text, encoding="utf-8")
    result = nmt("translate", "--model", model, "--glossary", path, stdin=b"a\n")
    assert (result.code, result.out) == (2, b"")
    assert f"{path}{message}" in result.err
    assert "Traceback" not in result.err


def test_sampling_and_a_weight_without_a_glossary_are_refused(nmt, model: Path, terms: Path):
    result = nmt("translate", "--model", model, "--glossary", terms, "--sample", stdin=b"a\n")
    assert result.code == 2
    assert "--glossary: constrains a search, so it does not go with --sample; leave out one of them" in result.err
    result = nmt("translate", "--model", model, "--glossary-weight", "2", stdin=b"a\n")
    assert result.code == 2
    assert "--glossary-weight: needs --glossary FILE.tsv, whose terms it makes likelier" in result.err
