"""The package as users get it: its wheel, installed without extras in a new environment, and what is packed.

Nothing of the environment of development is there: a library that the package needs and does not declare is missed.
"""

from __future__ import annotations

import csv
import gzip
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from command_line import CONFIG

from nmt_cli.commands import COMMANDS, GROUPS
from nmt_cli.confidence.confidence_metrics import area_under_roc, calibration_error
from nmt_cli.confidence.labels import correct_words
from nmt_cli.demo import phrasebook
from nmt_cli.ops import native

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
CORE_FORMATS = (
    *(f"odd/pairs.{ending}" for ending in ("zip", "tsv.gz", "tsv.xz", "csv", "tmx", "xlf", "jsonl")),
    "odd/cues.en.srt odd/cues.fr.vtt",
    "odd/old.en odd/old.fr",
)
MAKE_A_MODEL = "nmt demo"
NEED_NOTHING = [
    "nmt import odd/pairs.po -o po --source-lang en --target-lang fr",
    "nmt --version",
    "nmt --help",
    *(
        f"nmt import {files} -o imported{number} --source-lang en --target-lang fr"
        for number, files in enumerate(CORE_FORMATS)
    ),
    "nmt clean data/train.en data/train.fr -o cleaned",
    "nmt init --pairs odd/pairs.csv --source-lang en --target-lang fr -o paired.yaml",
    "nmt init --source data/train.en --target data/train.fr --source-lang en --target-lang fr -o my.yaml",
    "nmt check --config tiny.yaml",
    "nmt schema",
    "nmt tokenizer --config tiny.yaml --set model_dir=runs/pieces",
    "nmt train --config tiny.yaml --set model_dir=runs/dry --dry-run",
    "nmt train --config tiny.yaml --set model_dir=runs/trained",
    "sed 's/^/Oui, /' data/train.fr > mono.fr",
    "nmt improve --config tiny.yaml --set 'data.monolingual.target=[mono.fr]' --set training.max_steps=3 -o runs/up",
    "nmt encode file.txt --model runs/demo | nmt decode --model runs/demo --side source",
    "nmt translate file.txt --model runs/demo --threads 1 --shard 2/2",
    "nmt translate file.txt --model runs/demo --alignment hard",
    "nmt translate file.txt --model runs/demo --alignment soft --format jsonl",
    "nmt translate file.txt --model runs/demo --n-best 2 --format moses",
    "nmt translate file.txt --model runs/demo --copy-unknown --precision int8",
    "nmt translate file.txt --model runs/demo --sample --seed 3 --precision bf16",
    "echo 'Where is the <b>red</b> car?' | nmt translate --model runs/demo --markup",
    "nmt translate < file.txt | nmt score --reference ref.txt --baseline ref.txt --source file.txt --by-length",
    "nmt score ref.txt --reference ref.txt --tokenize zh --json",
    "nmt evaluate --model runs/demo",
    "nmt align file.txt ref.txt --model runs/demo --format jsonl",
    "nmt rescore file.txt ref.txt --model runs/demo",
    "nmt shortlist data/dev.en data/dev.fr --model runs/demo -o short.safetensors",
    "nmt translate file.txt --model runs/demo --shortlist short.safetensors",
    "nmt translate-corpus file.txt --output translated --model runs/demo",
    "nmt average --model runs/demo --last 1 --name mean",
    "nmt inspect runs/demo",
    "nmt card --model runs/demo",
    "nmt export --model runs/demo -o translator.html",
    "nmt plot attention file.txt --model runs/demo -o attention.html",
]
LENGTHS = "nmt plot lengths --source file.txt --reference ref.txt --hypothesis ref.txt"
NEED_MORE = [
    ("nmt plot attention file.txt --model runs/demo -o attention.png", "nmt-cli[plots]"),
    ("nmt plot curves runs/demo -o curves.html", "nmt-cli[plots]"),
    (f"{LENGTHS} -o lengths.svg", "nmt-cli[plots]"),
    ("nmt check --config tiny.yaml --set training.tensorboard=true", "nmt-cli[logs]"),
    ("nmt train --config tiny.yaml --set model_dir=runs/logged --set training.tensorboard=true", "nmt-cli[logs]"),
    ("nmt import odd/pairs.xlsx -o xlsx --source-lang en --target-lang fr", "nmt-cli[formats]"),
    ("nmt import odd/pairs.zst -o zst --source-lang en --target-lang fr", "nmt-cli[formats]"),
    ("nmt translate odd/pairs.po -o translated.po --model runs/demo", "nmt-cli[documents]"),
    ("nmt translate file.txt --paragraphs --model runs/demo", "nmt-cli[documents]"),
    ("nmt export --model runs/demo -o exported --format onnx", "nmt-cli[onnx]"),
    ("nmt serve --model runs/demo", "nmt-cli[serve]"),
    ("nmt translate-corpus file.txt --output elsewhere --model runs/demo --address auto", "nmt-cli[ray]"),
    ("nmt score ref.txt --reference ref.txt --tokenize ja-mecab", "sacrebleu[ja]"),
    ("nmt score ref.txt --reference ref.txt --tokenize ko-mecab", "sacrebleu[ko]"),
]
"""Commands, and the extra that each asks for."""


