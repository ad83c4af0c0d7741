"""The engine of the offline page in a real browser, beside what it stands for: torch in int8, and SentencePiece."""

from __future__ import annotations

import base64
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from chromium import Chromium, running_chromium
from searching import in_order
from unit.export.test_segmenter import odd_line, positions
from unit.model.tiny_models import EVERY_OPTION, every_attention, every_kind, random_ids, tiny_model
from unit.search.table_model import VOCABULARY, TableModel

from nmt_cli.config.decoding import DecodingOptions
from nmt_cli.data.tokenizer import train_tokenizer
from nmt_cli.demo import phrasebook
from nmt_cli.export.page.description import model_record
from nmt_cli.export.page.html_file import engine_script
from nmt_cli.export.page.packing import Packer
from nmt_cli.search.beam import beam_search
from nmt_cli.translation.precision import convert_precision

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "nmt_cli/export/page"
WASM = base64.b64encode((PAGE / "kernels.wasm").read_bytes()).decode()
STEPS = """
const { Memory, Model, fromBase64 } = LocalTranslation;
const [text, wasm, source, inputs] = arguments;
const packed = fromBase64(text), size = new DataView(packed.buffer).getUint32(0, true);
const { model: record } = JSON.parse(new TextDecoder().decode(packed.subarray(4, 4 + size)));
const numbers = packed.subarray(4 + size);
return Memory.open(wasm && fromBase64(wasm)).then((memory) => {
  if (memory.isCompiled !== Boolean(wasm)) throw new Error("the kernels cannot be compiled");
  const base = memory.reserve(numbers.length);
  memory.bytes.set(numbers, base);
  const model = new Model(memory, record, base), found = [];
  model.encode(source);
  let [state, next] = model.begin(2);
  for (const piece of inputs) {
    const logits = model.step(piece, state, next);
    found.push([[...memory.copy(logits, model.output.outputs)], [...model.weights()]]);
    [state, next] = [next, state];
  }
  return found;
});
"""
ENCODE = """
const piece = new LocalTranslation.SentencePiece(LocalTranslation.fromBase64(arguments[0]));
return arguments[1].map((one) => { const found = piece.encode(one); return [found.ids, found.begins]; });
"""
SEARCH = """
const [table, settings, width] = arguments, size = table.length, floats = new Float32Array(256);
const kernels = {
  largest: (at, count) => floats.subarray(at >> 2, (at >> 2) + count).reduce((best, one, piece, all) =>
    one > all[best] ? piece : best, 0),
  sum_exp: (at, count, largest) => floats.subarray(at >> 2, (at >> 2) + count).reduce((sum, one) =>
    sum + Math.exp(one - largest), 0),
};
const memory = { floats, kernels, move: (from, count, to) => { floats[to >> 2] = floats[from >> 2]; } };
const model = {
  memory, stateSize: 4, output: { outputs: size }, encode() {},
  begin: (count) => Array.from({ length: count }, (_, place) => (floats[32 + place] = settings.bos, 4 * (32 + place))),
  step(piece, state, next) {  // a state is the piece before
    floats.set(table[floats[state >> 2]][piece]);
    floats[next >> 2] = piece;
    return 0;
  },
};
return LocalTranslation.beam(model, settings, [9], width);
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    page = tmp_path_factory.mktemp("engine") / "engine.html"
    page.write_text(f'<!doctype html><meta charset="utf-8"><script>{engine_script()}</script>', encoding="utf-8")
    with running_chromium() as running:
        running.visit(page)
        yield running
        assert running.console() == []


def steps_of(browser: Chromium, model: Any, source: list[int], inputs: list[int], wasm: str | None) -> Any:
    """Logits and attention weights of each step, as the page computes them."""
    packer = Packer()
    with torch.inference_mode():
        packed = packer.packed({"model": model_record(packer, model)})
    found = browser.run(STEPS, base64.b64encode(packed).decode(), wasm, source, inputs)
    return [tuple(np.array(part, np.float32) for part in step) for step in found]


def torch_steps(model: Any, source: list[int], inputs: list[int]) -> Iterator[tuple[Any, Any]]:
    with torch.inference_mode():
        memory = model.encode(torch.tensor([source]), torch.ones(1, len(source), dtype=torch.bool))
        state = model.initial_state(memory)
        for piece in inputs:
            decoded = model.decode(torch.tensor([[piece]]), memory, state)
            state = decoded.state
            yield model.logits(decoded.readout_BTR[:, 0])[0].numpy(), decoded.weights_BTS[0, 0].numpy()


def check(browser: Chromium, kind: Any, **options: Any) -> None:
    """Both kinds of kernels take the steps that torch takes in int8; rounding may fall to the other side here and
    there, so most steps are close and none is far."""
    model = tiny_model(kind, dtype=torch.float32, **options)
    source, inputs = random_ids((6,), seed=3).tolist(), random_ids((5,), seed=2).tolist()
    for wasm in (WASM, None):
        ours = steps_of(browser, model, source, inputs, wasm)
        truth = list(
            torch_steps(convert_precision(tiny_model(kind, dtype=torch.float32, **options), "int8"), source, inputs)
        )
        for (logits, weights), (true_logits, true_weights) in zip(ours, truth, strict=True):
            assert np.abs(logits - true_logits).max() < 0.1
            assert np.abs(weights - true_weights).max() < 0.02
        errors = [np.abs(one[0] - other[0]).max() for one, other in zip(ours, truth, strict=True)]
        assert np.median(errors) < 0.02, errors


@pytest.mark.soak
def test_every_attention_with_every_recurrence_steps_like_torch(browser):
    kinds = [parameter.values[0] for parameter in every_kind() if not parameter.marks]
    assert len(kinds) >= 3 * len(every_attention())
    for kind in kinds:
        check(browser, kind, num_layers=2)


def test_every_option_of_the_model_steps_like_torch(browser):
    for name, options in EVERY_OPTION.items():
        recurrence = "luong" if name in ("no input feeding", "source reversed") else "conditional"
        check(browser, (recurrence, "additive", "lstm" if "zero" in name else "gru", True), **options)


@pytest.mark.soak
@pytest.mark.parametrize("no_repeat_ngram", [0, 1, 2, 3])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_the_beam_finds_what_the_search_of_nmt_finds(browser, no_repeat_ngram, alpha):
    """Also where a piece that is likely must not follow: what is lost with it is lost for the whole translation."""
    model, width, limit = TableModel(12, 7, temperature=0.4), 4, 6
    options = DecodingOptions(
        beam_size=width, n_best=width, length_penalty=alpha, no_repeat_ngram=no_repeat_ngram,
    )  # fmt: skip
    begin = in_order(model.start, [limit] * 12, with_weights=options.with_alignment)
    steps = beam_search(model, begin, VOCABULARY, options, at_once=12)
    for sentence, hypotheses in filter(None, steps):
        settings = {
            "bos": VOCABULARY.bos, "eos": VOCABULARY.eos, "banned": VOCABULARY.banned, "lengthPenalty": alpha,
            "noRepeatNgram": no_repeat_ngram, "maxLengthA": 0, "maxLengthB": limit,
        }  # fmt: skip
        found = browser.run(SEARCH, model.table[sentence].tolist(), settings, width)
        assert [tuple(pieces) for pieces in found[:width]] == [hypothesis.ids for hypothesis in hypotheses]


def check_segmentation(browser: Chromium, model_type: str, normalization: str, amount: int) -> None:
    """The page's pieces, and where each begins, are those of SentencePiece."""
    seed = int(os.environ.get("NMT_TEST_SEED") or random.randrange(2**32))
    print(f"NMT_TEST_SEED={seed}")
    draw = random.Random(seed)
    book = phrasebook.generate(seed=3, num_train=500, num_dev=1, num_test=1)
    texts = [text for pair in book.train for text in (pair.source, pair.target)]
    tokenizer = train_tokenizer(
        texts, model_type=model_type, vocab_size=420, normalization=normalization, character_coverage=0.999,
        symbols=("<sym>", "__URL__", "▁x", "ab"),
    )  # fmt: skip
    lines = [odd_line(draw, texts) for _ in range(amount)]
    ours = browser.run(ENCODE, base64.b64encode(tokenizer.model).decode(), lines)
    for line, found in zip(lines, ours, strict=True):
        ids, spans = tokenizer.encode_spans(line)
        assert found == [ids, [positions(line)[begin] for begin, _ in spans]], repr(line)


@pytest.mark.soak
@pytest.mark.parametrize(("model_type", "normalization"), [("unigram", "nmt_nfkc"), ("bpe", "identity")])
def test_lines_are_cut_like_sentencepiece_cuts_them(browser, model_type, normalization):
    check_segmentation(browser, model_type, normalization, 3_000)


@pytest.mark.soak
def test_the_shipped_kernels_are_what_their_source_gives(tmp_path):
    clang = shutil.which("clang")
    if clang is None or shutil.which("wasm-ld") is None:
        pytest.fail("needs clang and lld: run 'make compilers'")
    version = subprocess.run([clang, "--version"], capture_output=True, text=True, check=True).stdout
    if "version 14." not in version:
        pytest.skip("kernels.wasm is what version 14 of clang makes")
    subprocess.run(["make", "-C", PAGE.parents[2], "wasm", f"KERNELS={tmp_path}/kernels.wasm"], check=True)
    assert (tmp_path / "kernels.wasm").read_bytes() == (PAGE / "kernels.wasm").read_bytes()
