"""`make bench`: speed of training and translation, beside the plain model and the matrix products alone, in one run.

Prints a table for each part, and writes JSON as they end. The text is made up, with the lengths of captions; nothing is
downloaded.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import random
import resource
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from itertools import groupby, product
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from benchmarks.plain import PlainModel
from nmt_cli.config.decoding import DecodingConfig, DecodingOptions
from nmt_cli.config.loader import load_config
from nmt_cli.config.model import (
    AttentionConfig,
    DecoderConfig,
    DropoutConfig,
    EncoderConfig,
    ModelConfig,
)
from nmt_cli.data.batch import Batch, make_batch, pad_sources
from nmt_cli.data.tokenizer import BOS, EOS, PAD
from nmt_cli.model.build import build_model, initialize
from nmt_cli.model.dropout import Noise
from nmt_cli.model.seq2seq import Seq2Seq
from nmt_cli.ops import native
from nmt_cli.search.beam import NewSentences, beam_search
from nmt_cli.search.hypothesis import Vocabulary
from nmt_cli.system.memory import keep_few_kernels, keep_freed_memory
from nmt_cli.training.loss import TranslationLoss
from nmt_cli.training.optim import build_optimizer
from nmt_cli.translation.rows import PADDING_MULTIPLE, padded_width
from nmt_cli.translation.shortlist import Shortlist
from nmt_cli.translation.step_model import TrainedModels

RECIPE = Path("configs/multi30k_en_de.yaml")
VOCAB = 8000
BEAMS = (1, 5)
BATCH_TOKENS = DecodingConfig().batch_tokens
TRAINING_SIZES = {"embedding": 256, "hidden": 512, "attention": 512, "vocab": 8000, "tokens": 2500, "length": 13}
NO_CHANGE: Mapping[str, int] = {}
Change = tuple[dict[str, Any], dict[str, Any]]
"""Keys of the attention and of the decoder that differ from the defaults."""
CONDITIONAL: Change = ({}, {})
LUONG = {"recurrence": "luong"}
MECHANISMS: dict[str, Change] = {
    "additive, bahdanau": ({}, {"recurrence": "bahdanau"}),
    "none, every step, bahdanau": ({"type": "none"}, {"recurrence": "bahdanau"}),
    "none, initial, bahdanau": ({"type": "none", "context": "initial"}, {"recurrence": "bahdanau"}),
    "dot, luong, 1,024 units": ({"type": "dot"}, {"recurrence": "luong", "hidden_size": 1024}),
    "general, luong": ({"type": "general"}, LUONG),
    "general, luong, no input feeding": ({"type": "general"}, {**LUONG, "input_feeding": False}),
    "concat, luong": ({"type": "concat"}, LUONG),
    "local-m (general), luong": ({"type": "local-m"}, LUONG),
    "local-p (general), luong": ({"type": "local-p"}, LUONG),
    "location": ({"type": "location"}, {}),
    "coverage, linguistic": ({"coverage": "linguistic"}, {}),
    "coverage, neural": ({"coverage": "neural"}, {}),
    "multihead": ({"type": "multihead"}, {}),
    "additive, LSTM": ({}, {"rnn_type": "lstm"}),
}
DECODING_SIZES = {"embedding": 256, "hidden": 256, "attention": 256, "vocab": VOCAB}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/latest.json"))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to measure")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    report: dict[str, Any] = {
        "machine": {"processor": platform.processor() or platform.machine(), "threads": options.threads},
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }
    print(f"threads {report['machine']}  {report['versions']}")
    for part in options.parts:
        measure, show = PARTS[part]
        report[part] = measure(options.rounds)
        options.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        show(report[part])


def training(rounds: int) -> dict[str, dict[str, float]]:
    """Target tokens a second, padding not counted, of a whole update."""
    result = {}
    for precision in ("fp32", "bf16"):
        bf16 = precision == "bf16"
        with Aside(our_training, CONDITIONAL, bf16) as ours, Aside(plain_training, bf16) as theirs:
            fast, slow = paired([ours, theirs], rounds)
        flops = flops_a_token(our_model(TRAINING_SIZES), training_batches())
        peak = matrix_peak(torch.bfloat16 if bf16 else torch.float32)
        result[precision] = {
            "tokens_per_second": fast,
            "ratio_to_plain": fast / slow,
            "peak_fraction": fast * flops / peak,
            "peak_memory_bytes": ours.peak_memory,
            "plain_peak_memory_bytes": theirs.peak_memory,
            "flops_per_token": flops,
            "matrix_peak_flops": peak,
        }
    return result


def paths(rounds: int) -> dict[str, dict[str, float]]:
    """Training of the default recipe by the compiled kernels, beside the formulas that they stand for."""
    result = {}
    for precision in ("fp32", "bf16"):
        bf16 = precision == "bf16"
        with (
            Aside(recipe_training, native.NATIVE, bf16) as kernels,
            Aside(recipe_training, native.PLAIN, bf16) as plain,
        ):
            fast, slow = paired([kernels, plain], rounds)
        result[precision] = {
            "tokens_per_second": fast,
            "ratio_to_formulas": fast / slow,
            "peak_memory_bytes": kernels.peak_memory,
            "formulas_peak_memory_bytes": plain.peak_memory,
        }
    return result


def mechanisms(rounds: int) -> dict[str, dict[str, float]]:
    """Training in bfloat16 with every mechanism at the same sizes, beside additive attention."""
    result = {}
    with Aside(our_training, CONDITIONAL, True, NO_CHANGE, 1) as additive:
        for name, change in MECHANISMS.items():
            with Aside(our_training, change, True, NO_CHANGE, 1) as other:
                speed, reference = paired([other, additive], rounds)
            result[name] = {"tokens_per_second": speed, "ratio_to_additive": speed / reference}
    return result


def growth(rounds: int) -> dict[str, dict[str, float]]:
    """Training in bfloat16 where one size differs from the default: target tokens a second."""
    changes: dict[str, list[dict[str, int]]] = {
        "batch, target tokens": [{"tokens": tokens} for tokens in (600, 1200, 2500, 5000)],
        "target length": [{"length": length} for length in (6, 13, 26, 52)],
        "hidden units": [{"hidden": size, "attention": size} for size in (128, 256, 512, 1024)],
        "vocabulary": [{"vocab": size} for size in (2000, 8000, 32000)],
    }
    result: dict[str, dict[str, float]] = {}
    for name, sizes in changes.items():
        for size in sizes:
            with Aside(our_training, CONDITIONAL, True, size, 1) as ours:
                (speed,) = paired([ours], rounds)
            result.setdefault(name, {})[str(next(iter(size.values())))] = speed
    return result


def our_training(
    change: Change, bf16: bool, sizes: Mapping[str, int] = NO_CHANGE, num_batches: int = 3
) -> Callable[[], float]:
    """Our model's updates, as `nmt train` makes them."""
    keep_freed_memory()
    keep_few_kernels()
    sizes = {**TRAINING_SIZES, **sizes}
    model = our_model(sizes, change)
    loss = TranslationLoss(label_smoothing=0.1)
    update = trainer(model, lambda batch: loss(model, batch, Noise(torch.Generator().manual_seed(1))).total, bf16)
    return partial(tokens_per_second, update, training_batches(sizes)[:num_batches])