OF_A_USER = {
    name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OMP_", "NMT_", "VIRTUAL_ENV"))
}
"""The variables of the environment without those that lead back to this one."""


@dataclass(frozen=True)
class Installed:
    """An environment, and a directory to work in."""

    environment: Path
    directory: Path

    def run(self, script: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a line of shell there, as a user does who has activated the environment.

        On one thread: another test has the other core, and two threads would wait for each other.
        """
        path = f"{self.environment / 'bin'}:{os.environ['PATH']}"
        variables = OF_A_USER | {"PATH": path, "OMP_NUM_THREADS": "1"} | more
        command = ["bash", "-euo", "pipefail", "-c", script]
        return subprocess.run(
            command, cwd=self.directory, env=variables, capture_output=True, text=True, check=False
        )  # fmt: skip


@contextmanager
def installed(directory: Path) -> Iterator[Installed]:
    """The package in a new environment, by its wheel."""
    package, environment = built("wheel", directory), directory / "environment"
    try:
        succeed(sys.executable, "-m", "venv", environment)
        succeed(environment / "bin/python", ROOT / "scripts/install_torch.py")
        pip = (environment / "bin/python", "-m", "pip")
        succeed(*pip, "install", "--quiet", "--constraint", CONSTRAINTS, package)
        yield Installed(environment, directory / "work")
    finally:
        shutil.rmtree(environment)  # a gigabyte


def built(form: str, directory: Path) -> Path:
    """The wheel or the source distribution, of nothing but what belongs to the package."""
    source = directory / f"source-of-{form}"
    shutil.copytree(ROOT / "nmt_cli", source / "nmt_cli", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source)
    succeed(sys.executable, "-m", "build", f"--{form}", "--outdir", directory / form, source)
    (package,) = (directory / form).iterdir()
    return package


def succeed(*command: str | Path) -> None:
    ran = subprocess.run([*map(str, command)], env=OF_A_USER, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def write_text(work: Path) -> None:
    """Corpora in `data`, a few lines of text and a configuration."""
    phrasebook.write(phrasebook.generate(seed=7, num_train=600, num_dev=20, num_test=30), work / "data")
    for name, language in (("file.txt", "en"), ("ref.txt", "fr")):
        lines = (work / f"data/test.{language}").read_text(encoding="utf-8").splitlines(keepends=True)
        (work / name).write_text("".join(lines[:5]), encoding="utf-8")
    (work / "tiny.yaml").write_text(CONFIG.format(model_dir="runs/tiny", corpus="data"), encoding="utf-8")


def write_odd_files(work: Path) -> None:
    """The same pairs in each format that needs no extra, and the beginning of one that does."""
    odd = work / "odd"
    odd.mkdir()
    texts = [(work / f"data/train.{language}").read_text(encoding="utf-8").splitlines() for language in ("en", "fr")]
    pairs = list(zip(*texts, strict=True))
    table = "".join(f"{source}\t{target}\n" for source, target in pairs).encode()
    (odd / "pairs.tsv.gz").write_bytes(gzip.compress(table))
    (odd / "pairs.tsv.xz").write_bytes(lzma.compress(table))
    (odd / "pairs.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(9))
    with zipfile.ZipFile(odd / "pairs.zip", "w") as archive:
        archive.writestr("pairs.txt", table)
    with zipfile.ZipFile(odd / "pairs.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "")
    with (odd / "pairs.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("English", "French"), *pairs])
    (odd / "pairs.po").write_text('msgid "a"\nmsgstr "b"\n', encoding="utf-8")
    records = [json.dumps({"en": source, "fr": target}) for source, target in pairs]
    (odd / "pairs.jsonl").write_text("\n".join(records), encoding="utf-8")
    pairs = [(escape(source), escape(target)) for source, target in pairs]
    units = (f"<tu><tuv lang='en'><seg>{s}</seg></tuv><tuv lang='fr'><seg>{t}</seg></tuv></tu>" for s, t in pairs)
    (odd / "pairs.tmx").write_text(f"<tmx version='1.4'><body>{''.join(units)}</body></tmx>", encoding="utf-8")
    units = (f"<trans-unit><source>{s}</source><target>{t}</target></trans-unit>" for s, t in pairs)
    begin = "<xliff version='1.2'><file source-language='en' target-language='fr'><body>"
    (odd / "pairs.xlf").write_text(f"{begin}{''.join(units)}</body></file></xliff>", encoding="utf-8")
    cue = "00:00:01{0}000 --> 00:00:02{0}000\n"
    (odd / "cues.en.srt").write_text(f"1\n{cue.format(',')}Hello.\n", encoding="utf-8")
    (odd / "cues.fr.vtt").write_text(f"WEBVTT\n\n{cue.format('.')}Salut.\n", encoding="utf-8")
    for side, language in enumerate(("en", "fr")):
        (odd / f"old.{language}").write_text("\r".join(texts[side]), encoding="utf-16" if side else "cp1252")


def check_demo(package: Installed, told: str) -> None:
    """The demo has learnt its phrase book, and knows its errors and where its words come from."""
    scores = dict(line.split(" = ") for line in told.splitlines() if " = " in line and not line.startswith(" "))
    assert float(scores["BLEU"]) >= 90.0
    assert float(scores["chrF2"]) >= 90.0
    demo = package.directory / "runs/demo"
    assert (demo / "attention.html").exists()
    text = {ending: (demo / f"data/test.{ending}").read_text(encoding="utf-8").splitlines() for ending in ("en", "fr")}
    assert len(text["en"]) == len(phrasebook.generate(seed=1).test)
    test = "runs/demo/data/test"
    gold = package.run(f"nmt align {test}.en {test}.fr --model runs/demo --gold {test}.align")
    assert gold.returncode == 0, gold.stderr
    assert float(gold.stderr.split("AER = ")[1].split()[0]) <= 0.15
    found = package.run(f"nmt translate {test}.en --model runs/demo --confidence --format jsonl")
    confidence: list[float] = []
    correct: list[bool] = []
    for record, reference in zip(map(json.loads, found.stdout.splitlines()), text["fr"], strict=True):
        confidence += record["word_confidence"]
        correct += correct_words(record["translation"], reference)
    assert area_under_roc(confidence, correct) >= 0.8
    assert calibration_error(confidence, correct) <= 0.05


def commands_in(script: str) -> Iterator[str]:
    for name, inner in re.findall(r"nmt ([a-z][a-z-]*)(?: (\w+))?", script):
        yield f"{name} {inner}" if name in GROUPS else name


def test_every_command_is_tried_without_extras():
    scripts = [MAKE_A_MODEL, *NEED_NOTHING, *(script for script, _ in NEED_MORE)]
    inner = {f"{name} {command.callback.__name__}" for name in GROUPS for command in GROUPS[name].registered_commands}
    assert {name for script in scripts for name in commands_in(script)} == {*COMMANDS, *inner}


@pytest.mark.install
def test_the_source_distribution_gives_the_wheel(tmp_path: Path):
    """So what is tried with the wheel is true of the source distribution too."""
    source, wheel = built("sdist", tmp_path), built("wheel", tmp_path)
    succeed(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path / "from", source)
    (from_source,) = (tmp_path / "from").iterdir()
    assert from_source.name == wheel.name
    assert packed(from_source) == packed(wheel)


def packed(wheel: Path) -> dict[str, bytes | None]:
    """The files of a wheel; of compiled ones the names, since a compiler writes down where it worked."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/RECORD")]
        return {name: None if name.endswith(".so") else archive.read(name) for name in names}


