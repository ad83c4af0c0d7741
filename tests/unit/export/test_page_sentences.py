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
    const {readFileSync} = await import("node:fs");
    const [language, text] = JSON.parse(readFileSync(0, "utf8"));
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
    assert cut("".join(sentences), language) == sentences


def cut(text: str, language: str = "en") -> list[str]:
    """The sentences of a text."""
    words = ["node", "--input-type=module", "-e", PROGRAM, TRANSLATOR.as_uri()]
    given = json.dumps([language, text])
    run = subprocess.run(words, input=given, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stderr
    found: list[str] = json.loads(run.stdout)
    return found


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
@pytest.mark.parametrize(
    ("part", "num_sentences"),
    [("A. ", 1), ("A cat sleeps here. ", 200_000), ("cats ", 1), ("Dr. Who sleeps in the big red house. ", 100_000)],
)
def test_a_long_text_is_cut_soon_and_as_a_short_one_is(part, num_sentences):
    """Initials took the square of their number, and so did a browser's own segments, with the memory too."""
    text = part * 200_000 if num_sentences in (1, 200_000) else part * num_sentences
    found = cut(text)
    assert (len(found), "".join(found) == text) == (num_sentences, True)
