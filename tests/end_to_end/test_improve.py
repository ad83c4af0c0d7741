"""`nmt improve` through the command line. In the quick tests its stages run in this process."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from command_line import CONFIG, contents, run_here, start_nmt

from nmt_cli.assembly.improvement import _log_dev_scores as compare
from nmt_cli.config.loader import load_config
from nmt_cli.demo import phrasebook
from nmt_cli.improve import child, estimate

NUM_PAIRS = 300


@pytest.fixture
def inside(monkeypatch):
    """Run stages in this process. `inside.fails` names a command that fails; `inside.ran` collects the commands."""

    class Inside:
        fails = ""
        ran: list[str] = []  # noqa: RUF012 (new for each test)

        def run(self, process):
            self.ran.append(process._arguments[0])
            if process._arguments[0] == self.fails:
                return 2
            done = run_here(*process._arguments)
            if process._log is not None:
                process._log.write(done.err.encode() + done.out)
            return done.code

    fixture = Inside()
    fixture.ran = []
    monkeypatch.setattr(child.CommandProcess, "run", lambda process: fixture.run(process))
    return fixture


def write_texts(directory: Path) -> None:
    """A small corpus, text in French with lines that must not be learnt from, and a configuration."""
    book = phrasebook.generate(seed=7, num_train=NUM_PAIRS + 70, num_dev=8, num_test=10)
    phrasebook.write(book, directory / "c")
    for language in ("en", "fr"):
        path = directory / f"c/train.{language}"
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(lines[:NUM_PAIRS]), encoding="utf-8")
        held_out = (directory / f"c/test.{language}").read_text(encoding="utf-8").splitlines(keepends=True)
        text = [*lines[NUM_PAIRS:], *held_out[:5], lines[0], lines[NUM_PAIRS], "\n", "Ã© broken\n"]
        (directory / f"mono.{language}").write_text("".join(text), encoding="utf-8")
    text = CONFIG.format(model_dir=directory / "run", corpus=directory / "c")
    (directory / "config.yaml").write_text(
        text.replace("tokenizer:", f"  monolingual: {{target: [{directory}/mono.fr]}}\ntokenizer:"), encoding="utf-8"
    )


@pytest.fixture
def here(tmp_path: Path) -> Path:
    write_texts(tmp_path)
    return tmp_path


QUICK = ("--set", "training.max_steps=6", "--set", "decoding.max_length_b=2", "--set", "training.ema_decay=0")


def improve(here: Path, *options: str | Path):
    return run_here("improve", "--config", str(here / "config.yaml"), *QUICK, *map(str, options))


def same_file(one: Path, other: Path) -> bool:
    """Return True if both hold the same bytes, or neither is there."""
    return (one.read_bytes() if one.exists() else None) == (other.read_bytes() if other.exists() else None)


@pytest.mark.slow
def test_a_model_of_both_ways_learns_from_what_it_translates_back_itself(here, inside):
    text = (here / "config.yaml").read_text(encoding="utf-8")
    ways = (("en", "fr"), ("fr", "en"))

    def pairs(part: str, one: str, other: str):
        sides = {"source": f"{here}/c/{part}.{one}", "target": f"{here}/c/{part}.{other}"}
        return {**sides, "source_lang": one, "target_lang": other}

    both = {part: [pairs(part, *way) for way in ways] for part in ("train", "dev")}
    texts = {"target": [{"text": f"{here}/mono.fr", "lang": "fr"}]}
    data = {**yaml.safe_load(text), "data": {**both, "monolingual": texts}}
    (here / "config.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
    done = improve(here)
    assert done.code == 0, done.err
    assert inside.ran == ["clean", "clean", "clean", "train", "translate", "clean", "train"]
    assert "nmt translate FILE --model" in done.err
    assert done.err.endswith("--source-lang en --target-lang fr\n")
    result, last = here / "run-improved", here / "run-improved/stages/07-forward/model"
    names = sorted(str(path.relative_to(last)) for path in last.glob("directions/*/*.json"))
    assert "directions/fr-en/writing.json" in names
    assert all(same_file(result / name, last / name) for name in names)
    translated = run_here("translate", "--model", str(result), "--source-lang", "fr", stdin=b"bonjour\n")
    assert (translated.code, len(translated.lines)) == (0, 1), translated.err


def reverse_model(here: Path) -> Path:
    """Train a model from French to English, and return its directory."""
    text = (here / "config.yaml").read_text(encoding="utf-8")
    values = yaml.safe_load(text.replace(f"{here}/run", f"{here}/reverse"))
    data = values["data"]
    del data["monolingual"]
    for pair in (data, data["train"][0], data["dev"]):
        for one, other in (("source", "target"), ("source_lang", "target_lang")):
            if one in pair:
                pair[one], pair[other] = pair[other], pair[one]
    (here / "reverse.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    assert run_here("train", "--config", str(here / "reverse.yaml"), *QUICK).code == 0
    return here / "reverse"


@pytest.mark.slow
def test_a_given_model_translates_the_text_back_and_none_is_trained_for_it(here, inside):
    reverse = reverse_model(here)
    done = improve(here, "--reverse", reverse)
    assert done.code == 0, done.err
    assert f"warning: --reverse {reverse}: this model has 0.00 BLEU on the dev set" in done.err
    assert inside.ran == ["clean", "clean", "translate", "clean", "train"]
    result = here / "run-improved"
    back = result / "stages/03-back-translate/translated.en"
    text = (result / "stages/02-text/text.fr").read_bytes()
    options = ("--beam-size", "5", "--precision", "int8")
    by_hand = run_here("translate", "--model", str(reverse), *options, stdin=text)
    assert back.read_bytes() == by_hand.out
    told = run_here("inspect", str(result)).out.decode()
    assert f"reverse {reverse}" in re.sub(r" +", " ", told)
    assert "joint.model" not in told.partition("improved from")[2].partition("stages")[0]
    card = run_here("card", "--model", str(result)).out.decode()
    assert "from these files, and from what the model `reverse` translated of them" in card
    assert "joint.model" not in card
    changed = improve(here)
    assert (changed.code, "these differ: --reverse" in changed.err) == (2, True), changed.err


@pytest.mark.slow
def test_a_given_model_whose_settings_have_changed_is_not_used_to_go_on(here, inside):
    """Its configuration decides on its translations too."""
    reverse = reverse_model(here)
    inside.fails = "train"
    assert improve(here, "--reverse", os.path.relpath(reverse)).code == 2
    inside.fails, inside.ran = "", []
    config = reverse / "config.yaml"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("length_penalty:", "length_penalty: 0.5 #"), encoding="utf-8")
    refused = improve(here, "--reverse", reverse)
    assert (refused.code, f"{config}: has changed since" in refused.err) == (2, True), refused.err
    config.write_text(text, encoding="utf-8")
    assert improve(here, "--reverse", reverse).code == 0
    assert inside.ran == ["train"]


def test_a_model_that_cannot_translate_back_is_refused(here, inside):
    text = (here / "config.yaml").read_text(encoding="utf-8")
    values = yaml.safe_load(text)
    run, words, both = here / "other", here / "words", here / "both.yaml"
    reversed_values = _of_words(values)
    empty = {**reversed_values, "tokenizer": values["tokenizer"]}
    bare = here / "bare"
    for directory, other in (
        (run, text), (words, yaml.safe_dump(reversed_values)), (bare, yaml.safe_dump(empty)),
    ):  # fmt: skip
        directory.mkdir()
        (directory / "config.yaml").write_text(other.replace(f"{here}/run", str(directory)), encoding="utf-8")
    for given, told in (
        (here / "none", "none: there is no such model directory"),
        (run, "other: translates en-fr, not fr-en"),
        (bare, "there is no checkpoint 'best'"),
        (words, "words: is a model of whole words and writes ⁇ for unknown ones"),
    ):
        refused = improve(here, "--reverse", given)
        assert (refused.code, told in refused.err) == (2, True), refused.err
        assert refused.err.rpartition("nmt: ")[2].startswith("--reverse: "), refused.err
    ways = [{"source_lang": one, "target_lang": other} for one, other in (("en", "fr"), ("fr", "en"))]
    for part in ("train", "dev"):
        sides = [{"source": f"{here}/c/{part}.{way['source_lang']}", "target": f"{here}/c/{part}.{way['target_lang']}"}
                 for way in ways]  # fmt: skip
        values["data"][part] = [side | way for side, way in zip(sides, ways, strict=True)]
    values["data"] = {part: values["data"][part] for part in ("train", "dev")}
    values["data"]["monolingual"] = {"target": [{"text": f"{here}/mono.fr", "lang": "fr"}]}
    both.write_text(yaml.safe_dump(values), encoding="utf-8")
    refused = run_here("improve", "--config", str(both), *QUICK, "--reverse", str(run))
    assert (refused.code, "both ways, and translates back by itself" in refused.err) == (2, True), refused.err
    refused = improve(here, "--reverse", run, "--source-text", here / "mono.en")
    assert (refused.code, "there is none (--target-text FILE)" in refused.err) == (2, True), refused.err
    refused = improve(here, "--reverse", run, "--source-text", here / "mono.en", "--target-text", here / "mono.fr")
    assert (refused.code, "leave out that text, or --reverse" in refused.err) == (2, True), refused.err
    assert inside.ran == []


def _of_words(values):
    """Return a configuration of a model of whole words that translates the other way."""
    data = {**values["data"], "source_lang": "fr", "target_lang": "en"}
    del data["monolingual"]
    return {**values, "data": data, "tokenizer": {**values["tokenizer"], "model_type": "word"}}


@pytest.mark.slow
def test_few_pairs_with_a_parent_and_a_given_reverse_model_need_no_vocabulary_of_their_own(here, inside):
    """Seen to be refused for a vocabulary that no stage would have learned."""
    reverse = reverse_model(here)
    assert run_here("train", "--config", str(here / "config.yaml"), *QUICK).code == 0
    for language in ("en", "fr"):
        lines = (here / f"c/train.{language}").read_text(encoding="utf-8").splitlines(keepends=True)
        (here / f"few.{language}").write_text("".join(lines[:12]), encoding="utf-8")
    few = ("data.train.0.source=" + str(here / "few.en"), "data.train.0.target=" + str(here / "few.fr"))
    child = (*few, f"training.init_from={here}/run", f"model_dir={here}/child", "training.learning_rate=1e-4")
    sets = [word for one in child for word in ("--set", one)]
    inside.fails = "clean"
    begun = improve(here, *sets, "--reverse", reverse)
    assert (begun.code, "stage 01-pairs failed" in begun.err) == (2, True), begun.err
    assert "begins with random weights" not in begun.err
    twice = improve(here, *sets, "--reverse", reverse, "--rounds", "2", "-o", here / "twice")
    told = "the training of the reverse direction begins with random weights, at the learning rate 0.0001"
    assert told in twice.err


def test_text_in_the_other_language_is_refused_and_may_be_named_by_an_option(here, inside):
    refused = improve(here, "--target-text", here / "mono.en")
    assert refused.code == 2
    assert f"data.monolingual.target: {here}/mono.en: " in refused.err
    assert "look like en, not fr. Give text in fr, or name the file for en" in refused.err
    assert inside.ran == []
    planned = improve(here, "--source-text", here / "mono.en", "--dry-run")
    assert planned.code == 0, planned.err
    assert f"nmt clean {here}/mono.en" in planned.out.decode()


@pytest.mark.slow
def test_a_whole_run_makes_an_ordinary_model_directory_that_tells_what_it_was_made_of(here, inside):
    done = improve(here)
    assert done.code == 0, done.err
    assert done.out == b""
    assert inside.ran == ["clean", "clean", "train", "translate", "clean", "train"]
    result = here / "run-improved"
    cleaned = (result / "stages/02-text/text.fr").read_text().splitlines()
    held_out = {line for name in ("test", "dev", "train") for line in (here / f"c/{name}.fr").read_text().splitlines()}
    assert held_out.isdisjoint(cleaned)
    assert len(cleaned) == len(set(cleaned)) > 50
    dropped = [line.split("\t")[1] for line in (result / "stages/02-text/text.dropped.tsv").read_text().splitlines()]
    assert dropped[-4:] == ["leak", "duplicate", "empty", "encoding"]
    back = (result / "stages/05-back/back.en").read_text().splitlines()
    assert all(line.startswith("<BT> ") for line in back)
    told = run_here("inspect", str(result))
    assert told.code == 0, told.err
    for wanted in ("improved from", f"{here}/mono.fr", "02-text", f"text.fr {len(cleaned)} lines", "nmt translate"):
        assert wanted in told.out.decode()
    report = json.loads(run_here("inspect", str(result), "--json").out)
    assert report["stages"]["model of"] == "stages/06-forward/model"
    for name in ("writing.json", "metrics.jsonl", "confidence.json"):  # or it would translate otherwise than its stage
        assert same_file(result / name, result / "stages/06-forward/model" / name), name
    text = (here / "c/test.en").read_bytes()
    first = run_here("translate", "--model", str(result), "--threads", "1", stdin=text)
    assert (first.code, len(first.lines)) == (0, 10)
    assert run_here("train", "--config", str(result / "config.yaml")).code == 0
    again = improve(here)
    assert (again.code, "finished already" in again.err) == (0, True)
    shutil.rmtree(result / "stages")  # as the tutorial allows
    again = improve(here, "-o", here / "run/../run-improved")
    assert (again.code, "finished already" in again.err) == (0, True)
    for options, told in ((("--rounds", "2"), "these differ: --rounds"), (("--set", "seed=3"), "these keys differ")):
        refused = improve(here, *options)
        assert (refused.code, told in refused.err) == (2, True), refused.err
    assert len(inside.ran) == 6
    elsewhere = here / "elsewhere"
    shutil.move(result, elsewhere)
    shutil.rmtree(here / "c")
    moved = run_here("translate", "--model", str(elsewhere), "--threads", "1", stdin=text)
    assert (moved.code, moved.out) == (0, first.out)
    assert not any(path.is_symlink() for path in elsewhere.rglob("*"))


@pytest.mark.slow
def test_the_result_is_compared_with_the_model_before(here, inside, capfd):
    assert run_here("train", "--config", str(here / "config.yaml"), *QUICK).code == 0
    done = improve(here)
    assert done.code == 0, done.err
    useless = "stage 03-reverse: this model has 0.00 BLEU on the dev set, so its translations teach next to nothing"
    assert done.err.count(useless) == 1
    assert "stage 06-forward: this model" not in done.err
    assert "a training on twice the lines gets twice the updates" in done.err
    told = rf"bleu of the result on the dev set: \d+\.\d\d; of the model in {re.escape(str(here / 'run'))}: "
    assert re.search(told, done.err), done.err
    index, of_before = here / "run/checkpoints/index.json", here / "run/config.yaml"

    def compared(before: float) -> str:
        values = json.loads(index.read_text())
        values["best"][0]["value"] = before
        index.write_text(json.dumps(values))
        compare(load_config(here / "run/config.yaml"), here / "run-improved/stages/06-forward/model")
        return capfd.readouterr().err

    worse = compared(99.0)
    assert worse.startswith("warning: the result is not better than the model before. ")
    assert re.search(told + r"99\.00\n", worse), worse
    better = compared(-1.0)
    assert re.match(told + r"-1\.00\n", better), better
    config = load_config(of_before)
    shutil.copy(here / "c/dev.fr", here / "c/dev2.fr")
    of_before.write_text(of_before.read_text().replace("dev.fr", "dev2.fr"))
    compare(config, here / "run-improved/stages/06-forward/model")  # scores of two dev sets say nothing
    assert re.fullmatch(r"bleu of the result on the dev set: \d+\.\d\d\n", capfd.readouterr().err)


@pytest.mark.slow
def test_the_weight_of_repeated_text_counts_the_lines_that_cleaning_leaves(here, inside):
    mono = here / "mono.fr"
    mono.write_bytes(8 * mono.read_bytes())
    assert improve(here, "--ratio", "0.02").code == 0
    stages = here / "run-improved/stages"
    num_pairs, num_back = (
        len((stages / name).read_bytes().splitlines()) for name in ("01-pairs/pairs.fr", "05-back/back.fr")
    )
    weight = load_config(stages / "06-forward/train.yaml").data.train[1].weight
    assert weight < 1.0
    assert weight * num_back == pytest.approx(0.02 * num_pairs, rel=0.01)


def test_the_command_of_a_stage_typed_by_hand_makes_the_same_bytes(here, inside):
    inside.fails = "train"
    assert improve(here).code == 2
    stage = here / "run-improved/stages/02-text"
    command = json.loads((stage / "stage.json").read_text())["command"]
    before = (stage / "text.fr").read_bytes()
    typed = command.replace(f"{stage}/text", str(here / "mine")).split()
    assert typed[0] == "nmt"
    assert run_here(*typed[1:]).code == 0
    assert (here / "mine.fr").read_bytes() == before


def test_a_finished_stage_is_not_repeated_and_a_changed_file_is_named(here, inside):
    inside.fails = "train"
    failed = improve(here)
    assert failed.code == 2
    assert "stage 03-reverse failed" in failed.err
    assert not (here / "run-improved/config.yaml").exists()
    assert "is not a model directory" in run_here("translate", "--model", str(here / "run-improved")).err
    inside.ran.clear()
    again = improve(here)
    assert inside.ran == ["train"]
    assert "2 of 6 stages have finished before" in again.err
    (here / "run-improved/stages/02-text/stage.json").unlink()  # as if killed before the record was written
    inside.ran.clear()
    assert "1 of 6 stages have finished before" in improve(here).err
    assert inside.ran == ["clean", "train"]
    inside.ran.clear()
    path = here / "mono.fr"
    text = path.read_text()
    path.write_text(text + "Une ligne.\n")
    refused = improve(here)
    assert refused.code == 2
    assert f"{path}: has changed since" in refused.err
    path.unlink()
    gone = improve(here)
    assert (gone.code, f"{path}: is gone" in gone.err) == (2, True)
    path.write_text(text)
    cleaned = here / "run-improved/stages/02-text/text.fr"
    cleaned.write_text("Une ligne.\n")
    refused = improve(here)
    assert refused.code == 2
    assert f"{cleaned}: has changed since stage 02-text finished" in refused.err
    assert inside.ran == []


def test_text_of_which_no_line_is_left_ends_the_command_before_any_training(here, inside):
    (here / "mono.fr").write_bytes((here / "c/test.fr").read_bytes())
    for _ in range(2):
        refused = improve(here)
        assert (refused.code, f"no line of {here}/mono.fr is left" in refused.err) == (2, True), refused.err
    assert inside.ran == ["clean", "clean", "clean"]
    dropped = (here / "run-improved/stages/02-text/text.dropped.tsv").read_text().splitlines()
    assert {line.split("\t")[1] for line in dropped} == {"leak"}


def test_other_options_or_another_configuration_are_refused(here, inside):
    inside.fails = "train"
    improve(here)
    for options, told in (
        (("--rounds", "2"), "these differ: --rounds"),
        (("--ensemble", "2", "--distil"), "these differ: --ensemble, --distil"),
        (("--set", "seed=3"), "these keys differ: seed"),
    ):
        refused = improve(here, *options)
        assert (refused.code, told in refused.err) == (2, True), refused.err


@pytest.mark.soak
def test_a_plan_of_another_version_goes_on_with_the_keys_of_this_one(here, inside):
    inside.fails = "train"
    improve(here)
    plan = here / "run-improved/stages/plan.json"
    values = json.loads(plan.read_text())
    del values["config"]["training"]["sampled_softmax"]  # it came later
    values["config"]["training"]["r_drop"] = 0.0  # it was removed
    plan.write_text(json.dumps(values))
    inside.fails = ""
    assert improve(here).code == 0


@pytest.mark.slow
def test_a_run_that_was_moved_before_its_end_is_told_where_it_began(here, inside):
    inside.fails = "train"
    improve(here)
    (here / "run-improved").rename(here / "moved")
    refused = improve(here, "-o", here / "moved")
    assert (refused.code, f"moved: was begun at {here}/run-improved and moved since." in refused.err) == (2, True)
    (here / "moved").rename(here / "run-improved")
    inside.fails, inside.ran = "", []
    assert improve(here, "-o", here / "run/../run-improved").code == 0
    assert inside.ran == ["train", "translate", "clean", "train"]


def test_what_is_wrong_is_told_before_anything_is_made(here, inside):
    config = (here / "config.yaml").read_text()
    mono = f"[{here}/mono.fr]"
    (here / "empty.fr").write_text("")
    words = config.replace("{vocab_size: 420}", "{vocab_size: 420, model_type: word}")
    words_without_attention = words.replace("attention: {size: 16}", "attention: {type: none}")
    for text, told in (
        (re.sub(r"  monolingual.*\n", "", config), "data.monolingual: is missing"),
        (config.replace(mono, f"[{here}/none.fr]"), f"{here}/none.fr: there is no such file"),
        (config.replace(mono, f"[{here}/c/train.fr]"), "c/train.fr of data.train, data.dev or data.test"),
        (config.replace(mono, f"[{here}/empty.fr]"), "the files hold no line"),
        (config.replace(mono, "[]"), "data.monolingual.target: name at least one file"),
        (config.replace(mono, f"{mono}, sorce: []"), "did you mean 'source'?"),
        (config.replace(mono, f"[{here}/mono.fr, {here}/mono.fr]"), "is named twice"),
        (words_without_attention, "tokenizer.model_type: word models write ⁇ for unknown words, and without attention"),
    ):
        (here / "config.yaml").write_text(text)
        refused = improve(here)
        assert (refused.code, told in refused.err) == (2, True), (told, refused.err)
        assert not (here / "run-improved").exists()
    assert inside.ran == []


@pytest.mark.parametrize("options", [(), ("--dry-run",)], ids=["run", "plan"])
def test_a_vocabulary_that_the_pairs_do_not_allow_is_refused_before_anything_is_made(here, inside, options):
    refused = improve(here, "--set", "tokenizer.vocab_size=9000", *options)
    told = (
        r"checking that the pairs allow tokenizer.vocab_size 9000\n"
        r"nmt: tokenizer.vocab_size: 9000 is more than this text of 600 lines allows; set it to \d+ or less\n"
    )
    assert refused.code == 2
    assert re.fullmatch(told, refused.err), refused.err
    assert not (here / "run-improved").exists()
    assert inside.ran == []


@pytest.mark.slow
def test_a_vocabulary_that_only_all_pairs_allow_can_be_measured_by_a_few(here, inside, monkeypatch):
    monkeypatch.setattr(estimate, "TRIAL_PAIRS", 5)
    done = improve(here, "--dry-run", "--set", "tokenizer.joint=false", "--set", "model.tied_embeddings=none")
    assert done.code == 0, done.err
    assert "warning" not in done.err
    assert done.lines[0].endswith("times for this machine as it is now")
    assert inside.ran == ["check", "train", "translate"]


def test_a_directory_that_is_not_ours_or_in_use_is_refused(here, inside):
    other = here / "other"
    other.mkdir()
    (other / "mine.txt").write_text("mine")
    refused = improve(here, "-o", other)
    assert (refused.code, "`nmt improve` did not make it" in refused.err) == (2, True)
    assert [path.name for path in other.iterdir()] == ["mine.txt"]
    refused = improve(here, "-o", here / "config.yaml")
    assert (refused.code, "is a file; choose another -o" in refused.err) == (2, True)
    for name in ("run", "other/../run"):
        refused = improve(here, "-o", f"{here}/{name}")
        assert (refused.code, "is the model_dir of the configuration" in refused.err) == (2, True)
    refused = improve(here, "-o", here / "run")
    assert (refused.code, "is the model_dir of the configuration" in refused.err) == (2, True)
    holder = "import fcntl,sys; f=open(sys.argv[1],'w'); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True); input()"
    (here / "run-improved").mkdir()
    lock = here / "run-improved/.improve.lock"
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", holder, lock], **pipes) as process:
        process.stdout.readline()
        refused = improve(here)
        process.stdin.close()
    assert (refused.code, "is in use by" in refused.err) == (2, True)
    assert inside.ran == []


def test_training_checks_the_text_but_ignores_it(here):
    options = ("--set", "training.max_steps=2")
    config = str(here / "config.yaml")
    assert run_here("train", "--config", config, *options).code == 0
    other = run_here("train", "--config", config, *options, "--set", f"data.monolingual.target=[{here}/mono.en]")
    assert (other.code, "finished already" in other.err) == (0, True)
    missing = run_here("train", "--config", config, "--set", "data.monolingual.target=[gone.fr]", "--dry-run")
    assert (missing.code, "gone.fr: there is no such file" in missing.err) == (2, True)


def test_text_in_one_language_is_cleaned_as_a_plain_loop_does_it(here):
    words = ["a b c", "d", " d ", "", "x" * 1_001, "the end", "a b c", "z\u200b", "known"]
    (here / "t.en").write_text("".join(f"{word}\n" for word in words))
    (here / "k.en").write_text("known\nother\n")
    done = run_here("clean", str(here / "t.en"), "-o", str(here / "m"), "--without", str(here / "k.en"))
    assert done.code == 0, done.err
    assert (here / "m.en").read_text().splitlines() == ["a b c", "d", "the end", "z\u200b"]
    assert [line.split("\t")[:2] for line in (here / "m.dropped.tsv").read_text().splitlines()] == [
        ["3", "duplicate"], ["4", "empty"], ["5", "too-long"], ["7", "duplicate"], ["9", "leak"],
    ]  # fmt: skip
    for options, told in (
        (("--tag", "<BT>"), "--tag: marks the sources of pairs"),
        (("--keep", "numbers"), "there is no such rule"),
        (("--without", str(here / "gone")), "there is no such file"),
    ):
        refused = run_here("clean", str(here / "t.en"), "-o", str(here / "n"), *options)
        assert (refused.code, told in refused.err) == (2, True), refused.err
    for options, told in ((("--tag", "a b"), "must be one word"),):
        pair = (str(here / "c/train.en"), str(here / "c/train.fr"))
        refused = run_here("clean", *pair, "-o", str(here / "n"), *options)
        assert (refused.code, told in refused.err) == (2, True), refused.err
    assert not (here / "n.en").exists()


@pytest.mark.slow
def test_the_plan_is_printed_with_times_and_nothing_is_made(here):
    before = sorted(here.rglob("*"))
    done = improve(here, "--dry-run", "--rounds", "2", "--ensemble", "2", "--distil")
    assert done.code == 0, done.err
    told = done.out.decode()
    assert told.splitlines()[0].startswith("15 stages in ")
    assert "nmt clean" in told
    assert re.search(r"^together +\d+ (s|min) +[\d.]+ MB$", told, flags=re.MULTILINE)
    assert sorted(here.rglob("*")) == before


@pytest.mark.soak
def test_rounds_ensemble_and_distillation_run_to_the_end(here, inside):
    (here / "config.yaml").write_text(
        (here / "config.yaml").read_text().replace("mono.fr]", f"mono.fr], source: [{here}/mono.en]")
    )
    # A model of six updates may find that every translation is empty, and such pairs are left out.
    learnt = (
        "--set", "training.max_steps=150", "--set", "training.learning_rate=0.01", "--set", "training.patience=null",
        "--set", "model.embedding_size=64", "--set", "model.encoder.hidden_size=64", "--set", "training.threads=1",
        "--set", "model.decoder.hidden_size=64", "--set", "training.validation_freq=75",
        "--set", "training.checkpoint_freq=75",
    )  # fmt: skip
    done = improve(here, "--rounds", "2", "--ensemble", "2", "--distil", *learnt)
    assert done.code == 0, done.err
    assert len(run_here("translate", str(here / "c/test.en"), "--model", str(here / "run-improved")).lines) == 10
    several = improve(here, "--ensemble", "2", "-o", here / "two models", *learnt)
    assert several.code == 0, several.err
    assert "all 2 together translate better" in several.err
    assert several.err.endswith(f"try: nmt translate FILE --model '{here}/two models'\n")
    record = json.loads((here / "two models/improve.json").read_text())
    both = [word for model in record["models"] for word in ("--model", str(here / "two models" / model))]
    assert len(both) == 4
    assert len(run_here("translate", str(here / "c/test.en"), *both).lines) == 10


def told_bytes(result: Path) -> dict[str, bytes]:
    """Return everything that must be the same after any way to the end."""
    found = contents(result)
    for path in sorted((result / "stages").rglob("*")):
        if path.is_file() and path.suffix in (".en", ".fr", ".tsv", ".yaml", ".safetensors"):
            found[str(path.relative_to(result))] = path.read_bytes()
    found["improve.json"] = (result / "improve.json").read_bytes()
    return found


@pytest.mark.soak
def test_killed_at_random_moments_it_ends_with_the_same_bytes(here):
    seed = os.environ.get("NMT_TEST_SEED") or str(random.randrange(10**6))
    print(f"NMT_TEST_SEED={seed}")
    moments = random.Random(seed)
    command = ("improve", "--config", here / "config.yaml", *QUICK, "--set", "training.checkpoint_freq=2")
    result = here / "run-improved"
    began = time.monotonic()
    with start_nmt(*command, stderr=subprocess.DEVNULL) as whole:
        assert whole.wait(timeout=300) == 0
    seconds = time.monotonic() - began
    expected = told_bytes(result)
    shutil.move(result, here / "whole")
    with start_nmt(*command, stderr=subprocess.PIPE) as process:
        for line in process.stderr:
            if line.startswith(b"update 2 "):
                break
        process.kill()  # the training must not go on beside the next one, which begins at once
    kills = 0
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGKILL):
        with start_nmt(*command, stderr=subprocess.PIPE) as process:
            try:
                process.wait(timeout=moments.uniform(1.0, max(2.0, seconds / 2)))
            except subprocess.TimeoutExpired:
                process.send_signal(number)
            code = process.wait(timeout=100)
        assert code in (0, -signal.SIGKILL, 128 + number), code
        kills += code != 0
    with start_nmt(*command, stderr=subprocess.PIPE) as last:
        _, told = last.communicate(timeout=300)
        assert last.returncode == 0, told.decode()
    assert kills
    assert told_bytes(result) == expected
    assert list(result.rglob("*.tmp")) == []


@pytest.mark.slow
def test_a_signal_ends_the_stage_and_gives_the_exit_code_of_the_contract(here):
    command = ("improve", "--config", here / "config.yaml", "--set", "training.max_steps=100000")
    with start_nmt(*command, stderr=subprocess.PIPE) as process:
        for line in process.stderr:
            if b"update 10 " in line:
                break
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=100)
    assert process.returncode == 143
    assert told.decode().splitlines()[-1] == "nmt: stopped; run the same command again to resume"
    assert b"is saved" in told


def test_a_plan_is_printed_although_the_machine_could_not_be_measured(here, inside):
    inside.fails = "train"
    done = improve(here, "--dry-run")
    assert done.code == 0, done.err
    assert "warning: the trial that measures this machine failed" in done.err
    assert done.lines[0].endswith("times rough, because the trial failed")
    assert len(done.lines) == 2 * 6 + 2