FEW = (
    "nmt --version", "nmt import odd/pairs.csv ", "nmt init --source",
    "nmt train --config tiny.yaml --set model_dir=runs/trained", "nmt translate < file.txt",
)  # fmt: skip
"""Beginnings of the commands that are tried in CI too; all others are tried by `make soak`."""


@pytest.mark.install
def test_the_package_alone_trains_translates_and_scores(tmp_path: Path):
    with installed(tmp_path) as package:
        write_text(package.directory)
        write_odd_files(package.directory)
        compiled = package.run('python -c "from nmt_cli.ops import native; print(native.is_built())"')
        assert compiled.stdout == f"{native.is_built()}\n", compiled.stderr
        chosen = [script for script in NEED_NOTHING if script.startswith(FEW)]
        assert len(chosen) == len(FEW)
        for script in chosen:
            ran = package.run(script, NMT_MODEL="runs/trained")
            assert ran.returncode == 0, (script, ran.stderr)
            assert "Warning" not in ran.stderr, (script, ran.stderr)
        script, extra = NEED_MORE[2]
        ran = package.run(script)
        assert ran.returncode == 2, (script, ran.stderr)
        assert re.fullmatch(rf"nmt: .*pip install '{re.escape(extra)}'.*\n", ran.stderr), (script, ran.stderr)


