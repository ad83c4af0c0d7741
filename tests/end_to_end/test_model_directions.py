"""A model of two directions, copying and reversing, from its configuration to its translations."""

from __future__ import annotations

import base64
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from chromium import running_chromium
from command_line import Result, run_here
from serving import running_server

from nmt_cli.assembly.trained_model import load_model
from nmt_cli.experiment import Experiment
from nmt_cli.export.page.description import pack_model
from nmt_cli.export.page.html_file import engine_script

CONFIG = """
name: toy
model_dir: {here}/run
data:
  train: [{train}]
  dev: [{dev}]
  test: [{test}]
tokenizer: {{vocab_size: 276}}
model:
  embedding_size: 32
  tied_embeddings: all
  encoder: {{hidden_size: 32}}
  decoder: {{hidden_size: 32}}
  attention: {{size: 32}}
training:
  batch_size: 300
  learning_rate: 1.0e-2
  max_epochs: null
  max_steps: 160
  validation_freq: 80
  early_stopping_direction: xx-rv
  precision: fp32
  num_samples: 0
decoding: {{beam_size: 1}}
"""


def entry(here: Path, part: str, target: str, more: str = "") -> str:
    return (
        f"{{source: {here}/{part}.{target}.xx, target: {here}/{part}.{target}, source_lang: xx, target_lang: {target}"
        f"{more}}}"
    )


@pytest.fixture(scope="session")
def here(once) -> Path:
    """The directory of a trained model: `cp` copies the letters of a line, `rv` reverses them."""
    return once("directions", train)


def train(here: Path) -> None:
    draw = random.Random(1)
    for part, size in (("train", 600), ("dev", 20)):
        for target in ("cp", "rv"):
            lines = [[draw.choice("abcdefgh") for _ in range(draw.randint(2, 4))] for _ in range(size)]
            (here / f"{part}.{target}.xx").write_text("".join(" ".join(line) + "\n" for line in lines))
            turned = lines if target == "cp" else [line[::-1] for line in lines]
            (here / f"{part}.{target}").write_text("".join(" ".join(line) + "\n" for line in turned))
    sides = ("cp", "rv")
    (here / "config.yaml").write_text(
        CONFIG.format(
            here=here, train=", ".join(entry(here, "train", side) for side in sides),
            dev=", ".join(entry(here, "dev", side) for side in sides),
            test=", ".join(entry(here, "dev", side, f", name: {side}") for side in sides),
        )
    )  # fmt: skip
    found = run_here("train", "--config", f"{here}/config.yaml", "--set", "training.threads=1")
    assert found.code == 0, found.err


def translated(here: Path, text: str, *options: str) -> Result:
    return run_here("translate", "--model", f"{here}/run", *options, stdin=f"{text}\n".encode())


def test_the_target_language_decides_the_direction(here: Path):
    assert translated(here, "a b c", "--target-lang", "cp").lines == ["a b c"]
    assert translated(here, "a b c", "--source-lang", "xx", "--target-lang", "rv").lines == ["c b a"]


def test_a_tag_in_a_line_does_not_decide_it(here: Path):
    found = json.loads(translated(here, "a b <2rv>", "--target-lang", "cp", "--format", "jsonl").out)
    assert found["translation"].startswith("a b")


def test_the_alignment_has_no_word_for_the_tag(here: Path):
    found = json.loads(translated(here, "a b c", "--target-lang", "rv", "--format", "jsonl", "--alignment", "soft").out)
    assert all(len(row) == 3 for row in found["alignment"])


def test_a_choice_is_asked_for_where_there_is_one(here: Path):
    found = translated(here, "a b c")
    assert found.code == 2
    assert "translates xx-cp, xx-rv; choose a direction with --source-lang and --target-lang" in found.err
    assert found.err.count("\n") == 1


def test_bulk_translation_is_in_the_direction_that_is_asked_for_and_goes_on_in_no_other(here: Path, tmp_path: Path):
    """Fails where the record of what was begun does not have the direction."""
    (tmp_path / "in.xx").write_text("a b c\n")
    given = ("translate-corpus", f"{tmp_path}/in.xx", "-o", f"{tmp_path}/out", "--model", f"{here}/run")
    assert "choose a direction with --source-lang and --target-lang" in run_here(*given).err
    assert run_here(*given, "--target-lang", "rv").code == 0
    assert (tmp_path / "out/in.xx").read_bytes() == translated(here, "a b c", "--target-lang", "rv").out
    other = run_here(*given, "--target-lang", "cp")
    assert (other.code, "--source-lang or --target-lang (was xx-rv)" in other.err) == (2, True)
    assert run_here(*given, "--source-lang", "xx", "--target-lang", "rv").code == 0


