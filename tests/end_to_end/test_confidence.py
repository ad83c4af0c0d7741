"""`--confidence` through the real command line: with everything that it goes with, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from marks import others_soak


@pytest.fixture(scope="module")
def own(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the model, whose calibration may be changed."""
    return Path(shutil.copytree(model, tmp_path_factory.mktemp("own") / "run"))


def translated(nmt, *arguments, stdin=b""):
    result = nmt("translate", *arguments, "--confidence", "--format", "jsonl", stdin=stdin)
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.lines]


def assert_confident(record):
    """Every translation has a probability, and so has each of its words."""
    for one in (record, *record["hypotheses"]):
        assert 0.0 <= one["confidence"] <= 1.0
        assert len(one["word_confidence"]) == len(one["translation"].split())
        assert all(0.0 <= value <= 1.0 for value in one["word_confidence"])


def test_training_ends_with_a_calibration_that_evaluate_gives_again(nmt, own: Path):
    written = (own / "confidence.json").read_bytes()
    (own / "confidence.json").unlink()
    result = nmt("evaluate", "--calibrate", "--model", own)
    assert result.code == 0, result.err
    assert (own / "confidence.json").read_bytes() == written
    (line,) = result.lines
    assert line.startswith("confidence: ")
    assert "area under the ROC curve 0." in line


@pytest.mark.parametrize(
    "options",
    others_soak(
        ("--n-best", "3"),
        (),
        ("--beam-size", "1"),
        ("--alignment", "soft"),
        ("--copy-unknown",),
        ("--precision", "int8"),
        ("--batch-tokens", "60"),
    ),
)
def test_each_word_has_a_confidence_and_the_translation_stays_what_it_is(nmt, model: Path, corpus: Path, options):
    plain = nmt("translate", corpus / "test.en", "--model", model, "--format", "jsonl", *options)
    records = translated(nmt, corpus / "test.en", "--model", model, *options)
    assert len(records) == 30
    for record in records:
        assert_confident(record)
        for one in (record, *record["hypotheses"]):
            del one["confidence"], one["word_confidence"]
    assert records == [json.loads(line) for line in plain.lines]


@pytest.mark.slow
def test_confidence_does_not_depend_on_other_lines(nmt, model: Path, corpus: Path):
    together = translated(nmt, corpus / "test.en", "--model", model)
    backwards = b"\n".join((corpus / "test.en").read_bytes().split(b"\n")[:-1][::-1]) + b"\n"
    for options in ((), ("--batch-tokens", "60")):
        others = translated(nmt, "--model", model, *options, stdin=backwards)[::-1]
        for one, other in zip(together, others, strict=True):
            assert one["word_confidence"] == pytest.approx(other["word_confidence"], abs=1e-4)
            assert one["confidence"] == pytest.approx(other["confidence"], abs=1e-4)


def test_lines_of_every_kind_keep_their_place(nmt, model: Path):
    long = b"Where is the car? " * 120
    records = translated(nmt, "--model", model, stdin=b"\n \t\nWhere is the car?\n" + long + b"\n\xff\n")
    assert len(records) == 5
    for record in records:
        assert_confident(record)
    assert [record["confidence"] for record in records[:2]] == [1.0, 1.0]  # nothing is right for nothing
    assert records[2]["word_confidence"]


def test_tags_and_placeholders_have_the_confidence_of_their_words(nmt, model: Path):
    line = b'<a href="x y">Where is</a> the <b>red</b> car of __NAME__ and __NAME__?<br/>\n'
    (plain,) = translated(nmt, "--model", model, stdin=b"Where is the red car?\n")
    (tagged,) = translated(nmt, "--model", model, "--markup", stdin=line + b"")
    assert_confident(tagged)
    assert "__NAME__" in tagged["translation"]
    (same,) = translated(nmt, "--model", model, "--markup", stdin=b"<b>Where is the red car?</b>\n")
    assert_confident(same)
    assert same["word_confidence"] == plain["word_confidence"]


@pytest.mark.parametrize(
    "beginning", ["O\u00f9 ", "O", "<b>O\u00f9 est</b>", "a<b>b</b>c", "xyz __NAME__", "O\u00f9 est la m"]
)
@pytest.mark.parametrize("markup", [False, True])
def test_words_of_a_prefix_have_a_confidence_too(nmt, model: Path, tmp_path: Path, beginning, markup):
    (tmp_path / "prefix").write_text(f"{beginning}\n{beginning}\n")
    options = ("--markup",) if markup else ()
    stdin = b"<b>Where is</b> the car of __NAME__?\n\n"
    for record in translated(nmt, "--model", model, "--prefix", tmp_path / "prefix", *options, stdin=stdin):
        assert_confident(record)
        assert record["translation"].startswith(beginning)


def test_an_ensemble_has_a_confidence_by_the_calibration_of_the_first(nmt, model: Path, corpus: Path):
    alone = translated(nmt, corpus / "test.en", "--model", model)
    twice = translated(nmt, corpus / "test.en", "--model", model, "--model", model)
    for one, other in zip(alone, twice, strict=True):
        assert one["translation"] == other["translation"]
        assert one["word_confidence"] == pytest.approx(other["word_confidence"], abs=1e-4)