@pytest.mark.soak
@pytest.mark.install
@pytest.mark.timeout(3600)
def test_the_package_alone_runs_what_needs_no_extra_and_says_how_to_install_what_the_rest_needs(tmp_path: Path):
    """One test, so that the environment is made once however tests are shared out."""
    with installed(tmp_path) as package:
        write_text(package.directory)
        write_odd_files(package.directory)
        made = package.run(MAKE_A_MODEL)
        assert made.returncode == 0, made.stderr
        assert "Warning" not in made.stderr, made.stderr
        check_demo(package, made.stdout)
        for script in NEED_NOTHING:
            ran = package.run(script)
            assert ran.returncode == 0, (script, ran.stderr)
            assert "Warning" not in ran.stderr, (script, ran.stderr)
        compiled = package.run('python -c "from nmt_cli.ops import native; print(native.is_built())"')
        assert compiled.stdout == f"{native.is_built()}\n", compiled.stderr
        for script, extra in NEED_MORE:
            ran = package.run(script)
            assert ran.returncode == 2, (script, ran.stderr)
            assert re.fullmatch(rf"nmt: .*pip install '{re.escape(extra)}'.*\n", ran.stderr), (script, ran.stderr)
        for script in (f"{LENGTHS} -o lengths.png", "nmt train --config tiny.yaml --set training.tensorboard=true"):
            (advice,) = re.findall(r"pip install '.*'", package.run(script).stderr)
            for line in (advice, script):
                ran = package.run(line, PIP_CONSTRAINT=str(CONSTRAINTS))
                assert ran.returncode == 0, (line, ran.stderr)