def recipe_training(path: str, bf16: bool) -> Callable[[], float]:
    """Updates of the model of `RECIPE`, with its noise, in batches of about its size."""
    keep_freed_memory()
    keep_few_kernels()
    config = load_config(RECIPE)
    vocab, tokens = config.tokenizer.vocab_size, config.training.batch_size
    model = build_model(config.model, source_vocab_size=vocab, target_vocab_size=vocab)
    initialize(model, seed=1)
    loss = TranslationLoss(label_smoothing=config.training.label_smoothing)
    noise = torch.Generator().manual_seed(1)
    update = trainer(model, lambda batch: loss(model, batch, Noise(noise)).total, bf16)

    def by_path(batch: Batch) -> None:
        with native.path(path):
            update(batch)

    return partial(tokens_per_second, by_path, training_batches({"vocab": vocab, "tokens": tokens}) * 2)


def plain_training(bf16: bool) -> Callable[[], float]:
    """The plain model's updates."""
    sizes = TRAINING_SIZES
    plain = PlainModel(sizes["vocab"], sizes["embedding"], sizes["hidden"], sizes["attention"])
    return partial(tokens_per_second, trainer(plain, plain.loss, bf16), training_batches())


def training_batches(sizes: Mapping[str, int] = NO_CHANGE) -> list[Batch]:
    sizes = {**TRAINING_SIZES, **sizes}
    return [captions(seed, sizes) for seed in range(3)]


