"""`nmt export` and `nmt card` through the real command line, and the exported program as a real process."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from marks import others_soak
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from nmt_cli.config.yaml_text import parse_yaml
from nmt_cli.export.onnx import directory, graph

ROOT = Path(__file__).parents[2]
ODD = (
    b"where is the red car ?\n\n \t \n<b>x</b>\x00 \xff\xfe\n\xe2\x80\xa8a\xc2\x85 cr\r\n"
    + b"the red car is here . " * 45
    + b"\n\xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80 without an end"
)
OPTIONS = [(), ("--beam-size", "1"), ("--n-best", "3", "--alignment", "hard"), ("--length-penalty", "0.2")]


@pytest.fixture(scope="session")
def exported(once, model: Path):
    pytest.importorskip("onnx")

    def export(directory: Path) -> None:
        words = ("export", "--model", model, "-o", directory / "onnx", "--format", "onnx")
        command = (sys.executable, "-m", "nmt_cli", *words)
        subprocess.run(command, check=True, capture_output=True)

    return once("exported", export) / "onnx"


def run(command, directory, options, text):
    ran = subprocess.run([*command, *options, "--threads", "1"], cwd=directory, input=text, capture_output=True)
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout


def same_as_nmt(nmt, directory, model, corpus, options):
    text = (corpus / "test.en").read_bytes() + ODD
    assert (
        run((sys.executable, "translate.py"), directory, options, text)
        == nmt("translate", "--model", model, *options, stdin=text).out
    )


@pytest.mark.parametrize("options", others_soak(OPTIONS[2], *OPTIONS[:2], OPTIONS[3]), ids=str)
def test_the_python_program_translates_as_nmt_does(nmt, exported, model, corpus, options):
    pytest.importorskip("onnxruntime")
    same_as_nmt(nmt, exported, model, corpus, options)


@pytest.mark.slow
def test_no_repeated_ngram_is_a_default_that_the_program_takes_over(nmt, tmp_path, model, corpus):
    pytest.importorskip("onnxruntime")
    copy = shutil.copytree(model, tmp_path / "model")
    config = (copy / "config.yaml").read_text(encoding="utf-8")
    (copy / "config.yaml").write_text(config.replace("no_repeat_ngram: 0", "no_repeat_ngram: 2"), encoding="utf-8")
    assert nmt("export", "--model", copy, "-o", tmp_path / "onnx", "--format", "onnx").code == 0
    same_as_nmt(nmt, tmp_path / "onnx", copy, corpus, ("--n-best", "2"))


def test_a_program_that_waits_for_its_answer_gets_it(exported):
    pytest.importorskip("onnxruntime")
    command = [sys.executable, exported / "translate.py", "--threads", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for line in (b"the red car\n", b"\n", b"the blue car\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline().endswith(b"\n")
        process.stdin.close()
        assert process.wait() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--n-best", "9"), "--n-best 9 is more than the beam, 3; raise --beam-size"),
        (("--beam-size", "0"), "--beam-size and --n-best must be at least 1"),
        (("--beam-size", "1001"), "--beam-size 1001: must be at most 1000"),
        (("--threads", "-1"), "--threads -1: must be from 0 to 4096"),
        (("--length-penalty", "nan"), "--length-penalty nan: must be a number from 0 to 10"),
    ],
)
def test_the_python_program_says_what_is_wrong(exported, options, message):
    pytest.importorskip("onnxruntime")
    command = [sys.executable, exported / "translate.py", *options]
    ran = subprocess.run(command, input=b"", capture_output=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert ran.stderr.decode().endswith(f"error: {message}\n")


@pytest.mark.parametrize(
    ("streams", "message"),
    [("<&-", "standard input or standard output is closed"),
     (">/dev/full", "the input or the output failed: No space left on device")],
)  # fmt: skip
def test_the_python_program_says_which_stream_fails(exported, streams, message):
    pytest.importorskip("onnxruntime")
    command = f'echo "the red car" | {sys.executable} {exported / "translate.py"} --threads 1 {streams}'
    ran = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr.decode()) == (1, f"translate.py: error: {message}\n")


def test_the_program_says_which_library_it_lacks(tmp_path, exported):
    pytest.importorskip("onnxruntime")
    (tmp_path / "onnxruntime.py").write_text("raise ImportError(name='onnxruntime')")
    command = [sys.executable, exported / "translate.py"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(command, input=b"the red car\n", capture_output=True, check=False, env=environment)
    message = "translate.py: error: needs onnxruntime: pip install onnxruntime numpy 'sentencepiece>=0.2.3'\n"
    assert (ran.returncode, ran.stdout, ran.stderr.decode()) == (1, b"", message)


@pytest.mark.parametrize("name", ["defaults.json", "joint.model", "encoder.onnx"])
def test_the_program_says_that_its_model_is_not_whole(tmp_path, exported, name):
    pytest.importorskip("onnxruntime")
    directory = shutil.copytree(exported, tmp_path / "onnx")
    (directory / name).unlink()
    command = [sys.executable, directory / "translate.py"]
    ran = subprocess.run(command, input=b"the red car\n", capture_output=True, check=False)
    message = f"translate.py: error: {directory} does not hold a whole model; export it again: "
    assert (ran.returncode, ran.stdout) == (1, b"")
    said = ran.stderr.decode()
    assert said.startswith(message)
    assert name in said
    assert said.count("\n") == 1


def test_the_directory_holds_what_its_readme_says(exported, model):
    names = {path.name for path in exported.iterdir()}
    assert names == {
        "encoder.onnx", "decoder.onnx", "joint.model", "defaults.json", "translate.py", "README.md", "MODEL_CARD.md",
    }  # fmt: skip
    readme = (exported / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in readme for name in names - {"README.md"})
    assert "| input | `memory.keys` | float32 | batch, source, 16 |" in readme
    assert (exported / "joint.model").read_bytes() == (model / "tokenizer/joint.model").read_bytes()
    defaults = json.loads((exported / "defaults.json").read_text(encoding="utf-8"))
    assert (defaults["beam_size"], defaults["max_length_a"], defaults["opset"]) == (3, 1.0, graph.OPSET)
    card = (exported / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert parse_yaml(card.split("---\n")[1], "card")["language"] == ["en", "fr"]


def test_the_next_command_can_be_typed_and_a_difference_to_nmt_is_said(nmt, tmp_path, model):
    pytest.importorskip("onnx")
    copy = shutil.copytree(model, tmp_path / "copy")
    config = (copy / "config.yaml").read_text(encoding="utf-8")
    directory = tmp_path / "my export"
    plain = nmt("export", "--model", copy, "-o", directory, "--format", "onnx").err
    assert plain.endswith(f"try: echo 'A sentence.' | python '{directory}/translate.py'\n")
    (copy / "config.yaml").write_text(
        config.replace("normalize_input: false", "normalize_input: true"), encoding="utf-8"
    )
    said = nmt("export", "--model", copy, "-o", tmp_path / "page.html").err
    assert "warning: of decoding.normalize_input, the page does only capitals and missing full stops. Lines" in said
    said = nmt("export", "--model", copy, "-o", tmp_path / "graphs", "--format", "onnx").err
    assert "warning: the export does not do decoding.normalize_input. Lines in capitals, for example, may be" in said


def test_the_same_model_gives_the_same_bytes(nmt, tmp_path, exported, model):
    assert nmt("export", "--model", model, "-o", tmp_path / "again", "--format", "onnx").code == 0
    for path in exported.iterdir():
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def test_int8_is_smaller_and_translates(nmt, tmp_path, exported, model):
    pytest.importorskip("onnxruntime")
    directory = tmp_path / "int8"
    result = nmt("export", "--model", model, "-o", directory, "--format", "onnx", "--precision", "int8")
    assert result.code == 0
    assert (directory / "encoder.onnx").stat().st_size < (exported / "encoder.onnx").stat().st_size
    assert run((sys.executable, "translate.py"), directory, (), b"the red car\n\n").count(b"\n") == 2


WRONG = {
    "no model": (["--model", "nowhere", "-o", "out"], "nowhere: there is no such model directory"),
    "not a model": (["--model", "{empty}", "-o", "out"], "is not a model directory (it has no config.yaml)"),
    "no checkpoint": (["--model", "{model}", "-o", "out", "--checkpoint", "7"], "there is no checkpoint '7'"),
    "no output": (["--model", "{model}"], "-o is missing: give the page (FILE.html) or the directory to write"),
    "a file": (["--model", "{model}", "-o", "{file}"], "{file}: exists already and is not replaced"),
    "not empty": (["--model", "{model}", "-o", "{full}"], "{full}: exists already and is not replaced"),
    "below a file": (["--model", "{model}", "-o", "{file}/out"], "{file}/out: cannot be made"),
    "precision": (["--model", "{model}", "-o", "out", "--precision", "bf16"], "must be one of fp32, int8 with"),
    "two models": (["--model", "{model}", "--model", "{model}", "-o", "out"], "--format onnx: takes one --model"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_exported_is_one_message(nmt, tmp_path, monkeypatch, model, name):
    pytest.importorskip("onnx")
    places = {"model": model, "empty": tmp_path / "empty", "full": tmp_path / "full", "file": tmp_path / "file"}
    places["empty"].mkdir()
    places["full"].mkdir()
    (places["full"] / "mine").write_text("kept")
    places["file"].write_text("kept")
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    options, message = WRONG[name]
    result = nmt("export", *(option.format(**places) for option in options), "--format", "onnx")
    assert (result.code, result.out) == (2, b"")
    assert message.format(**places) in result.err
    assert result.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
    assert (places["full"] / "mine").read_text() == places["file"].read_text() == "kept"


WRONG_PAGES = {
    "no model": (["--model", "nowhere", "-o", "page.html"], "nowhere: there is no such model directory"),
    "not a model": (["--model", "{empty}", "-o", "page.html"], "is not a model directory (it has no config.yaml)"),
    "no checkpoint": (["--model", "{model}", "-o", "page.html", "--checkpoint", "7"], "there is no checkpoint '7'"),
    "no format": (["--model", "{model}", "-o", "page"], "page: give a name that ends in .html, or --format onnx for a"),
    "another's file": (
        ["--model", "{model}", "-o", "{file}"],
        "{file}: exists already and is not a page of nmt export",
    ),
    "a directory": (["--model", "{model}", "-o", "{empty}", "--format", "html"], "{empty}: is a directory; give the"),
    "no directory": (["--model", "{model}", "-o", "no/page.html"], "no: there is no such directory; make it first"),
    "precision": (
        ["--model", "{model}", "-o", "page.html", "--precision", "fp32"],
        "--precision fp32: must be int8 in",
    ),
    "one direction twice": (
        ["--model", "{model}", "--model", "{model}", "-o", "page.html"],
        "two models translate from en to fr; a page holds one of them",
    ),
    "a broken model": (
        ["--model", "{broken}", "-o", "page.html"],
        "output_bias holds values that are not finite; the model is damaged",
    ),
}


@pytest.mark.parametrize("name", WRONG_PAGES)
def test_what_cannot_be_a_page_is_one_message(nmt, tmp_path, monkeypatch, model, name):
    places = {
        "model": model,
        "empty": tmp_path / "empty",
        "file": tmp_path / "mine.html",
        "broken": tmp_path / "broken",
    }
    places["empty"].mkdir()
    places["file"].write_text("kept")
    if name == "a broken model":
        shutil.copytree(model, places["broken"])
        for path in places["broken"].glob("checkpoints/*/model.safetensors"):
            tensors = load_file(path)
            tensors["output_bias"][3] = float("nan")
            save_file(tensors, path, safe_open(path, "pt").metadata())
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    options, message = WRONG_PAGES[name]
    result = nmt("export", *(option.format(**places) for option in options))
    assert (result.code, result.out) == (2, b"")
    assert message.format(**places) in result.err
    assert result.err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
    assert places["file"].read_text() == "kept"


def test_a_page_of_ours_is_replaced_and_the_same_model_gives_the_same_bytes(nmt, tmp_path, model):
    page = tmp_path / "page.html"
    first = nmt("export", "--model", model, "-o", page)
    assert first.code == 0
    assert re.fullmatch(r"a page of 0\.\d MB that translates offline, English → French \(0\.\d MB\) -> .*\n", first.err)
    content = page.read_bytes()
    assert nmt("export", "--model", model, "-o", page, "--format", "html", "--precision", "int8").code == 0
    assert page.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("format_", ["html", "onnx"])
def test_nothing_is_exported_to_standard_output(nmt, tmp_path, monkeypatch, model, format_):
    monkeypatch.chdir(tmp_path)
    result = nmt("export", "--model", model, "-o", "-", "--format", format_)
    message = "nmt: -o -: an export cannot go to standard output; give the page (FILE.html) or the directory to write\n"
    assert (result.code, result.out, result.err) == (2, b"", message)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_format_is_refused(nmt, tmp_path, model):
    result = nmt("export", "--model", model, "-o", tmp_path / "out", "--format", "tflite")
    assert (result.code, result.err) == (2, "nmt: --format tflite: must be one of html, onnx\n")


def test_the_missing_library_is_named_with_its_extra(nmt, tmp_path, monkeypatch, model):
    graph.import_onnx.cache_clear()
    monkeypatch.setitem(sys.modules, "onnx", None)
    result = nmt("export", "--model", model, "-o", tmp_path / "out", "--format", "onnx")
    graph.import_onnx.cache_clear()
    assert result.code == 2
    assert result.err.endswith("--format onnx: needs the library onnx: pip install 'nmt-cli[onnx]'\n")
    assert not list(tmp_path.iterdir())


def test_a_card_shows_the_scores_that_evaluate_measured(nmt, tmp_path, model):
    copy = shutil.copytree(model, tmp_path / "model", ignore=shutil.ignore_patterns("reports"))
    before = nmt("card", "--model", copy)
    assert before.code == 0
    assert "On test sets: unknown. `nmt evaluate` measures them." in before.out.decode()
    assert nmt("evaluate", "--model", copy).code == 0
    report = json.loads((copy / "reports/report.json").read_text(encoding="utf-8"))["sets"]["book"]
    card = nmt("card", "--model", copy).out.decode()
    front = parse_yaml(card.split("---\n")[1], "card")
    (results,) = front["model-index"][0]["results"]
    assert {m["type"]: m["value"] for m in results["metrics"]} == {
        metric: round(report[metric]["score"], 2) for metric in ("bleu", "chrf", "ter")
    }
    assert results["metrics"][0]["args"]["signature"] == report["bleu"]["signature"]
    assert "nmt evaluate --model model --only book" in card
    assert "| train.en | 600 | 600 | 1 | `" in card


def test_a_card_knows_the_scores_of_a_model_named_by_a_dot_and_moved_since(nmt, tmp_path, monkeypatch, model):
    copy = shutil.copytree(model, tmp_path / "before", ignore=shutil.ignore_patterns("reports"))
    monkeypatch.chdir(copy)
    assert nmt("evaluate", "--model", ".").code == 0
    assert "nmt evaluate --model before --only book" in nmt("card", "--model", ".").out.decode()
    monkeypatch.chdir(tmp_path)
    copy.rename(tmp_path / "after")
    card = nmt("card", "--model", "after").out.decode()
    assert "nmt evaluate --model after --only book" in card
    assert "not this checkpoint alone" not in card
    assert parse_yaml(card.split("---\n")[1], "card")["model-index"]


def test_a_card_goes_to_a_file_and_several_models_give_one(nmt, tmp_path, model):
    result = nmt("card", "--model", model, "--model", model, "-o", tmp_path / "card.md")
    assert (result.code, result.out) == (0, b"")
    assert result.err.endswith(f"model card -> {tmp_path / 'card.md'}\n")
    assert (tmp_path / "card.md").read_text(encoding="utf-8").count("\n# tiny\n") == 2


def test_a_card_of_what_is_no_model_is_refused(nmt, tmp_path):
    result = nmt("card", "--model", tmp_path, "-o", tmp_path / "card.md")
    assert (result.code, result.err) == (
        2, f"nmt: {tmp_path}: is not a model directory (it has no config.yaml)\n",
    )  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_the_readme_tells_what_the_model_has_and_a_language_is_text_in_it(tmp_path, exported):
    pytest.importorskip("onnx")
    defaults = json.loads((exported / "defaults.json").read_text(encoding="utf-8"))
    whole = directory._readme(defaults, ["joint"], [])
    assert "encoder-decoder with attention" in whole
    assert "`--alignment hard`" in whole
    without = directory._readme({**defaults, "has_attention": False, "source_lang": "<img src=x>"}, ["joint"], [])
    assert "encoder-decoder without attention" in without
    assert "--alignment" not in without
    assert "<img" not in without.replace("\\<img", "")


@pytest.mark.timeout(60)
def test_a_page_takes_the_place_of_no_pipe(nmt, tmp_path, model):
    os.mkfifo(tmp_path / "page.html")
    found = nmt("export", "--model", model, "-o", tmp_path / "page.html")
    assert found.code == 2
    assert "page.html: exists already and is not a page of nmt export, so it is not replaced" in found.err


@pytest.mark.timeout(60)
def test_the_program_reads_a_long_line_in_linear_time(tmp_path, exported):
    """64 MB in blocks of a pipe took minutes."""
    code = "from translate import windows; print(*[len(line) for window in windows() for line in window])"
    command = f"(head -c 64000000 /dev/zero | tr '\\0' a; printf '\\nb\\nc') | {sys.executable} -B -c '{code}'"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, check=False, cwd=exported)
    assert ran.stdout == b"64000000 1 1\n", ran.stderr
