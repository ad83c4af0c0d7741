"""The smaller commands through the real command line."""

from __future__ import annotations

import errno
import inspect
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from command_line import CONFIG
from marks import others_slow

from nmt_cli.commands import COMMANDS, GROUPS


@pytest.mark.parametrize("command", ["", "train", "plot", "plot curves", "import"])
def test_help_is_a_command_too(nmt, command: str):
    shown = nmt("help", *command.split())
    assert (shown.code, shown.out) == (0, nmt(*command.split(), "--help").out)


def test_help_on_an_unknown_command_is_refused(nmt):
    shown = nmt("help", "trian")
    assert (shown.code, shown.out) == (2, b"")
    assert "No such command 'trian'" in shown.err


def test_help_on_help_is_that_of_all_commands(nmt):
    assert nmt("help", "help").out == nmt("--help").out


def test_help_on_two_commands_is_refused(nmt):
    shown = nmt("help", "train", "score")
    assert (shown.code, shown.out, shown.err) == (2, b"", "nmt: nmt help takes one command, so leave out: score\n")


@pytest.mark.parametrize("command", [*COMMANDS, *(f"plot {name}" for name in ("attention", "curves", "lengths"))])
def test_help_of_every_command_has_an_example_and_no_types_of_python(nmt, command: str):
    shown = nmt(*command.split(), "--help")
    assert shown.code == 0
    assert set(re.findall(r"<[A-Za-z]+(?: range|\[\w+\])?>", shown.out.decode())) <= {"<b>"}  # which is a tag in a text
    assert f"nmt {command}" in " ".join(shown.out.decode().split()).partition("Example: ")[2]


@pytest.mark.parametrize("command", [*COMMANDS, *(f"plot {name}" for name in ("attention", "curves", "lengths"))])
def test_every_command_can_be_quiet(nmt, command: str):
    assert "-q, --quiet" in nmt(*command.split(), "--help").out.decode()


def test_a_quiet_command_shows_only_warnings_and_errors(nmt, model: Path, tmp_path: Path):
    text = tmp_path / "few"
    text.write_bytes(b"Where is the station?\n")
    loud, quiet = (nmt("translate", text, "--model", model, *option) for option in ((), ("--quiet",)))
    assert loud.err
    assert (quiet.code, quiet.out, quiet.err) == (0, loud.out, "")
    warned = nmt("translate", text, "--model", model, "-q", "--seed", "1", "--seed", "2")
    assert len(warned.err.splitlines()) == warned.err.count("warning: --seed ") == 2
    failed = nmt("translate", tmp_path / "none", "--model", model, "-q")
    assert (failed.code, failed.err.count("\n")) == (2, 1)


def test_a_quiet_training_keeps_its_log(nmt, config: Path):
    result = nmt("train", "--config", config, "--quiet", "--set", "training.max_steps=2")
    assert result.code == 0
    assert all(line.startswith("warning: ") for line in result.err.splitlines()), result.err
    (log,) = (config.parent / "run/logs").glob("*.log")
    assert "finished: max_steps 2 reached" in log.read_text()


@pytest.mark.parametrize("columns", ["80", "40"])
def test_the_list_of_commands_cuts_no_description(nmt, columns: str):
    """The library that prints it cuts a long one with `...`, unless it is given apart."""
    descriptions = {(): [*COMMANDS.values()]}
    for name, group in GROUPS.items():
        descriptions[name,] = [registered.callback for registered in group.registered_commands]
    for name, commands in descriptions.items():
        listed = nmt(*name, "--help", env={"COLUMNS": columns}).out.decode().partition("Commands:")[2]
        assert listed
        assert "..." not in listed
        for command in commands:
            paragraph = (inspect.getdoc(command) or "").partition("\n\n")[0]
            assert "".join(paragraph.split()) in "".join(listed.split())


def test_version_and_unknown_commands(nmt):
    assert re.match(rb"nmt \d+\.\d+\.\d+\n", nmt("--version").out)
    result = nmt("trainn")
    assert result.code == 2
    assert "No such command 'trainn'" in result.err


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("translate --beam", "--beam-size"),
        ("translate --beams", "--beam-size"),
        ("translate --beam_size", "--beam-size"),
        ("translate --nbest", "--n-best"),
        ("translate --batch", "--batch-tokens"),
        ("translate --len-penalty", "--length-penalty"),
        ("translate --output-file", "--output"),
        ("translate --sh", "--shortlist or --shard"),
        ("evaluate --set", "--only"),
        ("plot lengths --hyp", "--hypothesis"),
    ],
)
def test_an_option_by_a_wrong_name_is_answered_with_the_right_one(nmt, words: str, near: str):
    *command, wrong = words.split()
    for arguments in ([wrong, "4"], [f"{wrong}=4"]):
        result = nmt(*command, *arguments)
        assert (result.code, result.out) == (2, b"")
        assert result.err.endswith(f"Error: No such option: {wrong}; did you mean {near}?\n")


def test_an_option_that_is_given_again_is_told(nmt):
    result = nmt("translate", "--glossary", "a.tsv", "-o", "b", "--glossary=c.tsv", "--output", "d", "--model", "e")
    assert result.code == 2
    assert [line for line in result.err.splitlines() if line.startswith("warning: ")] == [
        "warning: --glossary is given more than once; the last one counts",
        "warning: --output is given more than once; the last one counts",
    ]
    for words in (("--model", "a", "--model", "b"), ("--overwrite", "--overwrite"), ("--set", "a=1", "--set", "b=2")):
        command = "train" if words[0] == "--set" else "translate"
        assert "more than once" not in nmt(command, *words).err


@pytest.mark.parametrize("option", ["--verbose", "--set", "-x", "--="])
def test_an_option_like_no_other_gets_no_guess(nmt, option: str):
    assert nmt("translate", option).err.endswith(f"Error: No such option: {option.rstrip('=')}\n")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("train", "Missing option '--config' / '-c'.\n"),
        ("train my.yaml", "Missing option '--config' / '-c'. Write --config my.yaml.\n"),
        ("align a.txt", "Missing argument 'TARGET'."),
        ("plot curves", "Missing option '--output' / '-o'."),
        ("translate --threads few", "Invalid value for '--threads'"),
        ("translate --threads 0", "Invalid value for '--threads'"),
        ("translate --nonsense", "No such option"),
        ("translate a.txt b.txt", "Got unexpected extra argument"),
    ],
)
def test_wrong_usage_is_shown_with_the_usage(nmt, command: str, message: str):
    """By typer, which must not pass over an option that is missing, nor end in a traceback."""
    result = nmt(*command.split())
    assert (result.code, result.out) == (2, b"")
    assert result.err.startswith(f"Usage: nmt {command.split(' ')[0]}")
    assert f"\nError: {message}" in result.err


