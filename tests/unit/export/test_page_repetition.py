"""Repeated words in the JavaScript of the page and in the program of an ONNX export, as `nmt translate` finds them."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

import nmt_cli
from nmt_cli.translation.repetition import count_copies, find_runs

REPETITION = Path(nmt_cli.__file__).with_name("export") / "page" / "repetition.mjs"
PROGRAM = """const {findRuns, countCopies} = await import(process.argv[1]);
    const {readFileSync} = await import("node:fs");
    const texts = JSON.parse(readFileSync(0, "utf8"));
    const runs = (text) => findRuns(text).map((ends) => ends.map((end) => text.slice(0, end)));
    const found = texts.map((text) => [runs(text), countCopies(text)]);
    console.log(JSON.stringify(found))"""
PARTS = ["a", "b", "A", "a,", "哈", "的", "ที่", "é", ".", "1", " ", " ", " ", "\u3000", "\U00020000", "e\u0301"]


def texts() -> list[str]:
    rng = random.Random(1)
    found = []
    for _ in range(600):
        pieces = [rng.choice(PARTS) for _ in range(rng.randrange(12))]
        place, size, copies = rng.randrange(len(pieces) + 1), rng.randrange(1, 10), rng.randrange(1, 8)
        found.append("".join(pieces[:place] + pieces[place : place + size] * copies + pieces[place + size :]))
    return found


def expected(text: str) -> list:
    return [[[text[:end] for end in run.ends] for run in find_runs(text)], count_copies(text)]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_the_page_finds_the_runs_that_nmt_finds():
    command = ["node", "--input-type=module", "-e", PROGRAM, REPETITION.as_uri()]
    given = json.dumps(texts())
    run = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
    for text, found in zip(texts(), json.loads(run.stdout), strict=True):
        assert found == expected(text), text
    assert 50 < sum(bool(expected(text)[0]) for text in texts()) < 550


def test_the_program_of_an_onnx_export_finds_the_runs_that_nmt_finds():
    pytest.importorskip("onnxruntime")
    from nmt_cli.export.onnx import translate

    for text in texts():
        runs = [[text[:end] for end in ends] for ends in translate._find_runs(text)]
        assert [runs, translate._count_copies(text)] == expected(text), text