def test_a_document_has_a_report_beside_it(nmt, model: Path, tmp_path: Path):
    page = tmp_path / "page.html"
    page.write_text("<p>Where is the <b>car</b>? The car is red.</p><p>The car is red.</p>")
    out = tmp_path / "page.fr.html"
    without = nmt("translate", page, "-o", out, "--model", model)
    assert without.code == 0, without.err
    plain = out.read_bytes()
    result = nmt("translate", page, "-o", out, "--model", model, "--confidence")
    assert result.code == 0, result.err
    assert out.read_bytes() == plain
    report = tmp_path / "page.fr.html.confidence.jsonl"
    assert f"confidence of each sentence -> {report}" in result.err
    records = [json.loads(line) for line in report.read_text().splitlines()]
    assert [record["id"] for record in records] == [0, 1]  # the same sentence is translated once
    assert records[1]["source"] == "The car is red."
    for record in records:
        assert_confident(record | {"hypotheses": []})


def test_paragraphs_have_a_report_if_there_is_an_output(nmt, model: Path, tmp_path: Path):
    out = tmp_path / "out"
    result = nmt("translate", "--paragraphs", "--confidence", "--model", model, "-o", out, stdin=b"A car. A red car.\n")
    assert result.code == 0, result.err
    assert len((tmp_path / "out.confidence.jsonl").read_text().splitlines()) == 2
    for output in ((), ("-o", "/dev/stdout")):
        result = nmt("translate", "--paragraphs", "--confidence", "--model", model, *output, stdin=b"A car.\n")
        assert (result.code, result.out) == (2, b"")
        assert "--confidence: for paragraphs it is written to OUT.confidence.jsonl; give -o OUT" in result.err


def test_a_report_does_not_replace_an_input(nmt, model: Path, tmp_path: Path):
    (tmp_path / "out.confidence.jsonl").write_text("A car.\n")
    result = nmt("translate", tmp_path / "out.confidence.jsonl", "--paragraphs", "--confidence", "--model", model,
                 "-o", tmp_path / "out")  # fmt: skip
    assert result.code == 2
    assert "cannot be both input and output" in result.err
    assert (tmp_path / "out.confidence.jsonl").read_text() == "A car.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--confidence: has no place in the format text; add --format jsonl"),
        (("--format", "moses"), "--confidence: has no place in the format moses; add --format jsonl"),
        (("--format", "jsonl", "--sample"), "is, so it does not go with --sample"),
    ],
)
def test_what_confidence_does_not_go_with_is_refused(nmt, model: Path, arguments, message):
    result = nmt("translate", "--model", model, "--confidence", *arguments, stdin=b"a\n")
    assert (result.code, result.out) == (2, b"")
    assert message in result.err


def test_a_model_without_calibration_says_how_to_get_it(nmt, model: Path, tmp_path: Path):
    other = shutil.copytree(model, tmp_path / "run")
    (other / "confidence.json").unlink()
    result = nmt("translate", "--model", other, "--confidence", "--format", "jsonl", stdin=b"a\n")
    assert result.code == 2
    assert "has no confidence.json, so it cannot tell how sure it is. This fits it to the dev set:" in result.err
    assert f": nmt evaluate --calibrate --model {other}\n" in result.err


def test_a_calibration_of_other_weights_is_told(nmt, model: Path):
    result = nmt("translate", "--model", model, "--confidence", "--format", "jsonl", "--checkpoint", "50", stdin=b"a\n")
    named = json.loads((model / "confidence.json").read_text())["fitted_on"]["checkpoint"]
    assert result.code == 0
    told = f"was fitted to other weights ({named}) than those in use (step-00000050)" in result.err
    assert told == (named != "step-00000050")
    result = nmt("translate", "--model", model, "--confidence", "--format", "jsonl", stdin=b"a\n")
    assert "other weights" not in result.err


def test_a_calibration_may_be_fitted_to_other_text(nmt, own: Path, corpus: Path, tmp_path: Path):
    for language in ("en", "fr"):
        (tmp_path / language).write_text((corpus / f"test.{language}").read_text() * 2)
    text = ("--source", tmp_path / "en", "--reference", tmp_path / "fr")
    result = nmt("evaluate", "--calibrate", "--model", own, *text)
    assert result.code == 0, result.err
    kept = json.loads((own / "confidence.json").read_text())
    assert kept["fitted_on"]["lines"] == 60
    for record in translated(nmt, corpus / "test.en", "--model", own):
        assert_confident(record)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--only", "book"), "--only: --calibrate scores no test set; leave one of them out"),
        (("--source", "x"), "--source and --reference belong together"),
        (("--model", "{model}"), "--calibrate: fits one model to one reference; give one --model and one --reference"),
    ],
)
def test_options_that_do_not_go_with_calibrate_are_refused(nmt, model: Path, arguments, message):
    given = [one.format(model=model) for one in arguments]
    result = nmt("evaluate", "--calibrate", "--model", model, *given)
    assert result.code == 2
    assert message in result.err