def test_help_does_not_import_torch():
    code = "import sys; sys.argv = ['nmt', '--help']; from nmt_cli.cli import _run; _run()"
    code += "; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_encode_and_decode_give_the_text_back(nmt, model: Path):
    text = "Where is the red car?\n\nnaïve 日本 🙂\n".encode()
    pieces = nmt("encode", "--model", model, stdin=text)
    assert pieces.code == 0
    assert len(pieces.lines) == 3
    back = nmt("decode", "--model", model, "--side", "source", stdin=pieces.out)
    assert back.out == text


def test_pieces_that_the_vocabulary_lacks_are_left_as_written_and_counted(nmt, model: Path):
    """Those of another tokenizer: it is no loss of text without a word."""
    result = nmt("decode", "--model", model, stdin="▁Wörld ▁x<unk>y ▁日本\n<unk>\n".encode())
    assert (result.code, result.out.decode()) == (0, "Wörld x<unk>y 日本\n ⁇ \n")
    assert result.err == (
        "warning: 3 pieces not in the target vocabulary, left as written; give --side source if they are that side's\n"
    )


def test_the_schema_is_json_schema_with_every_key_described(nmt):
    schema = json.loads(nmt("schema").out)
    assert schema["title"] == "Config"
    assert schema["$defs"]["TrainingConfig"]["properties"]["batch_size"]["description"]
    for section in (schema, *schema["$defs"].values()):
        bare = [key for key, field in section["properties"].items() if not {"description", "$ref"} & field.keys()]
        assert not bare, f"{section['title']}: without a description"


def test_rescore_gives_the_log_probability_that_the_search_gave(nmt, model: Path, corpus: Path, tmp_path: Path):
    found = nmt("translate", corpus / "test.en", "--model", model, "--format", "jsonl", "--length-penalty", "0")
    records = [json.loads(line) for line in found.lines]
    ended = [record for record in records if len(record["translation"]) < 40]
    (tmp_path / "a.en").write_text("".join(record["source"] + "\n" for record in ended))
    (tmp_path / "a.fr").write_text("".join(record["translation"] + "\n" for record in ended))
    numbers = [float(line) for line in nmt("rescore", tmp_path / "a.en", tmp_path / "a.fr", "--model", model).lines]
    assert len(numbers) == len(ended)
    # Where the text cuts into the same pieces, and the search ended by </s>, the two are the same number.
    same = [math.isclose(n, r["score"], abs_tol=1e-3) for n, r in zip(numbers, ended, strict=True)]
    assert sum(same) > len(same) / 2


def test_align_writes_a_line_a_pair_and_the_error_rate(nmt, model: Path, corpus: Path, tmp_path: Path):
    (tmp_path / "s").write_bytes(b"The red car.\n\nThe cat\n")
    (tmp_path / "t").write_bytes(b"La voiture rouge.\nrien\nLe chat\n")
    result = nmt("align", tmp_path / "s", tmp_path / "t", "--model", model)
    assert result.code == 0, result.err
    assert len(result.lines) == 3
    assert result.lines[1] == ""
    assert {link.split("-")[1] for link in result.lines[0].split()} == {"0", "1", "2"}
    (tmp_path / "gold").write_text(result.lines[0] + "\n\n0-0 1?1\n")
    again = nmt(
        "align", tmp_path / "s", tmp_path / "t", "--model", model, "--gold", tmp_path / "gold", "--format", "jsonl"
    )
    record = json.loads(again.lines[0])
    assert record["target"] == ["La", "voiture", "rouge."]
    assert len(record["weights"]) == len(record["weights"][0]) == 3
    assert 0.0 <= float(again.err.split("AER = ")[1]) < 0.5
    (tmp_path / "gold").write_text("0-x\n")
    wrong = nmt("align", tmp_path / "s", tmp_path / "t", "--model", model, "--gold", tmp_path / "gold")
    assert wrong.code == 2
    assert "gold:1: '0-x' is not a link; write 0-0 for a sure one, 0?1 for a possible one" in wrong.err
    pairs = ("align", tmp_path / "s", tmp_path / "t", "--model", model)
    for link in ("0-2", "2?1"):
        (tmp_path / "gold").write_text(f"0-0\n\n0-0 {link}\n")
        outside = nmt(*pairs, "--gold", tmp_path / "gold")
        assert outside.code == 2
        message = f"gold:3: {link.replace('?', '-')} names a word that the pair does not have. It has 2 source words"
        assert f"{message} and 2 target words, counted from 0\n" in outside.err
    short = nmt(*pairs, "--gold", "-", "-o", tmp_path / "out", stdin=b"0-0\n")
    assert (short.code, short.err) == (
        2,
        "nmt: standard input has 1 line for 3 aligned pairs; line i must have the links of pair i\n",
    )
    assert not (tmp_path / "out").exists()
    twice = nmt("align", "-", tmp_path / "t", "--model", model, "--gold", "-", stdin=b"")
    assert twice.err == "nmt: standard input can be read only once: give files for the other inputs\n"
    for command in ("rescore", "align", "shortlist"):
        both = nmt(command, "-", "-", "--model", model, "-o", tmp_path / "out", stdin=b"")
        assert (both.code, both.err) == (2, twice.err)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["rescore", "align"])