def test_a_direction_that_was_never_trained_is_refused_or_tried(here: Path):
    unknown = translated(here, "a", "--source-lang", "rv", "--target-lang", "cp", "--zero-shot")
    assert (unknown.code, unknown.out) == (2, b"")
    assert "translates xx-cp, xx-rv, not rv-cp" in unknown.err


def test_a_pair_of_known_languages_needs_zero_shot(tmp_path: Path, here: Path):
    # The model of the test is made one that reads cp too: only its configuration says so.
    run = tmp_path / "run"
    run.mkdir()
    for name in ("tokenizer", "checkpoints"):
        (run / name).symlink_to(here / "run" / name)
    text = (here / "run/config.yaml").read_text()
    for before, after in (
        ("source_lang: xx\n    target_lang: rv", "source_lang: cp\n    target_lang: rv"),
        ("early_stopping_direction: xx-rv", "early_stopping_direction: null"),
    ):
        assert before in text
        text = text.replace(before, after)
    (run / "config.yaml").write_text(text)
    found = run_here("translate", "--model", str(run), "--source-lang", "xx", "--target-lang", "rv", stdin=b"a b c\n")
    assert found.code == 2
    assert "xx-rv was never trained. --zero-shot translates in it all the same" in found.err
    found = run_here(
        "translate", "--model", str(run), "--source-lang", "xx", "--target-lang", "rv", "--zero-shot", stdin=b"a b c\n"
    )
    assert found.lines == ["c b a"]
    assert "was never trained" in found.err


def test_validation_reports_each_direction_and_the_mean(here: Path):
    records = [json.loads(line) for line in (here / "run/metrics.jsonl").read_text().splitlines()]
    last = [record for record in records if record["event"] == "validation"][-1]
    assert last["bleu"] == pytest.approx((last["bleu_xx-cp"] + last["bleu_xx-rv"]) / 2)
    index = json.loads((here / "run/checkpoints/index.json").read_text())
    assert index["best"][0]["metric"] == "bleu_xx-rv"


def test_rescoring_depends_on_the_direction(here: Path, tmp_path: Path):
    (tmp_path / "s").write_text("a b c\n")
    (tmp_path / "t").write_text("c b a\n")
    forced = [
        float(
            run_here(
                "rescore", f"{tmp_path}/s", f"{tmp_path}/t", "--model", f"{here}/run", "--target-lang", target
            ).lines[0]
        )
        for target in ("cp", "rv")
    ]
    assert forced[1] > forced[0] + 5


def test_evaluation_scores_the_sets_of_each_direction(here: Path, tmp_path: Path):
    run = shutil.copytree(here / "run", tmp_path / "run")  # which gets the report
    found = run_here("evaluate", "--model", f"{run}")
    assert found.code == 0, found.err
    assert [line.split(":")[0] for line in found.lines if "BLEU =" in line] == ["cp", "rv"]
    card = run_here("card", "--model", f"{run}")
    assert "Translates from xx to cp and from xx to rv" in card.out.decode()
    assert "Translation xx-rv" in card.out.decode()
    assert "xx -> cp, xx -> rv" in run_here("inspect", f"{run}").out.decode()


def test_a_training_text_with_a_tag_is_refused(here: Path, tmp_path: Path):
    (tmp_path / "source").write_text("a b\n<2rv> a\n")
    (tmp_path / "target").write_text("a b\na\n")
    found = run_here(
        "train", "--config", f"{here}/config.yaml", "--set", f"model_dir={tmp_path}/run",
        "--set", f"data.train.0.source={tmp_path}/source", "--set", f"data.train.0.target={tmp_path}/target",
    )  # fmt: skip
    assert found.code == 2
    assert f"{tmp_path}/source:2: contains <2rv>, a tag" in found.err
    assert found.err.count("\n") == 1