class Aside:
    """A measure in a process of its own, so that neither the allocator nor the caches of one serve another."""

    def __init__(self, build: Callable[..., Callable[[], float]], *arguments: object) -> None:
        self.peak_memory = 0
        """Bytes that the process held at most, once it has ended."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        work = (theirs, torch.get_num_threads(), build, arguments)
        self._process = context.Process(target=_answer, args=work, daemon=True)
        self._process.start()

    def __enter__(self) -> Aside:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.send(False)
        self.peak_memory = self._pipe.recv()
        self._process.join()

    def __call__(self) -> float:
        """Measure once."""
        self._pipe.send(True)
        measured: float = self._pipe.recv()
        return measured


def _answer(
    pipe: Connection, threads: int, build: Callable[..., Callable[[], float]], arguments: tuple[object, ...]
) -> None:
    torch.set_num_threads(threads)
    measure = build(*arguments)
    while pipe.recv():
        pipe.send(measure())
    pipe.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def translation(rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Sentences a second of a search; the plain model's is float32, with the same beam."""
    result: dict[str, dict[str, dict[str, float]]] = {}
    for beam in BEAMS:
        with Aside(plain_translation, beam) as theirs:
            for precision, with_shortlist in product(("fp32", "bf16", "int8"), (False, True)):
                with Aside(our_translation, precision, beam, with_shortlist) as ours:
                    fast, slow = paired([ours, theirs], min(rounds, 3))
                name = f"{precision}+shortlist" if with_shortlist else precision
                result.setdefault(name, {})[f"beam{beam}"] = {
                    "sentences_per_second": fast,
                    "ratio_to_plain": fast / slow,
                    "peak_memory_bytes": ours.peak_memory,
                }
    return result


def our_translation(precision: str, beam: int, with_shortlist: bool) -> Callable[[], float]:
    """Our search, as `nmt translate` makes it."""
    keep_freed_memory()
    model = our_model(DECODING_SIZES).requires_grad_(requires_grad=False)
    words = made_up_shortlist() if with_shortlist else None
    models = TrainedModels([model], device=torch.device("cpu"), precision=precision, shortlist=words)
    return partial(timed_search, sentences(400), lambda ids: search(models, ids, beam))


def plain_translation(beam: int) -> Callable[[], float]:
    """The plain model's search."""
    sizes = DECODING_SIZES
    plain = PlainModel(VOCAB, sizes["embedding"], sizes["hidden"], sizes["attention"])
    plain.requires_grad_(requires_grad=False)
    return partial(timed_search, sentences(400), lambda ids: plain_search(plain, ids, beam))


def made_up_shortlist() -> Shortlist:
    """Draw as many pieces as `nmt shortlist` takes by default, frequent ones more often than others."""
    weights_V = torch.arange(1.0, VOCAB - 3).pow(-0.8)
    generator = torch.Generator().manual_seed(7)
    likely_VK = torch.stack([torch.multinomial(weights_V, 20, generator=generator) + 4 for _ in range(VOCAB)])
    return Shortlist(torch.arange(3, 103), likely_VK.int())


