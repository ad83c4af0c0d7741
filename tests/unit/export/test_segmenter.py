"""SentencePiece in JavaScript beside SentencePiece: the same pieces and places, and the same text from pieces."""

import json
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from nmt_cli.data.tokenizer import train_tokenizer
from nmt_cli.demo import phrasebook

PROGRAM = Path(__file__).parents[3] / "nmt_cli/export/page/sentencepiece.mjs"
RUN = """
import { readFileSync } from "node:fs";
const { SentencePiece } = await import(process.argv[2]);
const piece = new SentencePiece(readFileSync(process.argv[3]));
for (const one of JSON.parse(readFileSync(process.argv[4], "utf8"))) {
  const found = Array.isArray(one) ? piece.decode(one) : piece.encode(one);
  console.log(JSON.stringify([found.text ?? found.ids, found.begins]));
}
"""
ODD = ["<sym>", "__URL__", "▁", "ﬁ", "①", "é", "e\u0301", "\u200b", "\ufeff", "㎏", "\0", "\x01", "\x85", "\u2028",
       "😀", "<s>", "<unk>", "<0x41>", "２", "ｶﾞ", "ﷺ", "\ufffd", "한", "  ", "\u3000", "\t"]  # fmt: skip
RANGES = [(0, 0x2FF), (0x300, 0x36F), (0x2000, 0x33FF), (0xAC00, 0xD7A3), (0xF900, 0xFFFF), (0x1D000, 0x1FFFF)]


def odd_line(draw: random.Random, texts: list[str]) -> str:
    kind = draw.random()
    if kind < 0.5:
        characters = list(draw.choice(texts))
        for _ in range(draw.randint(0, 6)):
            characters.insert(draw.randint(0, len(characters)), draw.choice(ODD))
        return "".join(characters)
    if kind < 0.8:
        codes = (draw.randint(*draw.choice(RANGES)) for _ in range(draw.randint(0, 30)))
        return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)
    return "".join(draw.choice("aAäß bnö  e▁.,") for _ in range(draw.randint(0, 40)))


def positions(text: str) -> list[int]:
    """The UTF-16 position of each character."""
    found = [0]
    for character in text:
        found.append(found[-1] + 1 + (ord(character) > 0xFFFF))
    return found


KINDS = [("unigram", "nmt_nfkc"), ("bpe", "identity"), ("bpe", "nmt_nfkc_cf"), ("char", "nfkc"), ("word", "nmt_nfkc")]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
@pytest.mark.parametrize("amount", [300, pytest.param(5_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_javascript_and_sentencepiece_agree(tmp_path, kind, amount):
    seed = int(os.environ.get("NMT_TEST_SEED") or random.randrange(2**32))
    print(f"NMT_TEST_SEED={seed}")
    draw = random.Random(seed)
    book = phrasebook.generate(seed=3, num_train=500, num_dev=1, num_test=1)
    phrasebook.write(book, tmp_path)
    texts = (tmp_path / "train.en").read_text().splitlines() + (tmp_path / "train.fr").read_text().splitlines()
    symbols = () if kind[0] == "word" else ("<sym>", "__URL__", "▁x", "ab")
    tokenizer = train_tokenizer(
        texts, model_type=kind[0], vocab_size=420, normalization=kind[1], character_coverage=0.999, symbols=symbols
    )
    lines = [odd_line(draw, texts) for _ in range(amount)]
    sizes = (draw.randint(0, 12) for _ in range(amount))
    size = tokenizer.vocab_size
    pieces = [[draw.randrange(size if draw.random() < 0.5 else min(264, size)) for _ in range(n)] for n in sizes]
    (tmp_path / "run.mjs").write_text(RUN)
    (tmp_path / "m.model").write_bytes(tokenizer.model)
    (tmp_path / "odd.json").write_text(json.dumps(lines + pieces))
    command = ["node", tmp_path / "run.mjs", PROGRAM, tmp_path / "m.model", tmp_path / "odd.json"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = [json.loads(line) for line in output.split("\n")[:-1]]
    processor = tokenizer._processor
    for line, ours in zip(lines, found[:amount], strict=True):
        theirs = processor.encode(line, return_type="offset_mapping")
        assert ours == [list(theirs["ids"]), [positions(line)[begin] for begin, _ in theirs["offsets"]]], repr(line)
    for ids, ours in zip(pieces, found[amount:], strict=True):
        theirs = processor.decode(ids, return_type="offset_mapping")
        begins = [positions(theirs["text"])[begin] for begin, _ in theirs["offsets"]]
        assert ours == [theirs["text"], begins], ids
