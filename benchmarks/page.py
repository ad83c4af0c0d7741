"""The page for offline use in headless browsers: size, start, speed, and whether it says what `nmt translate` says.

`python -m benchmarks.page --model DIR --text FILE --reference FILE [--odd-lines N]` prints a line for each figure. All
lines of the text are put into the page at once. With `--odd-lines` the segmentation of so many odd lines is compared
with SentencePiece's, for three tokenizers. Needs chromium, chromedriver and Firefox (`make browser`).
"""

from __future__ import annotations

import argparse
import base64
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nmt_cli.data.tokenizer import train_tokenizer
from nmt_cli.demo import phrasebook
from nmt_cli.scoring import score_corpus
from tests.end_to_end.chromium import Chromium, running_chromium
from tests.end_to_end.firefox import Firefox, running_firefox

NMT = (sys.executable, "-m", "nmt_cli")
PLAIN_LINES = 50
"""Lines that plain JavaScript translates, which is slow."""
WATCH = """
window.shown = [];
new MutationObserver(() => {
  const translation = document.getElementById("translation"), text = translation ? translation.textContent : "";
  if (text && (shown.length === 0 || shown.at(-1)[1] !== text)) shown.push([performance.now(), text]);
}).observe(document, {childList: true, subtree: true, characterData: true});
"""
TYPE = """window.shown = []; window.began = performance.now();
const area = document.getElementById("source"); area.value = arguments[0]; area.dispatchEvent(new Event("input"));"""
READY = "return document.getElementById('status').textContent === ''"
PLAIN = "delete window.WebAssembly; delete window.Worker;"
ENCODE = """
const piece = new LocalTranslation.SentencePiece(LocalTranslation.fromBase64(arguments[0]));
return arguments[1].map((one) => { const found = piece.encode(one); return [found.ids, found.begins]; });
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--odd-lines", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    lines = asked.text.read_text(encoding="utf-8").split("\n")[:-1]
    references = asked.reference.read_text(encoding="utf-8").split("\n")[: len(lines)]
    options = ("--precision", "int8", "--beam-size", "1", "--threads", "1")
    expected = subprocess.run(
        [*NMT, "translate", asked.text, "--model", asked.model, *options], capture_output=True, check=True
    ).stdout.decode()
    with tempfile.TemporaryDirectory() as directory, running_chromium() as browser:
        page = Path(directory).resolve() / "page.html"
        subprocess.run([*NMT, "export", "--model", asked.model, "-o", page], check=True)
        print(f"size: {page.stat().st_size / 1e6:.2f} MB")
        print("Chromium:")
        browser.command("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        starts = [started(browser, page, lines[0]) for _ in range(asked.rounds)]
        print(f"from opening to the first translation: {statistics.median(starts):,.0f} ms, {shown(starts)}")
        times = [typed(browser, page, lines) for _ in range(asked.rounds)]
        words = sum(len(line.split()) for line in lines)
        speeds = [words / seconds for seconds, _ in times]
        print(f"{words:,} words: {statistics.median(speeds):,.0f} words/s, {shown(speeds)}")
        compared(times[0][1].split("\n"), expected.split("\n")[:-1], references)
        if asked.odd_lines:
            for kind in (("unigram", "nmt_nfkc"), ("bpe", "identity"), ("bpe", "nmt_nfkc_cf")):
                odd_lines(browser, kind, asked.odd_lines, asked.seed)
        few = lines[:PLAIN_LINES]
        browser.command("Page.addScriptToEvaluateOnNewDocument", source=PLAIN)
        seconds, _ = typed(browser, page, few)
        print(f"in plain JavaScript: {sum(len(line.split()) for line in few) / seconds:,.0f} words/s")
        in_firefox(page, lines, asked.rounds)


def shown(values: list[float]) -> str:
    return f"{len(values)} rounds from {min(values):,.0f} to {max(values):,.0f}"


def started(browser: Chromium, page: Path, text: str) -> float:
    """Open the page with a text in its address; return the milliseconds until its translation stands there."""
    opened(browser, page, f"#text={quote(text)}")
    return float(until(browser, "return window.shown && shown.length && shown[0][0]"))


def typed(browser: Chromium, page: Path, lines: list[str]) -> tuple[float, str]:
    """Put all lines into the page; return the seconds until their translation stands there, and the translation."""
    opened(browser, page)
    until(browser, READY)
    browser.run(TYPE, "\n".join(lines))
    ended, text = until(browser, "return window.shown.length ? shown.at(-1) : null")
    return (ended - browser.run("return window.began")) / 1000, text


def in_firefox(page: Path, lines: list[str], rounds: int) -> None:
    """Measure the same there."""
    print("Firefox:")
    words = sum(len(line.split()) for line in lines)
    with running_firefox() as browser:
        starts, speeds = [], []
        for _ in range(rounds):
            browser.visit("about:blank")
            browser.visit(f"{page.as_uri()}#text={quote(lines[0])}")
            began = "document.getElementById('translation').textContent && performance.now()"
            starts.append(float(until(browser, f"return {began}")))
            browser.visit("about:blank")
            browser.visit(page.as_uri())
            until(browser, READY)
            browser.run(WATCH + TYPE, "\n".join(lines))
            ended = until(browser, "return window.shown.length ? shown.at(-1)[0] : null")
            speeds.append(1000 * words / (ended - browser.run("return window.began")))
    print(f"from opening to the first translation: {statistics.median(starts):,.0f} ms, {shown(starts)}")
    print(f"{words:,} words: {statistics.median(speeds):,.0f} words/s, {shown(speeds)}")


def opened(browser: Chromium, page: Path, fragment: str = "") -> None:
    for address in ("about:blank", page.as_uri() + fragment):
        browser._ask("POST", "/url", {"url": address})


def until(browser: Chromium | Firefox, script: str) -> Any:
    while not (found := browser.run(script)):
        time.sleep(0.05)
    return found


def compared(ours: list[str], expected: list[str], references: list[str]) -> None:
    equal = sum(one == other for one, other in zip(ours, expected, strict=True))
    bleu, theirs = (score_corpus(lines, [references])[0].score for lines in (ours, expected))
    print(f"equal to `nmt translate`: {equal} of {len(expected)} lines; BLEU {bleu:.2f}, that of nmt {theirs:.2f}")


def odd_lines(browser: Chromium, kind: tuple[str, str], amount: int, seed: int) -> None:
    """Compare pieces and their places with those of SentencePiece."""
    from tests.unit.export.test_segmenter import odd_line, positions

    draw = random.Random(seed)
    book = phrasebook.generate(seed=3, num_train=500, num_dev=1, num_test=1)
    texts = [text for pair in book.train for text in (pair.source, pair.target)]
    tokenizer = train_tokenizer(
        texts, model_type=kind[0], vocab_size=420, normalization=kind[1], character_coverage=0.999,
        symbols=("<sym>", "__URL__", "▁x", "ab"),
    )  # fmt: skip
    model, wrong = base64.b64encode(tokenizer.model).decode(), 0
    for start in range(0, amount, 5_000):
        lines = [odd_line(draw, texts) for _ in range(min(5_000, amount - start))]
        for line, found in zip(lines, browser.run(ENCODE, model, lines), strict=True):
            ids, spans = tokenizer.encode_spans(line)
            wrong += found != [ids, [positions(line)[begin] for begin, _ in spans]]
    print(f"{kind[0]}, {kind[1]}: {wrong} of {amount:,} odd lines are cut differently from SentencePiece")


if __name__ == "__main__":
    main()
