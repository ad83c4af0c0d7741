"""Sentences of the offline page, which the browser finds and a list of abbreviations joins again."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import nmt_cli

TRANSLATOR = Path(nmt_cli.__file__).with_name("export") / "page" / "translator.mjs"
PROGRAM = """const {splitterOf} = await import(process.argv[1]);
    const [language, text] = JSON.parse(process.argv[2]);
    console.log(JSON.stringify(splitterOf(language)(text)))"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("en", ["Mr. Smith is here. ", "I saw Dr. Jones at 5 p.m. on Jan. 3. ", "It was J. S. Bach. ", "No. ", "Yes."]),
        ("fr", ["M. Dupont est là. ", "Où est Mlle. Curie ? ", "Ici."]),
        ("de", ["Er ist Nr. 3. ", "Gut, Prof. Maier!"]),
        ("zh", ["你好。", "我是谁？"]),
        ("no language", ["A cat sleeps. ", "Dr. Who? ", "Yes."]),
    ],
)
def test_an_abbreviation_ends_no_sentence(language, sentences):
    words = [
        "node",
        "--input-type=module",
        "-e",
        PROGRAM,
        TRANSLATOR.as_uri(),
        json.dumps([language, "".join(sentences)]),
    ]
    run = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == sentences
