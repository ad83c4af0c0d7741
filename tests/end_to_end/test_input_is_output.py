"""No command overwrites a file that it reads, or a file that the configuration of its model names as data."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import Result

from nmt_cli.cli import app
from nmt_cli.config.loader import dump_config, load_config
from nmt_cli.config.paths import paths_in
from nmt_cli.config.section import PathKind

COMMAND_LINES = {
    "encode": "a.txt --model MODEL -o a.txt",
    "decode": "a.txt --model MODEL -o a.txt",
    "translate": "a.txt --model MODEL -o a.txt",
    "align": "b.txt c.txt --gold a.txt --model MODEL -o a.txt",
    "rescore": "b.txt a.txt --model MODEL -o a.txt",
    "shortlist": "a.txt b.txt --model MODEL -o a.txt",
    "evaluate": "--model MODEL -o corpus",
    "clean": "a.txt a.html -o a",
    "init": "--source a.txt --target b.txt --source-lang en --target-lang fr -o a.txt",
    "import": "a.txt b.txt -o a --source-lang txt --target-lang fr",
    "translate-corpus": "a.txt --model MODEL -o .",
    "improve": "--config MODEL/config.yaml -o MODEL",
    "export": "--model MODEL --format onnx -o MODEL",
    "card": "--model MODEL -o MODEL/config.yaml",
    "plot attention": "a.html --model MODEL -o a.html",
    "plot curves": "a.html -o a.html",
    "plot lengths": "--source b.txt --reference c.txt --hypothesis x=a.html -o a.html",
}
REFUSED_FOR_ANOTHER_REASON = {"init", "import", "translate-corpus", "export", "improve"}
"""The output exists and is not overwritten, or is no place for it."""
DATA = {
    **dict.fromkeys(
        ("encode", "decode", "translate", "align", "rescore", "shortlist", "card"), ("data.txt", "data.txt")
    ),
    **dict.fromkeys(("export", "plot attention", "plot curves"), ("data.html", "data.html")),
    "evaluate": ("out", "out/book.fr"),
    "translate-corpus": ("out", "out/a.txt"),
    "improve": ("out", "out/config.yaml"),
}
"""What -o names in each command with a model or a configuration, and the file that is data then."""
BOTH = "cannot be both input and output."
PART = "belongs to the model in "


@pytest.fixture
def texts(tmp_path: Path, monkeypatch) -> Path:
    """The working directory, with three texts and one that has the name of a picture."""
    for name in ("a.txt", "b.txt", "c.txt", "a.html"):
        (tmp_path / name).write_text("Where is the red car?\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def options_of_commands(group: Any, name: str = "") -> Iterator[tuple[str, set[str]]]:
    """Yield the name of each command with its options."""
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from options_of_commands(command, f"{name}{word} ")
        else:
            yield f"{name}{word}", {option for parameter in command.params for option in parameter.opts}


OPTIONS = dict(options_of_commands(typer.main.get_command(app)))


def test_every_command_that_writes_a_file_is_in_the_tables():
    with_output = {name for name, options in OPTIONS.items() if options & {"-o", "--output"}}
    assert with_output == {*COMMAND_LINES}
    assert {name for name in with_output if OPTIONS[name] & {"--model", "--config"}} == {*DATA}


@pytest.mark.parametrize("command", COMMAND_LINES)
def test_an_output_that_is_an_input_is_refused(nmt, model: Path, corpus: Path, texts: Path, command: str, monkeypatch):
    monkeypatch.setattr("nmt_cli.system.cluster.require_ray", lambda: None)  # which is not reached
    shutil.copytree(model, texts / "MODEL")
    config = texts / "MODEL/config.yaml"
    config.write_text(
        config.read_text().replace(str(corpus), str(texts / "corpus")).replace("name: book", "name: test")
    )
    shutil.copytree(corpus, texts / "corpus")
    before = {path: path.read_bytes() for path in texts.rglob("*") if path.is_file()}
    result = nmt(*command.split(), *COMMAND_LINES[command].split())
    assert result.code == 2, result.err
    if command not in REFUSED_FOR_ANOTHER_REASON:
        assert (PART if command == "card" else BOTH) in result.err
        assert result.err.count("\n") == 1
    after = {path: path.read_bytes() for path in texts.rglob("*") if path.is_file()}
    after.pop(texts / ".translate-corpus/lock", None)
    assert after == before


@pytest.mark.parametrize("name", ["link.txt", "hard.txt", "MODEL/../a.txt", "absolute"])
def test_the_same_file_is_known_by_any_name(nmt, model: Path, texts: Path, name: str):
    (texts / "MODEL").mkdir()
    (texts / "link.txt").symlink_to("a.txt")
    (texts / "hard.txt").hardlink_to("a.txt")
    name = str(texts / "a.txt") if name == "absolute" else name
    result = nmt("encode", "a.txt", "--model", model, "-o", name)
    assert (result.code, result.out) == (2, b"")
    assert result.err == f"nmt: a.txt: {BOTH} The output {name} is the same file; choose another name\n"
    result = nmt("encode", name, "--model", model, "-o", "a.txt")
    assert result.code == 2
    assert result.err == f"nmt: {name}: {BOTH} The output a.txt is the same file; choose another name\n"
    assert (texts / "a.txt").read_text() == "Where is the red car?\n"
    assert (texts / "hard.txt").samefile("a.txt")


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("ENCODE -o a.txt < a.txt", "standard input: cannot be both input and output. The output a.txt is"),
        ("ENCODE /dev/stdin -o a.txt < a.txt", "/dev/stdin: cannot be both input and output. The output a.txt is"),
        ("ENCODE a.txt >> a.txt", "a.txt: cannot be both input and output. Standard output is the same file"),
        ("ENCODE a.txt -o /dev/stdout >> a.txt", "a.txt: cannot be both input and output. The output /dev/stdout is"),
        ("cat a.txt | ENCODE /dev/stdin -o /dev/stdout | cat > b.txt", ""),
        ("cat a.txt | ENCODE | cat > b.txt", ""),
        ("ENCODE /dev/null -o /dev/null", ""),
        ("ENCODE /dev/null > /dev/null", ""),
        ("mkfifo pipe; cat a.txt > pipe & ENCODE pipe -o b.txt", ""),
        ("ENCODE <(cat a.txt) -o >(cat > b.txt)", ""),
        ("ENCODE a.txt -o new.txt && ENCODE a.txt -o new.txt", ""),
    ],
)
def test_streams_pipes_and_devices(model: Path, texts: Path, script: str, told: str):
    encode = f"{sys.executable} -m nmt_cli encode --model {model}"
    ran = subprocess.run(
        ["bash", "-c", script.replace("ENCODE", encode)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False, env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert ran.returncode == (2 if told else 0), ran.stderr
    assert told in ran.stderr
    assert (texts / "a.txt").read_text() == "Where is the red car?\n"


@pytest.mark.parametrize(
    "part",
    [
        *("config.yaml", "tokenizer/joint.model", "checkpoints/index.json", "metrics.jsonl", "languages.json"),
        *("writing.json", "confidence.json", "logs/train.log", ".lock"),
    ],
)
def test_no_part_of_a_model_is_replaced(nmt, model: Path, texts: Path, part: str):
    """A picture in the model directory is none of it, and may be written again."""
    shutil.copytree(model, texts / "MODEL")
    before = (texts / "MODEL" / part).read_bytes()
    result = nmt("translate", "a.txt", "--model", "MODEL", "-o", f"MODEL/{part}")
    assert (result.code, result.out) == (2, b"")
    place = texts / "MODEL"
    assert result.err == f"nmt: MODEL/{part}: belongs to the model in {place}; choose another name for the output\n"
    assert (texts / "MODEL" / part).read_bytes() == before
    for _ in range(2):
        assert nmt("translate", "a.txt", "--model", "MODEL", "-o", "MODEL/reports.txt").code == 0


@pytest.fixture
def named(model: Path, texts: Path) -> Any:
    """A function that gives MODEL a configuration with other paths, `named({"data.dev.source": "a.txt"})`."""
    shutil.copytree(model, texts / "MODEL")

    def name(paths: dict[str, str], directory: str = "MODEL") -> None:
        file = texts / directory / "config.yaml"
        overrides = [f"{key}={texts / path}" for key, path in paths.items()]
        file.write_text(dump_config(load_config(file, overrides)), encoding="utf-8")

    return name


def refused(result: Result, output: str, key: str, path: Path, model: str = "MODEL") -> bool:
    """Whether a command has refused to overwrite data, in one line."""
    return (result.code, result.out) == (2, b"") and result.err.endswith(
        f"nmt: {output}: is data of the model in {model} ({key}: {path}), so it is not overwritten; choose another "
        "name for the output\n"
    )


@pytest.mark.parametrize("command", DATA)
def test_data_of_the_model_is_not_overwritten(nmt, named, texts: Path, command: str, monkeypatch):
    monkeypatch.setattr("nmt_cli.system.cluster.require_ray", lambda: None)  # which is not reached
    output, data = DATA[command]
    (texts / data).parent.mkdir(exist_ok=True)
    (texts / data).write_text("0-0\n")
    named({"data.train.0.alignment": data})
    before = {path: path.read_bytes() for path in texts.rglob("*") if path.is_file()}
    line = COMMAND_LINES[command].replace(" --gold a.txt", "")
    *words, _, _ = line.replace("a.html", "MODEL").split() if command == "plot curves" else line.split()
    result = nmt(*command.split(), *words, "-o", output)
    if command in REFUSED_FOR_ANOTHER_REASON - {"export"}:
        assert result.code == 2, result.err
    else:
        assert refused(result, data, "data.train.0.alignment", texts / data), result.err
    after = {path: path.read_bytes() for path in texts.rglob("*") if path.is_file()}
    after.pop(texts / "out/.translate-corpus/lock", None)
    assert after == before


def test_each_key_for_data_is_heeded(nmt, named, texts: Path):
    lists = [f"data.monolingual.{side}=[{texts / side}]" for side in ("target", "source")]
    (texts / "MODEL/config.yaml").write_text(dump_config(load_config(texts / "MODEL/config.yaml", lists)))
    keys = [path.key for path in paths_in(load_config(texts / "MODEL/config.yaml")) if path.kind is PathKind.DATA]
    assert "data.monolingual.source.0" in keys
    for key in (*keys, "data.train.0.alignment", "model.pretrained.source", "model.pretrained.target"):
        data = texts / f"{key}.txt"
        data.write_text("Where is the red car?\n")
        named({key: data.name})
        assert refused(nmt("encode", "a.txt", "--model", "MODEL", "-o", data.name), data.name, key, data)
        assert data.read_text() == "Where is the red car?\n"


@pytest.mark.parametrize("name", ["link.txt.gz", "hard.txt.gz", "MODEL/../data.txt.gz", "absolute"])
def test_data_is_known_by_any_name(nmt, named, texts: Path, name: str):
    data = texts / "data.txt.gz"
    data.write_bytes(b"compressed")
    (texts / "link.txt.gz").symlink_to("data.txt.gz")
    (texts / "hard.txt.gz").hardlink_to("data.txt.gz")
    name = str(data) if name == "absolute" else name
    named({"data.dev.target": "data.txt.gz"})
    assert refused(nmt("encode", "a.txt", "--model", "MODEL", "-o", name), name, "data.dev.target", data)
    named({"data.dev.target": "link.txt.gz"})
    result = nmt("encode", "a.txt", "--model", "MODEL", "-o", "data.txt.gz")
    assert refused(result, "data.txt.gz", "data.dev.target", texts / "link.txt.gz")
    assert data.read_bytes() == b"compressed"
    assert (texts / "hard.txt.gz").samefile(data)


@pytest.mark.parametrize("command", ["translate a.txt", "align b.txt c.txt", "rescore b.txt c.txt", "card"])
def test_data_of_every_model_of_a_command_is_heeded(nmt, named, texts: Path, command: str):
    shutil.copytree(texts / "MODEL", texts / "runs/other")
    named({"data.train.0.target": "a.txt"}, "runs/other")
    named({"data.train.0.target": "b.txt"})
    (texts / "data.txt").hardlink_to("a.txt")
    key, data = "data.train.0.target", texts / "a.txt"
    for models in ("MODEL", "runs/other"), ("runs/other", "MODEL"), ("runs/other",):
        options = [word for model in models for word in ("--model", model)]
        result = nmt(*command.replace("a.txt", "c.txt").split(), *options, "-o", "data.txt")
        assert refused(result, "data.txt", key, data, "runs/other"), result.err
    for variables in {"NMT_MODEL": "runs/other"}, {"NMT_MODEL": ""}:
        result = nmt(*command.replace("a.txt", "c.txt").split(), "-o", "data.txt", env=variables)
        assert refused(result, "data.txt", key, data, "runs/other"), result.err


def test_the_other_files_of_a_command_are_no_data_either(nmt, named, texts: Path):
    pytest.importorskip("sentencex")
    for name, key in (("out.html.confidence.jsonl", "data.dev.source"), ("out/report.json", "data.dev.target")):
        (texts / name).parent.mkdir(exist_ok=True)
        (texts / name).write_text("text\n")
        named({key: name})
    result = nmt("translate", "a.html", "--model", "MODEL", "--confidence", "-o", "out.html")
    name = "out.html.confidence.jsonl"
    assert refused(result, name, "data.dev.source", texts / name)
    result = nmt("evaluate", "--model", "MODEL", "-o", "out")
    assert refused(result, "out/report.json", "data.dev.target", texts / "out/report.json")
    assert not (texts / "out.html").exists()
    assert {path.name for path in (texts / "out").iterdir()} == {"report.json"}


def test_a_calibration_does_not_replace_the_text_that_it_is_fitted_to(nmt, named, texts: Path):
    calibration = texts / "MODEL/confidence.json"
    before = calibration.read_bytes()
    options = ("--calibrate", "--source", calibration, "--reference", calibration)
    result = nmt("evaluate", "--model", "MODEL", *options)
    assert result.code == 2
    assert BOTH in result.err
    assert calibration.read_bytes() == before


def test_a_model_whose_data_is_gone_translates(nmt, named, texts: Path):
    named({"data.train.0.source": "gone.txt"})
    for _ in range(2):
        assert nmt("translate", "a.txt", "--model", "MODEL", "-o", "new.txt").code == 0
    assert nmt("translate", "a.txt", "--model", "MODEL", "-o", "gone.txt").code == 0


def test_nothing_is_overwritten_while_it_is_unknown_what_is_data(nmt, named, texts: Path):
    (texts / "MODEL/config.yaml").write_text("name: [")
    assert nmt("encode", "a.txt", "--model", "MODEL", "-o", "new.txt").code == 0
    result = nmt("encode", "a.txt", "--model", "MODEL", "-o", "b.txt")
    assert (result.code, result.out) == (2, b"")
    assert "MODEL/config.yaml" in result.err
    assert (texts / "b.txt").read_text() == "Where is the red car?\n"


@pytest.mark.parametrize(
    ("command", "place"),
    [
        *(("train", f"run/{name}") for name in ("metrics.jsonl", "logs/train.log", ".lock", "tokenizer/joint.model")),
        *((command, "run/metrics.jsonl") for command in ("tokenizer", "check", "improve")),
    ],
)
def test_a_run_does_not_write_over_its_text(nmt, config: Path, texts: Path, command: str, place: str):
    """The text stands where the run writes, or there is a link to it."""
    directory = "up" if command == "improve" else "run"
    own = texts / place.replace("run", directory, 1)
    own.parent.mkdir(parents=True)
    for is_link in False, True:
        path = texts / "mine.txt" if is_link else own
        if is_link:
            own.rename(path)
            own.symlink_to(path)
        else:
            path.write_text("Where is the red car?\n")
        options = ("-o", texts / "up") if command == "improve" else ()
        result = nmt(command, "--config", config, "--set", f"data.monolingual.target=[{path}]", *options)
        assert result.code == 2, result.err
        if command != "improve":  # which takes a directory only if it is empty
            assert (
                f"data.monolingual.target.0: {path} would be overwritten, because a run writes to {own}" in result.err
            )
        assert path.read_text() == "Where is the red car?\n"
