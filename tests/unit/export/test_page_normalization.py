"""Case and full stop in the JavaScript of the page, beside those of `nmt translate`."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import nmt_cli
from nmt_cli.demo import phrasebook
from nmt_cli.export.page.description import profile_record
from nmt_cli.export.page.packing import BYTE_ALIGNMENT, Packer, Record
from nmt_cli.normalization.normalizer import Normalizer
from nmt_cli.normalization.profile import TextProfile
from nmt_cli.text.translation import Translation

NORMALIZATION = Path(nmt_cli.__file__).with_name("export") / "page" / "normalization.mjs"
PROGRAM = """const {Normalizer} = await import(process.argv[1]);
    const {readFileSync} = await import("node:fs");
    const [profile, words, pairs] = JSON.parse(readFileSync(0, "utf8")), normalizer = new Normalizer(profile, words);
    console.log(JSON.stringify(pairs.map(([line, translation]) => {
      const read = normalizer.read(line);
      return [read.text, normalizer.undo(read, translation)];
    })))"""
ODD = [
    *("ß", "İ", "ı", "i", "Σ", "ς", "ΐ", "ά", "ა", "ǅ", "ﬁ", "ⅷ", "ⓐ", "ª", "²", "١", "𐐀", "é", "a\u0301b1"),
    *(
        "'",
        "’",
        "_",
        "%s",
        "<b>",
        "@",
        "www.a",
        "http://a.b",
        "«x»",
        "1st",
        "B2B",
        "...",
        "?",
        "…",
        " ",
        "\u00a0",
        "\u0085",
    ),
]
"""Letters with more than one capital or small letter, characters that are words in one language of ours and not in
another, and signs of words that are no text."""


def varied(line: str, rng: random.Random) -> str:
    """Return a line in other case, without its full stop, or with odd characters."""
    words = line.split()
    changes = (
        str.upper, str.lower, str.title, str.swapcase, lambda text: text.rstrip(".!?"), lambda _: words[0],
        lambda _: words[-1].capitalize(), lambda text: text.rstrip(".?!") + rng.choice([" ", "।", "。", ".)", '."']),
        lambda text: text.replace(words[0], words[0].upper(), 1), lambda text: f"{text} {text.lower()}",
        lambda text: " ".join(word.lower() if rng.random() < 0.5 else word for word in text.split()),
    )  # fmt: skip
    for change in rng.sample(changes, rng.choice([1, 1, 2])):
        line = change(line)
    for _ in range(rng.choice([0, 0, 1, 3])):
        place = rng.randrange(len(line) + 1)
        line = line[:place] + rng.choice(ODD) + line[place:]
    return line


def words(packer: Packer, record: Record) -> str:
    """Return the words that a record has packed."""
    packed = packer.packed({})
    begin = len(packed) - record["size"] - -record["size"] % BYTE_ALIGNMENT
    return packed[begin : begin + record["size"]].decode()


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
@pytest.mark.parametrize(
    ("languages", "knows_words", "changed"),
    [
        (("en", "fr"), True, {}),
        (("en", "el"), False, {}),
        (("tr", "en"), True, {"begins_with_capital": False}),
        (("en", "az"), True, {"has_case": False, "ends_with_stop": False}),
        (("el", "fr"), True, {"other_forms": None}),
    ],
)
def test_the_page_reads_and_restores_lines_as_nmt_translate_does(languages, knows_words, changed):
    rng = random.Random(1)
    book = phrasebook.generate(seed=3, num_train=300, num_dev=50, num_test=50)
    names = ["Tom", "Istanbul", "İzmir", "Iğdır", "Straße", "Άννα", "ΝΑΤΟ", "US", "us", "o'clock", "O’Neill"]
    training = [pair.source for pair in book.train]
    training += [f"{rng.choice(training)[:-1]} {name}." for name in names for _ in range(4)]
    profile = TextProfile.of(training, languages[0])
    lines = [[varied(one, rng) for one in rng.sample(training, 2)] for _ in range(300)]
    lines += [["", ""], [" ", "."], ["constructor", "__proto__ a."], ["a b c", "a."], ["A b " * 700, "x."]]
    lines += [["red" + " " * 80_000 + "car", "x."]]  # which took minutes
    lines += [["a\u0301b1 red car", "x."], ["Tom\x85", "tom"], ["tom is red\x85", "\x85tom."], ["a\u0301 b c", "a"]]
    profile = replace(profile, **changed)
    symbols = ["«x»", "<BT>"]
    normalizer = Normalizer.of(
        profile, source_lang=languages[0], target_lang=languages[1], symbols=symbols, knows_words=knows_words
    )
    others = {step.name for step in normalizer.steps} - {"codes", "case", "full stop"}
    normalizer = normalizer.without(*others)
    assert len(normalizer.steps) == 3
    expected = []
    for line, translation in lines:
        read = normalizer.read(line)
        expected.append([read.text, normalizer.undo(read, Translation(read.text, translation)).text])
    packer = Packer()
    record = profile_record(packer, profile, languages, symbols, knows_words=knows_words)
    given = json.dumps([record, words(packer, record), lines])
    command = ["node", "--input-type=module", "-e", PROGRAM, NORMALIZATION.as_uri()]
    run = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
    for pair, ours, theirs in zip(lines, json.loads(run.stdout), expected, strict=True):
        assert ours == theirs, pair
    assert sum(read != line for (line, _), (read, _) in zip(lines, expected, strict=True)) > 100
    assert sum(found != translation for (_, translation), (_, found) in zip(lines, expected, strict=True)) > 20
