"""No command overwrites the file that it reads."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nmt_cli.commands import COMMANDS, GROUPS

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
BOTH = "cannot be both input and output."
PART = "belongs to the model in "


@pytest.fixture
def texts(tmp_path: Path, monkeypatch) -> Path:
    """The working directory, with three texts and one that has the name of a picture."""
    for name in ("a.txt", "b.txt", "c.txt", "a.html"):
        (tmp_path / name).write_text("Where is the red car?\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_command_that_writes_a_file_is_in_the_table():
    commands = dict(COMMANDS) | {
        f"{group} {registered.callback.__name__}": registered.callback
        for group, app in GROUPS.items()
        for registered in app.registered_commands
    }
    assert {name for name, command in commands.items() if "output" in inspect.signature(command).parameters} == set(
        COMMAND_LINES
    )


@pytest.mark.parametrize("command", COMMAND_LINES)
def test_an_output_that_is_an_input_is_refused(nmt, model: Path, corpus: Path, texts: Path, command: str):
    if command == "translate-corpus":
        pytest.importorskip("ray")
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