def test_a_pair_is_answered_before_the_next_is_written(model: Path, tmp_path: Path, command: str):
    """Fails if a window of pairs waits until it is full."""
    (tmp_path / "s").write_bytes(b"The cat\nThe red car.\n")
    nmt = [sys.executable, "-m", "nmt_cli", command, tmp_path / "s", "-", "--model", model]
    with subprocess.Popen(nmt, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        impatient = threading.Timer(60, process.kill)
        impatient.start()
        for line in (b"Le chat\n", b"La voiture rouge.\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")
        impatient.cancel()
        process.stdin.close()
        assert process.stdout.read() == b""


def test_pairs_of_unequal_files_are_refused_with_both_counts(nmt, model: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("nmt_cli.translation.windows.WINDOW_SIZE", 1)
    (tmp_path / "s").write_bytes(b"a\nb\n")
    (tmp_path / "t").write_bytes(b"a\n")
    for command in ("align", "rescore"):
        result = nmt(command, tmp_path / "s", tmp_path / "t", "--model", model)
        assert (result.code, result.out) == (2, b"")  # not the first window
        assert "s has 2 lines and" in result.err
        assert "t has 1 line" in result.err


@pytest.mark.slow
def test_a_model_without_attention_cannot_align_and_says_so(
    nmt, config: Path, tmp_path: Path, corpus: Path, model: Path
):
    (tmp_path / "g.tsv").write_text("car\tvoiture\n")
    sets = ["--set", "model.attention.type=none", "--set", "training.max_steps=2"]
    assert nmt("train", "--config", config, *sets).code == 0
    for arguments in (
        ("align", corpus / "dev.en", corpus / "dev.fr"),
        ("translate", corpus / "dev.en", "--alignment", "hard"),
        ("shortlist", corpus / "dev.en", corpus / "dev.fr", "-o", tmp_path / "shortlist"),
    ):
        result = nmt(*arguments, "--model", tmp_path / "run")
        assert result.code == 2
        assert "this model has no attention" in result.err
    both = ("--model", model, "--model", tmp_path / "run")
    for arguments in (
        ("align", corpus / "dev.en", corpus / "dev.fr"),
        ("translate", corpus / "dev.en", "--alignment", "hard"),
        ("translate", corpus / "dev.en", "--glossary", tmp_path / "g.tsv"),
        ("plot", "attention", corpus / "dev.en", "-o", tmp_path / "a.html"),
    ):
        result = nmt(*arguments, *both)
        assert (result.code, "nmt: model 2 of 2 has no attention" in result.err) == (2, True), result.err
    text = nmt("translate", "--paragraphs", "--markup", "--model", tmp_path / "run", stdin=b"__URL__ is here.\n")
    assert "this model has no attention, so the order of the words alone places tags and placeholders" in text.err
    assert "in 1 of 1 text the model lost a placeholder; it was put back in the most likely place" in text.err
    plotted = nmt("plot", "attention", corpus / "dev.en", "--model", tmp_path / "run", "-o", tmp_path / "a.html")
    assert plotted.code == 2
    assert "there is nothing to draw" in plotted.err


def test_average_is_the_mean_of_the_checkpoints(nmt, model: Path, tmp_path: Path):
    from safetensors.torch import load_file

    model = Path(shutil.copytree(model, tmp_path / "run"))
    index = json.loads((model / "checkpoints/index.json").read_text())
    result = nmt("average", "--model", model, "--last", "2", "--name", "mean-of-two")
    assert result.code == 0, result.err
    parts = [load_file(model / f"checkpoints/step-{step:08d}/model.safetensors") for step in index["recent"][:2]]
    mean = load_file(model / "checkpoints/mean-of-two/model.safetensors")
    for name, tensor in mean.items():
        assert (tensor - (parts[0][name] + parts[1][name]) / 2).abs().max() < 1e-6
    assert nmt("translate", "--model", model, "--checkpoint", "mean-of-two", stdin=b"The car\n").code == 0
    assert (
        "exists already; choose another name"
        in nmt("average", "--model", model, "--last", "2", "--name", "mean-of-two").err
    )
    kept = sorted({*index["recent"], *(best["step"] for best in index["best"])}, reverse=True)
    refused = f"has only {len(kept)} checkpoints, but 50 are to be averaged; training.keep_last says how many are kept"
    assert refused in nmt("average", "--model", model, "--last", "50").err
    assert "give --last N or --best N, not both" in nmt("average", "--model", model, "--last", "1", "--best", "1").err
    steps = ", ".join(map(str, index["recent"]))
    assert f"mean of the checkpoints {steps} -> " in nmt("average", "--model", model, "--name", "mean-of-all").err
    assert "warning: " not in nmt("average", "--model", model, "--last", "1", "--name", "mean-of-one").err
    run = shutil.copytree(model, tmp_path / "one recent")
    (run / "checkpoints/index.json").write_text(json.dumps({**index, "recent": index["recent"][:1]}))
    message = f"training.keep_last kept only one checkpoint, so the average is a copy of it (update {index['last']}). "
    assert message in nmt("average", "--model", run, "--name", "copy").err
    shutil.rmtree(run)
    result = nmt("average", "--model", model, "--last", len(kept), "--name", "mean-of-kept")
    assert f"mean of the checkpoints {', '.join(map(str, kept))} -> " in result.err
    for name in ("../x", "17", "step-00000999"):
        assert "cannot name a checkpoint" in nmt("average", "--model", model, "--last", "1", "--name", name).err
    many = "9" * 5_000
    assert f"there is no checkpoint '{many}'" in nmt("translate", "--model", model, "--checkpoint", many).err


def test_inspect_shows_what_a_directory_holds(nmt, model: Path):
    shown = nmt("inspect", model).out.decode()
    for word in (
        "bidirectional gru, 1 layer of 16 units in each direction",
        "additive",
        "unigram, 420 pieces",
        "max_steps 100 reached",
        "(best)",
    ):
        assert word in shown
    report = json.loads(nmt("inspect", model, "--json").out)
    assert report["parameters"]["all"] > 10_000
    best, second = (ranked["step"] for ranked in json.loads((model / "checkpoints/index.json").read_text())["best"])
    assert report["checkpoints"][str(best)].endswith("  (best)")
    assert report["checkpoints"][str(second)].endswith("  (number 2 by score)")
    assert nmt("inspect", "/tmp/nothing-here").code == 2


def test_filters_and_averages_find_the_model_as_translate_does(nmt, model: Path, tmp_path: Path, monkeypatch):
    text = b"Where is the station?\n"
    pieces = nmt("encode", "--model", model, stdin=text)
    monkeypatch.setenv("NMT_MODEL", str(model))
    found = nmt("encode", stdin=text)
    assert (found.code, found.out) == (0, pieces.out)
    assert f"model: {model} (from NMT_MODEL)" in found.err
    assert nmt("decode", "--side", "source", stdin=pieces.out).out == text
    monkeypatch.delenv("NMT_MODEL")
    monkeypatch.chdir(tmp_path)
    for command in (("encode",), ("average",), ("shortlist", "a", "b", "-o", "c")):
        refused = nmt(*command)
        assert (refused.code, refused.out) == (2, b"")
        assert "no model: give --model DIR, set NMT_MODEL, or train one" in refused.err


@pytest.mark.slow
def test_inspect_and_curves_find_the_model_as_translate_does(nmt, model: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = nmt("inspect", model)
    assert nmt("inspect", "--model", model) == shown
    assert nmt("inspect", "-m", model) == shown
    assert nmt("inspect", env={"NMT_MODEL": str(model)}).out == shown.out
    both = nmt("inspect", model, "--model", model)
    assert (both.code, both.err) == (2, "nmt: give one model directory, as DIR or with --model\n")
    none = "no model: give --model DIR, set NMT_MODEL, or train one"
    assert nmt("plot", "curves", model, "-o", "argument.svg").code == 0
    assert nmt("plot", "curves", "--model", model, "-o", "option.svg").code == 0
    assert Path("argument.svg").read_bytes() == Path("option.svg").read_bytes()
    assert nmt("plot", "curves", model, "--model", model, "-o", "c.svg").err == (
        f"nmt: {model}: is named twice. Name each run once\n"
    )
    for command in (("inspect",), ("plot", "curves", "-o", "c.svg")):
        result = nmt(*command)
        assert (result.code, result.out) == (2, b"")
        assert none in result.err
    shutil.copytree(model, "runs/newest")
    assert nmt("plot", "curves", "-o", "newest.svg").err == (
        "model: runs/newest (the newest finished run in runs/)\n1 run -> newest.svg\n"
    )
    assert b"bidirectional gru" in nmt("inspect").out


def test_curves_follow_a_training_until_it_has_finished(nmt, model: Path, tmp_path: Path, monkeypatch):
    run, page = tmp_path / "run", tmp_path / "curves.html"
    shutil.copytree(model, run)
    metrics, index = run / "metrics.jsonl", run / "checkpoints/index.json"
    lines, finished = metrics.read_bytes().splitlines(keepends=True), index.read_text()
    pages = []

    def go_on(_: float) -> None:
        """Log the rest of the training, and then finish it."""
        pages.append(page.read_bytes())
        if len(pages) == 2:
            metrics.write_bytes(b"".join(lines))
        elif len(pages) == 3:
            index.write_text(finished)

    metrics.write_bytes(b"".join(lines[: len(lines) // 2]))
    index.write_text(json.dumps({**json.loads(finished), "finished": None}))
    monkeypatch.setattr("nmt_cli.assembly.pictures.sleep", go_on)
    shown = nmt("plot", "curves", run, "-o", page, "--live")
    assert (shown.code, shown.err.count("follows the training")) == (0, 1), shown.err
    pages.append(page.read_bytes())
    assert [b'http-equiv="refresh"' in one for one in pages] == [True, True, True, False]
    assert [one != before for before, one in pairwise(pages)] == [False, True, True]
    refused = nmt("plot", "curves", run, "-o", tmp_path / "curves.png", "--live")
    assert (refused.code, "give a name that ends in .html" in refused.err) == (2, True)


def test_curves_name_a_run_that_is_given_as_a_dot(nmt, model: Path, tmp_path: Path, monkeypatch):
    shutil.copytree(model, tmp_path / "one")
    shutil.copytree(model, tmp_path / "two")
    monkeypatch.chdir(tmp_path / "one")
    assert nmt("plot", "curves", ".", "../two", "-o", "c.svg").code == 0
    assert all(f"{name}: " in Path("c.svg").read_text() for name in ("one", "two"))


def test_inspect_says_what_is_damaged(nmt, model: Path, tmp_path: Path):
    shutil.copytree(model, tmp_path / "run")
    tokenizer = tmp_path / "run/tokenizer/joint.model"
    tokenizer.write_bytes(tokenizer.read_bytes()[:1000])
    result = nmt("inspect", tmp_path / "run")
    assert result.code == 2
    assert f"nmt: {tokenizer}: " in result.err
    tokenizer.unlink()
    assert "tokenizer    not trained yet" in nmt("inspect", tmp_path / "run").out.decode()


def test_inspect_goes_on_where_a_part_is_damaged(nmt, model: Path, tmp_path: Path):
    run = shutil.copytree(model, tmp_path / "run", ignore=shutil.ignore_patterns("mean-*"))
    steps = sorted((run / "checkpoints").glob("step-*"))
    (run / "confidence.json").write_text("[")
    (steps[-1] / "dangling").symlink_to("/nowhere")
    names = [str(int(step.name.removeprefix("step-"))) for step in steps]
    meta = (steps[0] / "meta.json").read_bytes()
    (steps[0] / "meta.json").write_text("{")
    report = json.loads(nmt("inspect", run, "--json").out)
    assert f"damaged: {steps[0] / 'meta.json'}: is not valid JSON" in report["checkpoints"][names[0]]
    assert " MB, " in report["checkpoints"][names[-1]]
    assert report["confidence"].startswith(f"damaged: {run / 'confidence.json'}: is not valid JSON")
    assert report["confidence"].endswith(f"; fit it again: nmt evaluate --calibrate --model {run}")
    (steps[0] / "meta.json").write_bytes(meta)
    weights = (steps[0] / "model.safetensors").read_bytes()
    (steps[0] / "model.safetensors").write_bytes(weights[:-1])
    problem = f"{steps[0] / 'model.safetensors'}: is not a whole safetensors file: "
    assert json.loads(nmt("inspect", run, "--json").out)["checkpoints"][names[0]].startswith(f"damaged: {problem}")
    cut = nmt("card", "--model", run, "--checkpoint", names[0])
    assert (cut.code, cut.out, cut.err.startswith(f"nmt: {problem}")) == (2, b"", True)
    (steps[0] / "model.safetensors").unlink()
    report = json.loads(nmt("inspect", run, "--json").out)
    problem = f"{steps[0] / 'model.safetensors'}: there is no such file; the checkpoint is incomplete"
    assert report["checkpoints"][names[0]] == f"damaged: {problem}"
    missing = nmt("card", "--model", run, "--checkpoint", names[0])
    assert missing.code == 2
    assert f"model.safetensors: there is no such file; --checkpoint takes another: {names[1]}" in missing.err
    assert "--last N and --best N choose which are averaged" in nmt("average", "--model", run, "--name", "m").err
    (run / "improve.json").write_text("{")
    refused = nmt("inspect", run)
    message = (
        "It only records what the model was made from: restore it from a backup, or delete it, and the model works"
    )
    assert (refused.code, refused.err) == (2, f"nmt: {run / 'improve.json'}: is damaged. {message}\n")


def test_evaluate_scores_the_test_sets_and_writes_a_report(nmt, model: Path, corpus: Path, tmp_path: Path):
    model = Path(shutil.copytree(model, tmp_path / "run"))
    result = nmt("evaluate", "--model", model)
    assert result.code == 0, result.err
    assert re.match(r"book: BLEU = [\d.]+  chrF2 = [\d.]+  TER = [\d.]+", result.lines[0])
    report = json.loads((model / "reports/report.json").read_text())
    scored = nmt("score", model / "reports/book.fr", "--reference", corpus / "test.fr", "--json")
    assert json.loads(scored.out)["bleu"] == report["sets"]["book"]["bleu"]
    wrong = nmt("evaluate", "--model", model, "--only", "nothing", "-o", tmp_path / "new")
    assert (wrong.code, wrong.out) == (2, b"")
    assert wrong.err == f"nmt: {model / 'config.yaml'}: no test set nothing; there are: book\n"
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_evaluate_keeps_what_a_report_says_of_other_sets_and_checkpoints(
    nmt, model: Path, corpus: Path, tmp_path: Path
):
    """Each set says of which models and checkpoints its scores are."""
    shutil.copytree(model, tmp_path / "run")
    config = tmp_path / "run/config.yaml"
    other = f"  - {{name: dev, source: {corpus}/dev.en, target: {corpus}/dev.fr}}\n"
    config.write_text(config.read_text().replace("  test:\n", f"  test:\n{other}"))
    assert nmt("evaluate", "--model", tmp_path / "run", "-o", tmp_path).code == 0
    both = json.loads((tmp_path / "report.json").read_text())["sets"]
    assert sorted(both) == ["book", "dev"]
    only_one = ("--only", "dev", "--checkpoint", "50")
    result = nmt("evaluate", "--model", tmp_path / "run", *only_one, "-o", tmp_path)
    assert result.code == 0, result.err
    assert [line.partition(":")[0] for line in result.lines if not line.startswith(" ")] == ["dev"]
    after = json.loads((tmp_path / "report.json").read_text())["sets"]
    assert after["book"] == both["book"]
    made_by = {"models": [str(tmp_path / "run")], "checkpoint": "50", "checkpoints": ["step-00000050"]}
    assert {key: after["dev"][key] for key in made_by} == made_by
    older = {"models": ["m"], "checkpoints": ["c"], "sets": {"book": {"bleu": both["book"]["bleu"]}, "dev": {}}}
    (tmp_path / "report.json").write_text(json.dumps(older))
    assert nmt("evaluate", "--model", tmp_path / "run", *only_one, "-o", tmp_path).code == 0
    after = json.loads((tmp_path / "report.json").read_text())
    assert list(after) == ["sets"]
    assert after["sets"]["book"] == {"models": ["m"], "checkpoints": ["c"], "bleu": both["book"]["bleu"]}
    for text in ("[", '{"results of": "another program"}', '{"sets": {"old": 5'):
        (tmp_path / "report.json").write_text(text)
        refused = nmt("evaluate", "--model", tmp_path / "run", *only_one, "-o", tmp_path)
        message = "is not a report of `nmt evaluate`, or is damaged. Move it away or choose another -o"
        assert (refused.code, refused.err) == (2, f"nmt: {tmp_path / 'report.json'}: {message}\n")
        assert (tmp_path / "report.json").read_text() == text


def test_evaluate_refuses_a_file_in_the_place_of_its_directory(nmt, model: Path, tmp_path: Path):
    (tmp_path / "text").write_text("mine")
    result = nmt("evaluate", "--model", model, "-o", tmp_path / "text")
    assert (result.code, result.err) == (2, f"nmt: {tmp_path / 'text'}: is a file; give -o a directory\n")
    assert (tmp_path / "text").read_text() == "mine"


def test_evaluate_scores_any_text(nmt, model: Path, corpus: Path, tmp_path: Path):
    """Here it has the name of a configured set, and another text."""
    assert nmt("evaluate", "--model", model, "-o", tmp_path).code == 0
    before = json.loads((tmp_path / "report.json").read_text())["sets"]
    of_book = (tmp_path / "book.fr").read_bytes()
    for language in ("en", "fr"):
        (tmp_path / f"book.{language}.txt").write_bytes((corpus / f"dev.{language}").read_bytes())
    given = ("--source", tmp_path / "book.en.txt", "--reference", tmp_path / "book.fr.txt")
    result = nmt("evaluate", "--model", model, *given, "-o", tmp_path)
    assert result.code == 0, result.err
    name, _, scores = result.lines[0].partition(": ")
    assert re.fullmatch(r"book-[0-9a-f]{8}", name)
    after = json.loads((tmp_path / "report.json").read_text())["sets"]
    entry = after.pop(name)
    assert after == before
    assert (tmp_path / "book.fr").read_bytes() == of_book
    assert (entry["source"], entry["references"]) == (str(given[1]), [str(given[3])])
    nmt("translate", corpus / "dev.en", "--model", model, "-o", tmp_path / "translated")
    assert (tmp_path / f"{name}.fr").read_bytes() == (tmp_path / "translated").read_bytes()
    scored = json.loads(nmt("score", tmp_path / "translated", "--reference", corpus / "dev.fr", "--json").out)
    assert {metric: entry[metric] for metric in scored} == scored
    assert scores.startswith(f"BLEU = {scored['bleu']['score']:.2f}  chrF2 = ")


def test_evaluate_scores_standard_input_against_several_references(nmt, model: Path, corpus: Path, tmp_path: Path):
    shutil.copytree(model, tmp_path / "run")
    config = tmp_path / "run/config.yaml"
    text = config.read_text()
    config.write_text(text[: text.index("  test:\n")] + "  test: []\n" + text[text.index("  max_length:") :])
    first, second = corpus / "dev.fr", tmp_path / "second"
    second.write_bytes(b"La voiture\n" * 20)
    source = (corpus / "dev.en").read_bytes()
    given = ("--source", "-", "--reference", first, "--reference", second)
    result = nmt("evaluate", "--model", tmp_path / "run", *given, "-o", tmp_path / "reports", stdin=source)
    assert result.code == 0, result.err
    sets = json.loads((tmp_path / "reports/report.json").read_text())["sets"]
    (name,) = sets
    assert re.fullmatch(r"dev-[0-9a-f]{8}", name)
    assert (sets[name]["source"], sets[name]["references"]) == ("-", [str(first), str(second)])
    hypotheses = tmp_path / f"reports/{name}.fr"
    scored = nmt("score", hypotheses, "--reference", first, "--reference", second, "--json")
    assert json.loads(scored.out)["bleu"] == sets[name]["bleu"]
    again = nmt("evaluate", "--model", tmp_path / "run")
    assert again.code == 2
    assert again.err == (
        f"nmt: {config}: names no test set; give --source FILE and --reference FILE, or add data.test to the "
        "configuration and run `nmt train` again\n"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--source", "ten"], "--source and --reference belong together: give both, or neither"),
        (["--reference", "ten"], "--source and --reference belong together: give both, or neither"),
        (
            ["--source", "ten", "--reference", "ten", "--only", "book"],
            "--only chooses among the configured test sets; leave it out with --source",
        ),
        (
            ["--source", "-", "--reference", "-"],
            "standard input can be read only once: give files for the other inputs",
        ),
        (["--source", "ten", "--reference", "nil"], "{directory}/nil: there is no such file"),
        (["--source", "", "--reference", "ten"], "the name of an input file is empty"),
        (
            ["--source", "ten", "--reference", "-"],
            (
                "{directory}/ten has 10 lines and standard input has 1 line; line i of one must belong to line i of "
                "the other, so the counts must be equal"
            ),
        ),
    ],
)
def test_evaluate_refuses_what_is_no_test_set(nmt, model: Path, tmp_path: Path, monkeypatch, options, message: str):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ten").write_bytes(b"a\n" * 10)
    result = nmt("evaluate", "--model", model, *options, "-o", tmp_path / "new", stdin=b"a\n")
    assert (result.code, result.out) == (2, b"")
    assert result.err == f"nmt: {message.format(directory=tmp_path)}\n"
    assert not (tmp_path / "new").exists()


def test_evaluate_does_not_write_over_a_reference(nmt, model: Path, corpus: Path, tmp_path: Path):
    (tmp_path / "book.fr").symlink_to(corpus / "test.fr")
    reference = (corpus / "test.fr").read_bytes()
    result = nmt("evaluate", "--model", model, "-o", tmp_path)
    assert (result.code, result.out) == (2, b"")
    assert result.err == (
        f"nmt: {corpus / 'test.fr'}: cannot be both input and output. The output {tmp_path / 'book.fr'} is the same "
        "file; choose another name\n"
    )
    assert (corpus / "test.fr").read_bytes() == reference


def test_evaluate_replaces_only_what_it_has_made(nmt, model: Path, tmp_path: Path):
    own = tmp_path / "book.fr"
    own.write_text("mine\n")
    result = nmt("evaluate", "--model", model, "-o", tmp_path)
    assert (result.code, result.out) == (2, b"")
    assert f"{own}: exists, and no report.json beside it says that `nmt evaluate` made it. Move it away" in result.err
    assert own.read_text() == "mine\n"
    (tmp_path / "report.json").write_text('{"sets": {"another": {}}}')
    result = nmt("evaluate", "--model", model, "-o", tmp_path)
    assert f"{own}: exists, and report.json beside it does not say that `nmt evaluate` made it. Move it" in result.err
    assert (result.code, own.read_text()) == (2, "mine\n")
    for _ in range(2):
        assert nmt("evaluate", "--model", model, "-o", tmp_path / "new").code == 0


def test_evaluate_refuses_before_it_translates(nmt, model: Path, tmp_path: Path):
    (tmp_path / "book.fr").mkdir()
    result = nmt("evaluate", "--model", model, "-o", tmp_path)
    assert (result.code, result.out) == (2, b"")
    assert result.err == f"nmt: {tmp_path / 'book.fr'}: is a directory; give the name of a file\n"
    shutil.copytree(model, tmp_path / "run")
    config = tmp_path / "run/config.yaml"
    for old, new, message in (
        ("  test:\n", "  test:\n  - {name: a, source: nil, target: nil}\n", "nil: there is no such file"),
        ("tokenize: null", "tokenize: flores101", "scoring.tokenize flores101: needs a model file that is not there"),
    ):
        text = (model / "config.yaml").read_text()
        assert old in text
        config.write_text(text.replace(old, new))
        sets = ("--only", "book", *(("--only", "a") if "nil" in new else ()))
        result = nmt("evaluate", "--model", tmp_path / "run", *sets, "-o", tmp_path / "new")
        assert (result.code, result.out) == (2, b"")
        assert message in result.err
        assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_evaluate_chooses_the_length_penalty_on_the_dev_set_alone(nmt, model: Path, corpus: Path, tmp_path: Path):
    """The choice is what `nmt translate` and `nmt score` would give for each penalty; the test set has no say."""
    result = nmt("evaluate", "--model", model, "--tune-length-penalty", "-o", tmp_path)
    assert result.code == 0, result.err
    report = json.loads((tmp_path / "report.json").read_text())["sets"]["book"]["length_penalty"]
    by_hand = {}
    for penalty in report["dev_bleu"]:
        hypotheses = tmp_path / "dev.fr"
        nmt("translate", corpus / "dev.en", "--model", model, "--length-penalty", penalty, "-o", hypotheses)
        by_hand[penalty] = json.loads(nmt("score", hypotheses, "--reference", corpus / "dev.fr", "--json").out)["bleu"]
    assert report["dev_bleu"] == pytest.approx({penalty: score["score"] for penalty, score in by_hand.items()})
    assert report["dev_bleu"][f"{report['chosen']:g}"] == max(report["dev_bleu"].values())
    assert f"length penalty {report['chosen']:g} is best. To use it: nmt translate --length-penalty" in result.err
    nmt("translate", corpus / "test.en", "--model", model, "--length-penalty", str(report["chosen"]), "-o", hypotheses)
    assert hypotheses.read_bytes() == (tmp_path / "book.fr").read_bytes()


@pytest.mark.slow
def test_what_happened_to_odd_lines_is_said_by_evaluate_and_plots(nmt, model: Path, tmp_path: Path):
    """As by `nmt translate`: lines in parts, and bytes that are not UTF-8."""
    shutil.copytree(model, tmp_path / "run")
    (tmp_path / "t.en").write_bytes(b"the red car " * 120 + b"\nthe \xff cat\n")
    (tmp_path / "t.fr").write_bytes(b"la voiture\nle chat\n")
    saved = tmp_path / "run/config.yaml"
    text = saved.read_text()
    for side in ("en", "fr"):
        text = re.sub(rf"\S*/test\.{side}", str(tmp_path / f"t.{side}"), text)
    saved.write_text(text)
    result = nmt("evaluate", "--model", tmp_path / "run")
    assert result.code == 0, result.err
    assert "t.en: 1 line is not valid UTF-8" in result.err
    assert re.search(r"1 line has more than \d+ pieces and was translated in parts", result.err)
    drawn = nmt("plot", "attention", tmp_path / "t.en", "--model", model, "-o", tmp_path / "a.html")
    assert drawn.code == 0, drawn.err
    assert "the page leaves out the steps of the search for lines that were translated in parts" in drawn.err
    assert "1 line is not valid UTF-8" in drawn.err


def test_blank_sources_stand_in_the_first_group_of_a_picture_of_lengths(nmt, tmp_path: Path):
    """As in the table of `nmt score --by-length`."""
    (tmp_path / "s").write_text("\na b c\n")
    (tmp_path / "r").write_text("x\nA B C\n")
    drawn = nmt(
        "plot", "lengths", "--source", tmp_path / "s", "--reference", tmp_path / "r", "--hypothesis",
        tmp_path / "r", "-o", tmp_path / "l.svg",
    )  # fmt: skip
    assert drawn.code == 0, drawn.err
    assert "n=2" in (tmp_path / "l.svg").read_text()


@pytest.mark.parametrize("line", ["[" * 200_000, "{"])
def test_a_metrics_file_that_is_none_is_refused(nmt, tmp_path: Path, line: str):
    (tmp_path / "m.jsonl").write_text(f"\n{line}\n")
    result = nmt("plot", "curves", tmp_path / "m.jsonl", "-o", tmp_path / "c.png")
    assert result.code == 2
    assert result.err.endswith("m.jsonl:2: is not JSON; give a model directory or its metrics.jsonl\n")


def test_a_last_line_of_metrics_that_was_cut_off_is_left_out(nmt, model: Path, tmp_path: Path):
    metrics = tmp_path / "m.jsonl"
    metrics.write_text((model / "metrics.jsonl").read_text() + '{"event": "train", "st')
    result = nmt("plot", "curves", metrics, "-o", tmp_path / "c.svg")
    assert result.code == 0
    assert "the last line was cut off, and is left out" in result.err


def test_a_backend_that_is_none_does_no_harm(tmp_path: Path):
    (tmp_path / "m.jsonl").write_text('{"event": "train", "step": 1, "loss": 2.0}\n')
    command = [sys.executable, "-m", "nmt_cli", "plot", "curves", tmp_path / "m.jsonl", "-o", tmp_path / "c.svg"]
    done = subprocess.run(command, env=os.environ | {"MPLBACKEND": "none"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, f"1 run -> {tmp_path / 'c.svg'}\n")


def test_a_picture_that_cannot_be_written_is_refused_before_the_work(nmt, model: Path, tmp_path: Path):
    for command in (
        ("attention", "nil", "--model", model),
        ("lengths", "--source", "nil", "--reference", "nil", "--hypothesis", "nil"),
    ):
        result = nmt("plot", *command, "-o", tmp_path / "x.pdf")
        assert result.code == 2
        assert "x.pdf: the ending says what to write: it must be .png" in result.err


def test_a_place_that_may_not_be_entered_is_the_users_to_mend(nmt, monkeypatch, tmp_path: Path):
    exists = Path.exists

    def guarded(path: Path, **options: bool) -> bool:
        if "private" in path.parts:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return exists(path, **options)

    monkeypatch.setattr(Path, "exists", guarded)
    path = tmp_path / "private/run"
    result = nmt("plot", "curves", path, "-o", tmp_path / "c.png")
    assert (result.code, result.err) == (2, f"nmt: {path}: permission denied\n")
    config = tmp_path / "c.yaml"
    config.write_text(CONFIG.format(model_dir=tmp_path / "run", corpus=path))
    result = nmt("check", "--config", config)
    assert result.code == 2
    assert f"nmt: {path}/train.en: cannot be read: permission denied\n{path}/train.fr: cannot" in result.err


def test_a_shortlist_is_not_compressed(nmt, model: Path, corpus: Path, tmp_path: Path):
    path = tmp_path / "s.safetensors.gz"
    result = nmt("shortlist", corpus / "dev.en", corpus / "dev.fr", "--model", model, "-o", path)
    assert (result.code, result.err) == (2, f"nmt: {path}: a shortlist cannot be compressed. Leave out .gz\n")
    assert not path.exists()


def test_a_number_that_is_too_large_is_no_point_of_a_curve(nmt, tmp_path: Path):
    (tmp_path / "m.jsonl").write_text('{"event": "train", "step": 1, "loss": 1' + "0" * 400 + "}\n")
    result = nmt("plot", "curves", tmp_path / "m.jsonl", "-o", tmp_path / "c.svg")
    assert result.code == 2
    assert result.err.endswith("nothing to draw: there is no loss yet; wait for the first log line of the training\n")


def test_plots_are_drawn_from_a_model_metrics_and_scores(nmt, model: Path, corpus: Path, tmp_path: Path):
    text = b"Where is the red car?\n\nThe cat is small.\n"
    for ending in ("png", "svg", "html"):
        result = nmt("plot", "attention", "--model", model, "-o", tmp_path / f"a.{ending}", stdin=text)
        assert result.code == 0, result.err
        assert (tmp_path / f"a.{ending}").stat().st_size > 1000
    assert "Where" in (tmp_path / "a.html").read_text()
    drawn = nmt("plot", "curves", model, "-o", tmp_path / "c.svg")
    assert (drawn.code, drawn.err) == (0, f"1 run -> {tmp_path / 'c.svg'}\n")
    lengths = nmt(
        "plot", "lengths", "--source", corpus / "test.en", "--reference", corpus / "test.fr", "--hypothesis",
        f"same={corpus / 'test.fr'}", "-o", tmp_path / "l.png", "--edges", "4,6,8",
    )  # fmt: skip
    assert lengths.code == 0, lengths.err
    both = nmt(
        "plot", "lengths", "--source", corpus / "test.en", "--reference", corpus / "test.fr", "--hypothesis",
        corpus / "test.fr", "--hypothesis", model / "test.fr", "-o", tmp_path / "l.png",
    )  # fmt: skip
    assert both.code == 2
    assert "a system is called 'test' already; give NAME=" in both.err
    shutil.copytree(model, tmp_path / "other" / model.name)
    twice = nmt("plot", "curves", model, tmp_path / "other" / model.name, "-o", tmp_path / "t.svg")
    assert twice.code == 0
    assert all(f"{path}: " in (tmp_path / "t.svg").read_text() for path in (model, tmp_path / "other" / model.name))
    os.mkfifo(tmp_path / "pipe.svg")
    reader = subprocess.Popen(["cat", tmp_path / "pipe.svg"], stdout=subprocess.PIPE)
    assert nmt("plot", "curves", model, "-o", tmp_path / "pipe.svg").code == 0
    assert reader.communicate()[0] == (tmp_path / "c.svg").read_bytes()
    wrong = nmt("plot", "curves", model, "-o", tmp_path / "c.txt")
    assert wrong.code == 2
    assert "c.txt" in wrong.err
    nowhere = nmt("plot", "curves", tmp_path / "nowhere", "-o", tmp_path / "c.png")
    assert nowhere.code == 2
    assert (
        nowhere.err
        == f"nmt: {tmp_path / 'nowhere'}: there is no such file. Give a model directory or its metrics.jsonl\n"
    )


def test_a_hypothesis_may_have_an_equals_sign_in_its_path(nmt, tmp_path: Path, corpus: Path):
    """As programs name directories that try settings, such as `rate=0.1`."""
    given = tmp_path / "rate=0.1" / "test.fr"
    given.parent.mkdir()
    given.write_bytes((corpus / "test.fr").read_bytes())
    for hypothesis in (given, f"ours={given}"):
        result = nmt(
            "plot", "lengths", "--source", corpus / "test.en", "--reference", corpus / "test.fr", "--hypothesis",
            hypothesis, "-o", tmp_path / "lengths.png",
        )  # fmt: skip
        assert result.code == 0, result.err


def drawn_on(page: Path) -> list[dict[str, Any]]:
    """Return the sentences of an attention page with their weights."""
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script', page.read_text(), re.DOTALL)
    pictures: list[dict[str, Any]] = json.loads(data)
    return pictures


def test_an_attention_page_accounts_for_all_attention(nmt, model: Path, corpus: Path, tmp_path: Path):
    """The alignment of a search, of given pairs, and of a line in parts. Fails if the end of the source is left out."""
    long = " ".join((corpus / "dev.en").read_text().split()) + "\n"
    lines = f"The red car.\n{long}".encode()
    searched = nmt("plot", "attention", "--model", model, "-o", tmp_path / "s.html", stdin=lines)
    assert searched.code == 0, searched.err
    assert "warning: 1 line has more than 250 pieces and was translated in parts, " in searched.err
    forced = nmt(
        "plot", "attention", corpus / "dev.en", "--target", corpus / "dev.fr", "--model", model,
        "-o", tmp_path / "f.html",
    )  # fmt: skip
    assert forced.code == 0, forced.err
    pictures = drawn_on(tmp_path / "s.html") + drawn_on(tmp_path / "f.html")
    assert len(pictures) == 22
    for picture in pictures:
        for row in picture["weights"]:
            assert len(row) == len(picture["source"]) + 1
            assert sum(row) == pytest.approx(1, abs=0.0001 * len(row))
    soft = nmt("translate", "--model", model, "--alignment", "soft", "--format", "jsonl", stdin=b"The red car.\n")
    of_words = json.loads(soft.out)["alignment"]
    assert [row[:-1] for row in pictures[0]["weights"]] == [pytest.approx(row, abs=0.0001) for row in of_words]


@pytest.mark.soak
def test_a_picture_of_many_lines_says_what_it_leaves_out(nmt, model: Path, tmp_path: Path):
    lines = b"Where is the red car?\n" * 201
    page = nmt("plot", "attention", "--model", model, "-o", tmp_path / "a.html", stdin=lines)
    assert page.code == 0, page.err
    assert "warning: only the first 200 of 201 lines are drawn\n" in page.err
    assert page.err.endswith(f"200 sentences -> {tmp_path / 'a.html'}\n")
    figure = nmt("plot", "attention", "--model", model, "-o", tmp_path / "a.png", stdin=lines)
    assert figure.code == 0, figure.err
    (number,) = re.findall(r"warning: only the first (\d+) sentences are drawn, as many as one figure can", figure.err)
    assert 4 < int(number) < 50
    assert figure.err.endswith(f"{number} sentences -> {tmp_path / 'a.png'}\n")


@pytest.mark.parametrize(
    "option",
    [
        ("--threads", "99999999999"), ("--beam-size", "99999999999999999999"), ("--length-penalty", "inf"),
        ("--length-penalty", "11"),
        ("--temperature", "inf"),
    ],
)  # fmt: skip
def test_numbers_beyond_any_use_are_refused(nmt, model: Path, option):
    result = nmt("translate", "--model", model, *option, stdin=b"x\n")
    assert result.code == 2
    assert option[0] in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("recurrence", ["bahdanau", "conditional", "luong"])
@pytest.mark.parametrize(
    "attention", ["none", "dot", "local-m", "local-p", "location", "multihead", "general", "concat"]
)
@pytest.mark.slow
@pytest.mark.usefixtures("echoed_dev_set")
def test_every_attention_trains_and_translates_with_every_recurrence(
    nmt, config: Path, recurrence: str, attention: str
):
    sets = [f"model.decoder.recurrence={recurrence}", f"model.attention.type={attention}", "training.max_steps=2"]
    result = nmt("train", "--config", config, *[word for option in sets for word in ("--set", option)])
    assert result.code == 0, result.err
    projected = (
        "decoder states have 16 units and encoder states 32, so dot projects the encoder states, as general does\n"
    )
    assert (projected in result.err) == (attention == "dot")
    assert nmt("translate", "--model", config.parent / "run", stdin=b"The car\n").out.count(b"\n") == 1


def test_pairs_that_are_not_utf_8_are_counted(nmt, model: Path, tmp_path: Path):
    (tmp_path / "s").write_bytes(b"The \xff car\nThe cat\n")
    (tmp_path / "t").write_bytes(b"La voiture\nLe \xfe chat\n")
    for command in ("rescore", "align", "shortlist"):
        result = nmt(command, tmp_path / "s", tmp_path / "t", "--model", model, "-o", tmp_path / "out")
        assert result.code == 0
        assert ": 2 pairs are not valid UTF-8; invalid bytes are read as U+FFFD" in result.err


@pytest.mark.parametrize(
    "words",
    [
        ("schema",),
        ("inspect", "MODEL"),
        ("score", "TEXT", "--reference", "TEXT"),
        ("encode", "TEXT", "--model", "MODEL"),
    ],
)
def test_data_for_a_standard_output_that_is_closed_is_not_lost_without_a_word(
    model: Path, corpus: Path, words: tuple[str, ...]
):
    given = {"MODEL": str(model), "TEXT": str(corpus / "dev.fr")}
    command = shlex.join([sys.executable, "-m", "nmt_cli", *(given.get(word, word) for word in words)])
    ran = subprocess.run(f"{command} >&-", shell=True, stderr=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr.startswith("nmt: standard output is closed")


INTERRUPTED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job has ignored
class Interruption:
    def find_spec(self, name, *_):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interruption())
sys.argv = ["nmt", "schema"]
from nmt_cli.__main__ import main
main()
"""


def test_an_interruption_while_the_program_is_read_leaves_no_traceback():
    ran = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGINT, b"", b"")


OTHER_SIGNALS = ((signal.SIGTERM, 143), (signal.SIGHUP, 129))
AMID_AN_IMPORT = """
class Signal:
    def find_spec(self, name, *_):
        if name == "yaml":  # amid the reading of another module, which takes what is raised for no module
            sys.meta_path.remove(self)
            try:
                os.kill(os.getpid(), number)
                time.sleep(0.2)
            except BaseException:
                raise ModuleNotFoundError(name) from None
sys.meta_path.insert(0, Signal())
"""
AMID_A_DEL = """
from nmt_cli import cli
class Signal:
    def __del__(self):  # whose exceptions Python shows and forgets
        os.kill(os.getpid(), number)
        time.sleep(0.2)
def app(words, run=cli.app, **options):
    Signal()
    return run(words, **options)
cli.app = app
"""


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), *(pytest.param(*other, marks=pytest.mark.soak) for other in OTHER_SIGNALS)],
)
@pytest.mark.parametrize("amid", others_slow(AMID_AN_IMPORT, AMID_A_DEL))
def test_a_signal_that_is_taken_from_the_program_comes_again(model: Path, amid: str, number: int, code: int):
    program = f"""
import os, signal, sys, time
number = {number:d}
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job has ignored
{amid}
from nmt_cli.__main__ import main
main()
"""
    command = [sys.executable, "-c", program, "translate", "--model", str(model)]
    # Its input never ends, so that it cannot be done before it hears the signal.
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.wait(timeout=60) == code
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")


def test_a_configuration_may_come_by_standard_input(nmt, config: Path):
    result = nmt("train", "--config", "-", "--dry-run", stdin=config.read_bytes())
    assert (result.code, result.out) == (0, nmt("train", "--config", config, "--dry-run").out)
    assert nmt("check", "--config", "-", stdin=b"name: x\n").err.startswith(
        "nmt: standard input: missing key 'model_dir'"
    )
    assert nmt("check", "--config", "-", stdin=b"").err.startswith("nmt: standard input: is not a configuration")


def test_on_windows_it_says_what_it_needs():
    script = "import sys; sys.platform = 'win32'; from nmt_cli.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "nmt: does not run on Windows; it needs Linux, such as WSL has (wsl --install)\n"