@pytest.mark.slow
def test_a_dev_set_that_tells_nothing_leaves_no_calibration_and_ends_the_training_well(nmt, config: Path):
    result = nmt("train", "--config", config, "--set", "training.max_steps=1")  # no word is right yet
    assert result.code == 0, result.err
    assert "no confidence.json was written, so translate --confidence is not possible: too few words" in result.err
    assert not (config.parent / "run/confidence.json").exists()
    (config.parent / "run/confidence.json").write_text("{}")
    longer = nmt("train", "--config", config, "--set", "training.max_steps=2")
    message = "confidence.json was not written again, so it still belongs to an earlier checkpoint: too few words"
    assert message in longer.err
    assert (
        "of each are needed. Train longer, or give more text to `nmt evaluate --calibrate --source FILE --reference"
        in longer.err
    )
    again = nmt("train", "--config", config, "--set", "training.max_steps=1")
    assert (again.code, "finished already" in again.err) == (0, True)
    result = nmt("evaluate", "--calibrate", "--model", config.parent / "run")
    assert result.code == 2
    assert "too few words to calibrate confidence: of the translations of 20 lines, " in result.err


def test_a_mistake_of_the_program_in_calibrating_does_not_keep_a_training_from_its_end(nmt, config: Path, monkeypatch):
    monkeypatch.setattr("nmt_cli.assembly.confidence.calibrate", lambda *_, **__: 1 / 0)
    result = nmt("train", "--config", config, "--set", "training.max_steps=1")
    assert result.code == 0, result.err
    warning = "translate --confidence is not possible: ZeroDivisionError: division by zero"
    assert 0 <= result.err.find(warning) < result.err.find("finished: max_steps 1 reached")  # nothing is left to do
    again = nmt("train", "--config", config, "--set", "training.max_steps=1")
    assert (again.code, "finished already" in again.err) == (0, True)


@pytest.mark.slow
def test_one_line_with_words_enough_is_too_little_to_calibrate(nmt, own: Path, corpus: Path, tmp_path: Path):
    source, reference = tmp_path / "en", tmp_path / "fr"
    source.write_text((corpus / "train.en").read_text().replace("\n", " ") + "\n")  # translated in parts
    words = nmt("translate", source, "--model", own).out.decode().split()
    half = len(words) // 2
    reference.write_text(" ".join([*words[:half], *("?" * (len(words) - half))]) + "\n")
    before = (own / "confidence.json").read_bytes()
    result = nmt("evaluate", "--calibrate", "--model", own, "--source", source, "--reference", reference)
    assert result.code == 2, result.err
    assert "nmt: too few lines to calibrate confidence: of the translations of 1 line, only 1 has words" in result.err
    assert (own / "confidence.json").read_bytes() == before


def test_without_a_dev_set_training_says_nothing_of_confidence(nmt, config: Path):
    result = nmt("train", "--config", config, "--set", "training.max_steps=1", "--set", "data.dev=null")
    assert result.code == 0, result.err
    assert "confidence" not in result.err
    result = nmt("evaluate", "--calibrate", "--model", config.parent / "run")
    assert result.code == 2
    assert "names no dev set, which --calibrate needs; give --source and --reference" in result.err


def test_inspect_names_the_calibration(nmt, model: Path):
    assert "confidence   fitted to step-" in nmt("inspect", model).out.decode()
    assert "on 20 lines: " in json.loads(nmt("inspect", model, "--json").out)["confidence"]


def test_the_calibration_is_a_part_of_the_model(nmt, model: Path):
    result = nmt("translate", "--model", model, "-o", model / "confidence.json", stdin=b"a\n")
    assert result.code == 2
    assert "belongs to the model in" in result.err


def test_signs_that_the_model_has_not_read_do_not_count(nmt, model: Path, corpus: Path, tmp_path: Path):
    """Training ended with a traceback where a dev line had one. The slow truth is the same text without signs."""
    own = Path(shutil.copytree(model, tmp_path / "run"))
    config = (own / "config.yaml").read_text(encoding="utf-8")
    (own / "config.yaml").write_text(
        config.replace("normalize_input: false", "normalize_input: true"), encoding="utf-8"
    )
    source, target = ((corpus / f"test.{side}").read_text(encoding="utf-8").splitlines() * 2 for side in ("en", "fr"))
    found = []
    for signed in (source, [f"★ {line.replace(' ', ' 😀 ', 1)}" for line in source]):
        (tmp_path / "en").write_text("".join(f"{line}\n" for line in signed), encoding="utf-8")
        (tmp_path / "fr").write_text("".join(f"{line}\n" for line in target), encoding="utf-8")
        text = ("--source", tmp_path / "en", "--reference", tmp_path / "fr")
        result = nmt("evaluate", "--calibrate", "--model", own, *text)
        assert result.code == 0, result.err
        found.append(json.loads((own / "confidence.json").read_text()))
    assert found[1]["words"] == found[0]["words"]
    assert found[1]["quality"] == found[0]["quality"]
