"""`--normalize-input` through the real command line."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from marks import others_slow, others_soak

from nmt_cli.config.loader import load_config
from nmt_cli.normalization.number_spans import number_spans

SOURCES = ["Where is the red car?", "The house is small.", "", "My car and your car."]
SHOUTED = [line.upper() for line in SOURCES]


def translate(nmt, model: Path, sources: list[str], *options: object) -> list[dict]:
    stdin = "".join(f"{line}\n" for line in sources).encode()
    result = nmt("translate", "--model", model, "--format", "jsonl", *options, stdin=stdin)
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.lines]


def in_capitals(record: dict) -> dict:
    """Return the translation that is expected for the same line in capitals."""
    hypotheses = [one | {"translation": one["translation"].upper()} for one in record["hypotheses"]]
    shouted = {"source": record["source"].upper(), "translation": record["translation"].upper()}
    return record | shouted | {"hypotheses": hypotheses}


@pytest.mark.parametrize(
    "more",
    others_soak(
        (), ("--alignment", "hard"), ("--alignment", "soft"), ("--n-best", "2"), ("--sample",), ("--max-source-pieces",)
    ),
)
def test_a_line_in_capitals_is_translated_as_in_ordinary_case_and_written_in_capitals(
    nmt, model: Path, tmp_path: Path, more
):
    if more == ("--max-source-pieces",):
        more = ()
        model = with_decoding(model, tmp_path / "short", "max_source_pieces: 250", "max_source_pieces: 4")
    usual = translate(nmt, model, SOURCES, "--normalize-input", *more)
    assert translate(nmt, model, SHOUTED, "--normalize-input", *more) == [in_capitals(record) for record in usual]
    assert usual == translate(nmt, model, SOURCES, "--keep-input", *more)
    assert translate(nmt, model, SHOUTED, *more) == translate(nmt, model, SHOUTED, "--keep-input", *more)


def test_what_has_no_pieces_gives_an_empty_line_though_it_looks_like_a_sign(nmt, model: Path):
    void = b"\xe2\x80\x8b\n\xef\xbb\xbf \n\x01\n\xe2\x80\x8e\n \n\n"
    result = nmt("translate", "--model", model, "--normalize-input", stdin=void)
    assert (result.code, result.out) == (0, b"\n" * 6)


def with_decoding(model: Path, directory: Path, before: str, after: str) -> Path:
    """A copy of a model whose configuration has another line."""
    if not directory.exists():
        shutil.copytree(model, directory)
        text = (directory / "config.yaml").read_text(encoding="utf-8")
        assert text.count(before) == 1
        (directory / "config.yaml").write_text(text.replace(before, after), encoding="utf-8")
    return directory


def test_the_configuration_of_a_model_adapts_unless_the_command_says_otherwise(nmt, model: Path, tmp_path: Path):
    adapting = with_decoding(model, tmp_path / "adapting", "normalize_input: false", "normalize_input: true")
    assert translate(nmt, adapting, SHOUTED) == translate(nmt, model, SHOUTED, "--normalize-input")
    assert translate(nmt, adapting, SHOUTED, "--keep-input") == translate(nmt, model, SHOUTED)
    assert load_config(model / "config.yaml").decoding.normalize_input is False


def test_names_of_earlier_versions_go_on_working(nmt, model: Path, tmp_path: Path):
    """Without being shown in the help."""
    earlier = with_decoding(model, tmp_path / "earlier", "normalize_input: false", "adapt_writing: true")
    now = translate(nmt, model, SHOUTED, "--normalize-input")
    assert now != translate(nmt, model, SHOUTED)
    assert translate(nmt, model, SHOUTED, "--adapt-writing") == translate(nmt, earlier, SHOUTED) == now
    assert translate(nmt, earlier, SHOUTED, "--keep-writing") == translate(nmt, model, SHOUTED)
    config = tmp_path / "earlier" / "config.yaml"
    assert not load_config(config, ["decoding.adapt_writing=false"]).decoding.normalize_input
    assert "writing" not in nmt("translate", "--help").out.decode()


def test_a_key_under_both_of_its_names_is_refused_where_they_differ(nmt, model: Path, tmp_path: Path):
    both = "normalize_input: false\n  adapt_writing: "
    wrong = with_decoding(model, tmp_path / "wrong", "normalize_input: false", both + "true") / "config.yaml"
    result = nmt("check", "--config", wrong)
    assert result.code == 2
    told = f"{wrong}: decoding.adapt_writing: is an older name of normalize_input, which has another value"
    assert told in result.err
    same = with_decoding(model, tmp_path / "same", "normalize_input: false", both + "false") / "config.yaml"
    assert load_config(same).decoding.normalize_input is False


def test_tags_placeholders_and_terms_are_those_of_the_line(nmt, model: Path, tmp_path: Path):
    terms = tmp_path / "terms.tsv"
    terms.write_text("Car\tla rose\n", encoding="utf-8")
    (found,) = translate(
        nmt, model, ["WHERE IS <b>THE RED CAR</b> __URL__?"], "--normalize-input", "--markup", "--glossary", terms
    )
    assert found["translation"].count("<b>") == found["translation"].count("</b>") == 1
    assert found["translation"].count("__URL__") == 1
    (use,) = found["glossary"]
    assert (use["term"], use["source"], use["translation"]) == ("CAR", [4, 5], "LA ROSE")
    text = found["translation"].replace("<b>", "").replace("</b>", "")
    assert "LA ROSE" in text
    assert text.replace("__URL__", "").isupper()


def test_a_prefix_is_kept_and_decides_how_the_translation_goes_on(nmt, model: Path, tmp_path: Path):
    prefix = tmp_path / "prefix"
    prefix.write_text("Où est\nLA MAISON\n\n\n", encoding="utf-8")
    found = [one["translation"] for one in translate(nmt, model, SHOUTED, "--normalize-input", "--prefix", prefix)]
    assert found[0].startswith("Où est")
    assert not found[0].isupper()
    assert found[1].startswith("LA MAISON")
    assert found[1].isupper()


def test_a_model_without_a_profile_takes_what_its_tokenizer_tells(nmt, model: Path, tmp_path: Path):
    old = tmp_path / "old"
    shutil.copytree(model, old)
    (old / "writing.json").unlink()
    result = nmt(
        "translate", "--model", old, "--normalize-input", stdin=b"THE HOUSE IS SMALL.\n\xe2\x80\x9cHello\xe2\x80\x9d\n"
    )
    assert result.code == 0
    assert result.err.count("has no writing.json for en-fr (an older model, or a direction that it ") == 1
    assert result.lines[0].isupper()
    (old / "writing.json").write_text("{}", encoding="utf-8")
    result = nmt("translate", "--model", old, "--normalize-input", stdin=b"a\n")
    assert (result.code, result.out) == (2, b"")
    assert f"{old / 'writing.json'}: is damaged; train again, or delete it" in result.err
    assert nmt("translate", "--model", old, stdin=b"a\n").code == 0  # nothing reads it


NUMBERED = {
    "The house 4711 is small.": ["4711"],
    "B12 is a red car, and 3.75 are yours.": ["3.75", "B12"],
    "MY CAR AND 99 CARS.": ["99"],
    "See https://example.org/a?b=12 and 12.": ["12", "https://example.org/a?b=12"],
    "Where is 1 000 000, or R&B?": ["1 000 000", "R&B"],
    "The house is +33 1 23 45 67 89.": ["+33 1 23 45 67 89"],
    "The house is small.": [],
}
"""Lines with their numbers."""


def numbers_of(text: str) -> list[str]:
    return sorted(text[begin:end] for begin, end in number_spans(text))


@pytest.mark.parametrize(
    "more", others_slow(("--n-best", "3"), (), ("--alignment", "hard"), ("--beam-size", "1"), ("--markup",))
)
def test_no_number_is_lost_or_invented(nmt, model: Path, corpus: Path, more):
    """In every hypothesis, whatever the model knows of digits: it has seen none."""
    assert not any(map(str.isdecimal, (corpus / "train.fr").read_text(encoding="utf-8")))
    found = translate(nmt, model, list(NUMBERED), "--normalize-input", *more)
    for record, numbers in zip(found, NUMBERED.values(), strict=True):
        assert [numbers_of(one["translation"]) for one in record["hypotheses"]] == [numbers] * len(record["hypotheses"])
    kept = translate(nmt, model, list(NUMBERED), "--keep-input", *more)
    assert any(numbers_of(one["translation"]) != numbers for one, numbers in zip(kept, NUMBERED.values(), strict=True))
    assert kept[-1] == found[-1]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        # The letters of words are exchanged, doubled or left out; the second line has two such words.
        (
            ["The house is small.", "Where is the small house?", "MY HOUSE IS SMALL."],
            ["The hosue is small.", "Where is the smmall huose?", "MY HOUSEE IS SMALL."],
        ),
        (
            ["Where is the red car?", "The house is small.", "My car and your car."],
            ["WHERE is the RED car?", "The HOUSE IS small.", "My Car And Your Car."],
        ),
    ],
    ids=["typing errors", "stressed words and a title"],
)
def test_odd_words_are_read_as_usual_and_alignments_are_those_of_the_line(nmt, model: Path, right, wrong):
    options = ("--normalize-input", "--alignment", "soft")
    found, expected = translate(nmt, model, wrong, *options), translate(nmt, model, right, *options)
    assert [one | {"source": two["source"]} for one, two in zip(found, expected, strict=True)] == expected
    kept = translate(nmt, model, wrong, "--keep-input", "--alignment", "soft")
    assert all(one["alignment"] != two["alignment"] for one, two in zip(kept, expected, strict=True))


@pytest.mark.parametrize(
    "more", others_slow(("--alignment", "soft", "--confidence"), (), ("--n-best", "2"), ("--markup",))
)
def test_signs_around_a_line_come_back_around_its_translation(nmt, model: Path, more):
    lines = ["The house is small.", "Where is the red car?", "My car and your car"]
    signs = [("", " 😀"), ("(", ")"), ("👉 * ", " :) ❤️")]
    usual = translate(nmt, model, lines, "--normalize-input", *more)
    within = [f"{before}{line}{after}" for line, (before, after) in zip(lines, signs, strict=True)]
    found = translate(nmt, model, [*within, "😀"], "--normalize-input", *more)
    for record, one, (before, after) in zip(found, usual, signs, strict=False):
        for made, plain in zip(record["hypotheses"], one["hypotheses"], strict=True):
            assert made["translation"] == f"{before}{plain['translation']}{after}"
            assert made["score"] == plain["score"]
            words = made["translation"].split()
            assert {len(made.get(key) or words) for key in ("word_confidence", "alignment")} == {len(words)}
    assert found[3]["translation"] == "😀"
    kept = translate(nmt, model, within, "--keep-input", *more)
    assert any(one["translation"] != two["translation"] for one, two in zip(kept, found, strict=False))


@pytest.mark.parametrize(
    "more", others_slow(("--alignment", "soft", "--confidence"), (), ("--n-best", "2"), ("--markup",))
)
def test_signs_within_a_line_come_back_within_its_translation(nmt, model: Path, more):
    lines = ["Where is 😀 the red car?", "The *red* car is new.", "My ~car is red.", "My car is red 😀.", "My car."]
    plain = ["".join(one for one in line if one not in "😀*~").replace("  ", " ").replace(" .", ".") for line in lines]
    usual = translate(nmt, model, plain, "--normalize-input", *more)
    found = translate(nmt, model, lines, "--normalize-input", *more)
    for line, record, one in zip(lines, found, usual, strict=True):
        for made, other in zip(record["hypotheses"], one["hypotheses"], strict=True):
            words = made["translation"].split()
            kept = "".join(letter for letter in made["translation"] if letter not in "😀*~")
            assert kept.split() == other["translation"].split()
            assert made["score"] == other["score"]
            assert [letter for letter in made["translation"] if letter in "😀*~"] == [c for c in line if c in "😀*~"]
            assert {len(made.get(key) or words) for key in ("word_confidence", "alignment")} == {len(words)}
        assert record.keys() == one.keys()
    alone = [translate(nmt, model, [line], "--normalize-input", *more)[0] for line in lines]
    assert [one | {"id": 0} for one in found] == alone
    aligned = translate(nmt, model, lines, "--normalize-input", *more, "--alignment", "hard")
    assert [one["translation"] for one in aligned] == [one["translation"] for one in found]


def test_a_number_in_a_prefix_or_a_term_counts_and_is_not_listed(nmt, model: Path, tmp_path: Path):
    terms, prefix = tmp_path / "terms.tsv", tmp_path / "prefix"
    terms.write_text("car 5\tla rose\n", encoding="utf-8")
    prefix.write_text("Le 4711 \n\n", encoding="utf-8")
    lines = ["The house 4711 is 88.", "My car 5 and 6."]
    found = translate(nmt, model, lines, "--normalize-input", "--glossary", terms, "--prefix", prefix)
    assert [numbers_of(record["translation"]) for record in found] == [["4711", "88"], ["6"]]
    assert [[use["term"] for use in record["glossary"]] for record in found] == [[], ["car 5"]]


def test_samples_and_models_that_do_not_tell_of_numbers_leave_them_to_the_model(nmt, model: Path, tmp_path: Path):
    lines = list(NUMBERED)[:1]
    terms = tmp_path / "terms.tsv"
    terms.write_text("bicycle\tle vélo\n", encoding="utf-8")
    for options in (("--sample", "--seed", "3"), ("--glossary", terms, "--glossary-weight", "2")):
        assert translate(nmt, model, lines, "--normalize-input", *options) == translate(nmt, model, lines, *options)
    old = tmp_path / "old"
    shutil.copytree(model, old)
    profile = json.loads((old / "writing.json").read_text())
    del profile["rewritten_numbers"], profile["kept_numbers"]
    (old / "writing.json").write_text(json.dumps(profile))
    assert translate(nmt, old, lines, "--normalize-input") == translate(nmt, old, lines, "--keep-input")


def test_the_model_reads_a_number_that_it_knows_in_the_place_of_another(nmt, model: Path, tmp_path: Path):
    """All is as if the line had that number: translation, alignment, confidence and scores."""
    taught = tmp_path / "taught"
    shutil.copytree(model, taught)
    profile = json.loads((taught / "writing.json").read_text())
    (taught / "writing.json").write_text(json.dumps(profile | {"kept_numbers": ["12", "7"]}))
    options = ("--normalize-input", "--n-best", "2", "--alignment", "soft")
    lines = ["The house 5678 is small.", "MY CAR 3 AND 45 CARS AND YOUR 6."]
    known = ["The house 12 is small.", "MY CAR 7 AND 12 CARS AND YOUR 6."]
    found, expected = (translate(nmt, taught, own, *options) for own in (lines, known))
    for one, other, numbers in zip(found, expected, ({"12": "5678"}, {"7": "3", "12": "45"}), strict=True):
        assert {number for text in numbers.values() for number in numbers_of(text)} <= set(
            numbers_of(one["translation"])
        )
        for record in (other, *other["hypotheses"]):
            record["translation"] = re.sub(
                r"\d+", lambda number, numbers=numbers: numbers.get(number[0], number[0]), record["translation"]
            )
        assert other | {"source": one["source"]} == one


def test_a_number_that_the_training_text_writes_otherwise_is_left_to_the_model(
    nmt, config: Path, corpus: Path, tmp_path: Path
):
    for name, line in (("en", "{} has 10 cars and 7 dogs."), ("fr", "{} a dix voitures et 7 chiens.")):
        text = (corpus / f"train.{name}").read_text(encoding="utf-8")
        (tmp_path / f"train.{name}").write_text(
            text + "".join(f"{line}\n".format(who) for who in ("He", "She", "Tom", "Mary")), encoding="utf-8"
        )
    options = [f"data.train.0.source={tmp_path}/train.en", f"data.train.0.target={tmp_path}/train.fr"]
    options += ["training.max_steps=1"]
    result = nmt("train", "--config", config, *(part for one in options for part in ("--set", one)))
    assert result.code == 0, result.err
    kept = json.loads((tmp_path / "run" / "writing.json").read_text())
    assert (kept["kept_numbers"], kept["rewritten_numbers"]) == (["7"], ["10"])


def test_paragraphs_are_adapted_sentence_by_sentence(nmt, model: Path):
    pytest.importorskip("sentencex")
    lines = b"Where is the red car? The house is small.\n"
    result = nmt(
        "translate",
        "--model",
        model,
        "--paragraphs",
        "--normalize-input",
        stdin=b"WHERE IS THE RED CAR? The house is small.\n",
    )
    usual = nmt("translate", "--model", model, "--paragraphs", stdin=lines)
    (one,) = translate(nmt, model, SOURCES[:1])
    first = one["translation"]
    assert usual.out.decode().startswith(first)
    assert result.out.decode() == first.upper() + usual.out.decode()[len(first) :]


def test_forced_scores_keep_the_writing(nmt, model: Path, tmp_path: Path):
    adapting = with_decoding(model, tmp_path / "adapting", "normalize_input: false", "normalize_input: true")
    (tmp_path / "s").write_text("THE HOUSE IS SMALL.\n")
    (tmp_path / "t").write_text("LA MAISON EST PETITE.\n")
    both = [nmt("rescore", tmp_path / "s", tmp_path / "t", "--model", one) for one in (model, adapting)]
    assert both[0].code == 0
    assert both[0].out == both[1].out


@pytest.mark.slow
def test_init_turns_it_on_and_validation_adapts_too(nmt, tmp_path: Path, corpus: Path, config: Path):
    given = [f"--{side}={corpus}/train.{code}" for side, code in (("source", "en"), ("target", "fr"))]
    result = nmt("init", *given, "--source-lang=en", "--target-lang=fr", "-o", tmp_path / "made.yaml")
    assert result.code == 0, result.err
    assert load_config(tmp_path / "made.yaml").decoding.normalize_input is True
    dev = (corpus / "dev.en").read_text(encoding="utf-8").upper().replace(" ", " 4711 ")
    (tmp_path / "dev.en").write_text(dev, encoding="utf-8")
    short = ["training.max_steps=4", "training.validation_freq=4", "decoding.normalize_input=true", "seed=1"]
    options = [*short, f"data.dev.source={tmp_path / 'dev.en'}", f"data.dev.target={corpus / 'dev.fr'}", "data.test=[]"]
    result = nmt("train", "--config", config, *(part for one in options for part in ("--set", one)))
    assert result.code == 0, result.err
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    (validation,) = [one for one in metrics if one["event"] == "validation"]
    found = nmt("translate", tmp_path / "dev.en", "--model", tmp_path / "run", "-o", tmp_path / "out")
    assert found.code == 0, found.err
    scored = nmt("score", tmp_path / "out", "--reference", corpus / "dev.fr", "--json")
    assert json.loads(scored.out)["chrf"]["score"] == pytest.approx(validation["chrf"])


@pytest.mark.slow
def test_marks_of_the_tokenizer_are_no_text(nmt, config: Path, corpus: Path, tmp_path: Path):
    """Fails if the mark of lines that a machine translated, as `nmt improve` writes it, counts as a first word in
    capitals: a model of a text without capitals then got each line with one."""
    plain = (corpus / "train.en").read_text(encoding="utf-8").lower().splitlines()
    marked = [f"<BT> {line}" if number % 3 else line for number, line in enumerate(plain)]
    kept = []
    for name, lines, more in (("plain", plain, ()), ("marked", marked, ("--set", "tokenizer.symbols=[<BT>]"))):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        run = tmp_path / f"run-{name}"
        result = nmt(
            "train", "--config", config, "--set", f"model_dir={run}", "--set", f"data.train.0.source={tmp_path / name}",
            "--set", "training.max_steps=1", *more,
        )  # fmt: skip
        assert result.code == 0, result.err
        kept.append([json.loads((run / file).read_text()) for file in ("writing.json", "languages.json")])
    assert kept[0] == kept[1]
    assert (kept[1][0]["has_case"], kept[1][0]["begins_with_capital"]) == (False, False)


def test_a_glossary_keeps_its_signs_and_the_numbers_beside_its_terms(nmt, model: Path, tmp_path: Path):
    (tmp_path / "terms.tsv").write_text("€\teuro\nC++\tC++\n★car\t★rose\n", encoding="utf-8")
    lines = ["My car is €73 new.", "My C++ is new.", "★car is new."]
    found = translate(nmt, model, lines, "--normalize-input", "--glossary", tmp_path / "terms.tsv")
    texts = [record["translation"] for record in found]
    assert (numbers_of(texts[0]), texts[0].count("euro"), texts[0].count("€")) == (["73"], 1, 0)
    assert (texts[1].count("C++"), texts[1].count("+")) == (1, 2)
    assert (texts[2].count("★rose"), texts[2].count("★")) == (1, 1)