def our_model(sizes: Mapping[str, int], change: Change = CONDITIONAL) -> Seq2Seq:
    attention, decoder = change
    config = ModelConfig(
        embedding_size=sizes["embedding"],
        layer_norm=False,
        encoder=EncoderConfig(hidden_size=sizes["hidden"]),
        decoder=DecoderConfig(**{"hidden_size": sizes["hidden"], **decoder}),
        attention=AttentionConfig(**{"size": sizes["attention"], **attention}),
        dropout=DropoutConfig(embedding=0.0, recurrent=0.0, annotation=0.0, readout=0.0),
    )
    model = build_model(config, source_vocab_size=sizes["vocab"], target_vocab_size=sizes["vocab"])
    initialize(model, seed=1)
    return model


def captions(seed: int, sizes: Mapping[str, int]) -> Batch:
    """A batch of about the asked number of target tokens: pairs of like length, near the asked one."""
    random_ = random.Random(seed)
    length = random_.randint(sizes["length"] * 3 // 4, sizes["length"] * 5 // 4)
    rows = max(1, sizes["tokens"] // (length + 1))
    vocab = sizes["vocab"]
    return make_batch(
        [ids(random_, length + random_.randint(-2, 2), vocab) for _ in range(rows)],
        [ids(random_, length - random_.randint(0, 1), vocab) for _ in range(rows)],
    )


def sentences(count: int) -> list[list[list[int]]]:
    """Sources in groups as the translator makes them: of one padded width, longest first; pieces as frequent as Zipf
    says."""
    random_ = random.Random(7)
    weights = [1 / rank for rank in range(1, VOCAB - 3)]
    lengths = [min(30, max(5, round(random_.gauss(13, 4)))) for _ in range(count)]
    drawn = [random_.choices(range(4, VOCAB), weights, k=length) for length in lengths]
    return [list(same) for _, same in groupby(sorted(drawn, key=len, reverse=True), key=padded_width)]


def at_once(group: list[list[int]]) -> int:
    """Return the number of sources of a group that both models search together, with a beam of 5."""
    return BATCH_TOKENS // (padded_width(group[0]) * BEAMS[-1])


def ids(random_: random.Random, length: int, vocab: int = VOCAB) -> list[int]:
    return [random_.randrange(4, vocab) for _ in range(length)]


def trainer(model: torch.nn.Module, loss: Callable[[Batch], torch.Tensor], bf16: bool) -> Callable[[Batch], None]:
    optimizer = build_optimizer("adam", model.parameters(), learning_rate=1e-4)

    def update(batch: Batch) -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            total = loss(batch)
        (total / batch.num_target_tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return update


def tokens_per_second(update: Callable[[Batch], None], batches: list[Batch]) -> float:
    began = time.perf_counter()
    for batch in batches:
        update(batch)
    return sum(batch.num_target_tokens for batch in batches) / (time.perf_counter() - began)


def search(models: TrainedModels, sources: list[list[int]], beam: int) -> None:
    waiting = deque(enumerate(sources))

    def begin(room: int) -> NewSentences | None:
        taken = [waiting.popleft() for _ in range(min(room, len(waiting)))]
        if not taken:
            return None
        numbers, some = zip(*taken, strict=True)
        # An untrained model does not end by itself: every output is as long as its source, in both models.
        state = models.start(pad_sources(some, multiple=PADDING_MULTIPLE), 1)
        return NewSentences(numbers, list(map(len, some)), state, [False] * len(some))

    vocabulary, options = Vocabulary(BOS, EOS, (PAD, EOS)), DecodingOptions(beam_size=beam)
    found = beam_search(models, begin, vocabulary, options, at_once=at_once(sources))
    assert len(list(filter(None, found))) == len(sources)


def plain_search(model: PlainModel, sources: list[list[int]], beam: int) -> None:
    size = at_once(sources)
    for start in range(0, len(sources), size):
        batch = sources[start : start + size]
        padded = pad_sources(batch)
        model.translate(padded.ids_BS, padded.valid_BS, beam_size=beam, max_length=max(map(len, batch)))


def timed_search(groups: list[list[list[int]]], run: Callable[[list[list[int]]], None]) -> float:
    began = time.perf_counter()
    for group in groups:
        run(group)
    return sum(len(group) for group in groups) / (time.perf_counter() - began)


def paired(measures: list[Callable[[], float]], rounds: int) -> list[float]:
    """The medians of several measures, taken in turn after one warm-up each."""
    for measure in measures:
        measure()
    taken = [[measure() for measure in measures] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*taken, strict=True)]


def flops_a_token(model: Seq2Seq, batches: list[Batch]) -> float:
    """Multiplications and additions of the matrix products of an update, a target token: three times the forward's."""
    encoder = sum(p.numel() for p in model.encoder.parameters() if p.dim() > 1)
    decoder = sum(p.numel() for p in model.decoder.parameters() if p.dim() > 1) + model.output_weight.numel()
    ratio = sum(batch.source_BS.numel() for batch in batches) / sum(batch.num_target_tokens for batch in batches)
    return 3.0 * 2.0 * (encoder * ratio + decoder)


def matrix_peak(dtype: torch.dtype) -> float:
    """The best rate of a large matrix product, in operations a second."""
    left, right = torch.randn(2048, 1024).to(dtype), torch.randn(1024, 1024).to(dtype)
    best = 0.0
    for _ in range(10):
        began = time.perf_counter()
        for _ in range(5):
            left @ right
        best = max(best, 5 * 2.0 * 2048 * 1024 * 1024 / (time.perf_counter() - began))
    return best


def show_training(rows: dict[str, dict[str, float]]) -> None:
    print(
        "training     precision  tokens/s  ratio to plain  MFLOP a token  share of the matrix peak       "
        "peak memory (plain)"
    )
    for precision, row in rows.items():
        share = f"{row['peak_fraction']:.3f} of {row['matrix_peak_flops'] / 1e9:,.0f} GFLOP/s"
        memory = f"{row['peak_memory_bytes'] / 1e9:.2f} GB ({row['plain_peak_memory_bytes'] / 1e9:.2f} GB)"
        print(
            f"             {precision:9}  {row['tokens_per_second']:8,.0f}  {row['ratio_to_plain']:14.2f}  "
            f"{row['flops_per_token'] / 1e6:13.1f}  {share:24}       {memory}"
        )


def show_paths(rows: dict[str, dict[str, float]]) -> None:
    print(f"{RECIPE}  precision  tokens/s  ratio to formulas  peak memory (formulas)")
    for precision, row in rows.items():
        memory = f"{row['peak_memory_bytes'] / 1e9:.2f} GB ({row['formulas_peak_memory_bytes'] / 1e9:.2f} GB)"
        speed, ratio = row["tokens_per_second"], row["ratio_to_formulas"]
        print(f"             {precision:9}  {speed:8,.0f}  {ratio:17.2f}  {memory}")


def show_mechanisms(rows: dict[str, dict[str, float]]) -> None:
    print("mechanism (bf16, 512 units)          tokens/s  ratio to additive")
    for name, row in rows.items():
        print(f"  {name:34} {row['tokens_per_second']:8,.0f}  {row['ratio_to_additive']:.2f}")


def show_growth(rows: dict[str, dict[str, float]]) -> None:
    print("training in bf16 where one size differs, tokens/s")
    for name, speeds in rows.items():
        print(f"  {name:21} " + "  ".join(f"{size}: {speed:,.0f}" for size, speed in speeds.items()))


def show_translation(rows: dict[str, dict[str, dict[str, float]]]) -> None:
    print("translation                  beam  sentences/s  ratio to plain fp32  peak memory")
    for precision, beams in rows.items():
        for beam, row in beams.items():
            speed, ratio = row["sentences_per_second"], row["ratio_to_plain"]
            memory = row["peak_memory_bytes"] / 1e9
            print(f"             {precision:14}  {beam[4:]:>4}  {speed:11,.1f}  {ratio:19.2f}  {memory:.2f} GB")


PARTS: dict[str, tuple[Callable[[int], Any], Callable[[Any], None]]] = {
    "training": (training, show_training),
    "paths": (paths, show_paths),
    "translation": (translation, show_translation),
    "mechanisms": (mechanisms, show_mechanisms),
    "growth": (growth, show_growth),
}