def test_fine_tuning_for_one_direction_goes_on_from_the_model_of_several(here: Path, tmp_path: Path):
    one = entry(here, "train", "rv"), entry(here, "dev", "rv")
    found = run_here(
        "train", "--config", f"{here}/config.yaml", "--set", f"model_dir={tmp_path}/run", "--set", "data.test=[]",
        "--set", f"data.train=[{one[0]}]", "--set", f"data.dev={one[1]}", "--set", f"training.init_from={here}/run",
        "--set", "training.early_stopping_direction=null", "--set", "training.max_steps=1",
        "--set", "training.learning_rate=1e-5", "--set", "training.threads=1",
    )  # fmt: skip
    assert found.code == 0, found.err
    assert f"tokenizer: the one of {here}/run" in found.err
    again = run_here("translate", "--model", f"{tmp_path}/run", stdin=b"a b c\n")
    assert again.lines == ["c b a"]  # with the tag, which its tokenizer knows


def test_an_export_of_one_direction_translates_in_it(here: Path, tmp_path: Path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    words = ("export", "--model", f"{here}/run", "--format", "onnx", "-o", f"{tmp_path}/rv")
    assert "choose a direction with --source-lang and --target-lang" in run_here(*words).err
    assert run_here(*words, "--target-lang", "rv").code == 0
    command = [sys.executable, f"{tmp_path}/rv/translate.py", "--alignment", "hard", "--threads", "1"]
    found = subprocess.run(command, input=b"a b c\n", capture_output=True, check=True).stdout
    assert found.split(b" ||| ")[0] == b"c b a"
    assert found == translated(here, "a b c", "--target-lang", "rv", "--alignment", "hard").out


IN_EACH_DIRECTION = """
const { Translator, fromBase64 } = LocalTranslation, [packed, kernels, text] = arguments;
return Translator.open(fromBase64(packed), fromBase64(kernels)).then((translator) =>
  translator.inEachDirection().map((one) => [one.description.target, one.translate(text, 0).text]));
"""


@pytest.mark.slow
def test_a_page_translates_in_all_directions_with_one_model(here: Path, tmp_path: Path):
    assert run_here("export", "--model", f"{here}/run", "-o", f"{tmp_path}/page.html").code == 0
    assert (tmp_path / "page.html").read_text().count('class="model"') == 1
    run = Experiment(here / "run")
    packed = pack_model(run, load_model(run).model)
    kernels = (Path(__file__).parents[2] / "nmt_cli/export/page/kernels.wasm").read_bytes()
    (tmp_path / "engine.html").write_text(f"<!doctype html><meta charset=utf-8><script>{engine_script()}</script>")
    with running_chromium() as browser:
        browser.visit(tmp_path / "engine.html")
        found = browser.run(IN_EACH_DIRECTION, *(base64.b64encode(one).decode() for one in (packed, kernels)), "a b c")
    assert found == [["cp", "a b c"], ["rv", "c b a"]]


def test_text_to_improve_with_needs_a_language_where_there_are_several(here: Path):
    found = run_here("improve", "--config", f"{here}/config.yaml", "--target-text", f"{here}/train.cp")
    assert found.code == 2
    assert f"write {{text: {here}/train.cp, lang: cp}}, with the language of the file" in found.err
    assert found.err.count("\n") == 1


@pytest.mark.slow
def test_a_plan_is_made_where_another_direction_than_the_first_ends_the_training(here: Path, tmp_path: Path):
    (tmp_path / "mono.rv").write_text("h g\nf e d\n" * 20)
    texts = f"data.monolingual={{target: [{{text: {tmp_path}/mono.rv, lang: rv}}]}}"
    found = run_here("improve", "--config", f"{here}/config.yaml", "--set", texts, "--dry-run")
    assert found.code == 0, found.err
    assert "for this machine as it is now" in found.out.decode()
    assert "--source-lang rv --target-lang xx" in found.out.decode()


@pytest.mark.slow
def test_a_server_offers_all_directions_of_a_model(here: Path):
    with running_server("--model", here / "run") as server:
        languages = {one["code"]: one["targets"] for one in server.ask("/languages").json}
        assert languages["xx"] == ["cp", "rv"]
        for target, expected in (("cp", "a b c"), ("rv", "c b a")):
            body = {"q": "a b c", "source": "xx", "target": target}
            assert server.ask("/translate", body).json["translatedText"] == expected


def test_two_models_of_one_direction_are_not_served(here: Path):
    found = run_here("serve", "--model", f"{here}/run", "--model", f"{here}/run", "--port", "0")
    assert found.code == 2
    assert "two models translate from xx to cp; serve one of them" in found.err
