"""`nmt init --direction`: what it writes, and what it refuses."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from command_line import run_here

from nmt_cli.config.loader import load_config


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two tables, en-fr and en-vi, in which half of the English sentences are the same."""
    draw = random.Random(1)
    words = [f"w{number}" for number in range(300)]
    english = [" ".join(draw.choice(words) for _ in range(5)) for _ in range(1_500)]
    for language, chosen in (("fr", english[:1_000]), ("vi", english[500:])):
        rows = [f"{text}\t{' '.join(language + word for word in text.split())}\n" for text in chosen]
        (tmp_path / f"{language}.tsv").write_text("".join(rows))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_no_dev_sentence_stands_in_any_training_text(here: Path):
    found = run_here("init", "--direction", "en-fr=fr.tsv", "--direction", "en-vi=vi.tsv", "--both", "-o", "m.yaml")
    assert found.code == 0, found.err
    data = load_config(here / "m.yaml").data
    assert [str(direction) for direction in data.directions] == ["en-fr", "en-vi", "fr-en", "vi-en"]
    assert data.corpus_temperature == 5.0
    assert [data.direction_of(dev) for dev in data.dev_sets] == list(data.directions)
    trained: dict[str, set[str]] = {}
    held_out: dict[str, set[str]] = {}
    for texts, sentences in ((data.train, trained), (data.dev_sets, held_out)):
        for text in texts:
            for language, path in zip(data.direction_of(text), (text.source, text.target), strict=True):
                sentences.setdefault(language, set()).update(Path(path).read_text().splitlines())
    assert {language: len(lines) for language, lines in held_out.items()} == {"en": 100, "fr": 50, "vi": 50} or (
        len(held_out["en"]) < 100  # the same sentence was drawn of both
    )
    for language, lines in held_out.items():
        assert not lines & trained[language]
    # Sentences of the other dev set were taken out too.
    assert sum(len(Path(text.source).read_text().splitlines()) for text in data.train[:2]) < 2_000 - 100


def test_a_model_of_both_directions_can_be_checked(here: Path):
    found = run_here("init", "--direction", "en-fr=fr.tsv", "--both", "-o", "m.yaml")
    assert found.code == 0, found.err
    checked = run_here("check", "--config", "m.yaml", "--no-measure")
    assert checked.code == 0, checked.err
    shown = checked.out.decode()
    assert all(f"train {number} {way}" in shown for number, way in ((1, "en-fr"), (2, "fr-en")))
    assert all(f"dev {way}" in shown for way in ("en-fr", "fr-en"))
    assert "other training text" not in shown
    # A dev set that was not taken out of the text of the other direction.
    pairs = {
        side: next((here / "m.data").glob(f"*train*.{side}")).read_text().splitlines()[:2] for side in ("en", "fr")
    }
    for side, lines in pairs.items():
        (here / f"dev.{side}").write_text("".join(f"{line}\n" for line in [lines[0], f"n {lines[1]}"]))
    text = "[{name: own, source: dev.fr, target: dev.en, source_lang: fr, target_lang: en}]"
    checked = run_here("check", "--config", "m.yaml", "--no-measure", "--set", f"data.test={text}")
    assert checked.code == 0, checked.err
    assert "a side is in other training text           1  dev.fr:1\n" in checked.out.decode()
    assert "a side is in the training text of another direction" in checked.out.decode()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--direction", "en-en=fr.tsv"], "--direction en-en=fr.tsv: has the same language twice"),
        (["--direction", "en-fr=fr.tsv", "--direction", "en-fr=vi.tsv"], "--direction en-fr: is given twice"),
        (["--direction", "en-fr=fr.tsv", "--direction", "fr-en=fr.tsv", "--both"], "is given twice, or once and the"),
        (["--direction", "en-fr=fr.tsv"], "is the only one. Give further ones, or --both"),
        (["--direction", "fr.tsv"], "must be XX-YY=FILE[,FILE]..., such as vi-en=vie-eng.zip"),
        (["--direction", "en-fr=none.tsv", "--both"], "none.tsv: there is no such file"),
        (["--direction", "en-fr=fr.tsv", "--pairs", "fr.tsv"], "--pairs: --direction names the languages"),
        (["--both"], "--both: goes with --direction"),
        (["--pairs", "fr.tsv"], "give --source-lang and --target-lang"),
    ],
)
def test_what_is_wrong_is_said_in_one_message(here: Path, options: list[str], message: str):
    before = {*here.iterdir()}
    found = run_here("init", *options, "-o", "m.yaml")
    assert (found.code, found.out) == (2, b"")
    assert message in found.err
    assert found.err.count("\n") == 1
    assert {*here.iterdir()} == before


def test_an_output_with_the_name_of_the_directory_of_its_text_is_refused(here: Path):
    found = run_here("init", "--direction", "en-fr=fr.tsv", "--direction", "en-vi=vi.tsv", "-o", "m.data")
    assert found.code == 2
    assert "m.data: is also the name of the directory for the text held out. Choose another ending" in found.err
    assert not (here / "m.data").exists()


def test_a_tokenizer_without_the_tags_of_the_directions_is_refused(here: Path):
    """Else the model would not be told the target language."""
    found = run_here("init", "--direction", "en-fr=fr.tsv", "--direction", "en-vi=vi.tsv", "-o", "m.yaml")
    assert found.code == 0, found.err
    misspelt = (here / "m.yaml").read_text().replace("target_lang: vi", "target_lang: vn")
    (here / "misspelt.yaml").write_text(misspelt)
    assert run_here("tokenizer", "--config", "misspelt.yaml").code == 0
    for changes, key in (((), "data.train"), (("--set", "data.source_tags=true"), "data.source_tags")):
        configured = "m.yaml" if key == "data.train" else "misspelt.yaml"
        found = run_here("train", "--config", configured, "--dry-run", *changes)
        assert found.code == 2
        assert f"its tokenizer was trained with another configuration; these keys differ: {key}." in found.err
