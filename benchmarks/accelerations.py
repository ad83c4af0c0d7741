"""`python -m benchmarks.accelerations`: the time of training and search with and without each acceleration.

An acceleration is switched off by putting the plain way in its place. Both ways run in one process, in turn; the time
is processor time, which other programs on the machine disturb less than the clock. A ratio above 1 is what the
acceleration gains. The table belongs to docs/adr/0021.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks import speed
from nmt_cli.config.loader import load_config
from nmt_cli.data.batch import Batch
from nmt_cli.model import attention, encoder
from nmt_cli.model.build import build_model, initialize
from nmt_cli.model.dropout import Noise
from nmt_cli.ops import (
    additive,
    attention_products,
    cross_entropy,
    deferred_gradients,
    gru,
    log_softmax,
    loop_product,
    matmul,
    native,
    step_layout,
)
from nmt_cli.search import beam
from nmt_cli.system.memory import keep_freed_memory
from nmt_cli.training.loss import TranslationLoss
from nmt_cli.translation.step_model import TrainedModels

Off = Callable[[], contextlib.AbstractContextManager[object]]
NO_KERNELS = SimpleNamespace(**{**vars(native), "takes": lambda _: False})
LUONG_LSTM: speed.Change = ({"type": "general"}, {"recurrence": "luong", "rnn_type": "lstm", "num_layers": 2})


def product_of_each_step(inputs_TBI: Tensor, weight_IO: Tensor) -> Callable[[int], Tensor]:
    """The products of known inputs, one for each step."""
    product = loop_product.loop_product(weight_IO)
    return lambda step: product(inputs_TBI.select(-3, step))


def plain_sum(values_BSC: Tensor, rows: int = 1) -> Callable[[Tensor], Tensor]:
    """Weighted sums whose gradients autograd adds up."""

    def weighted_sum(weights_BS: Tensor) -> Tensor:
        with matmul.full_precision(weights_BS):
            if rows > 1:
                return attend_rows(weights_BS, values_BSC, rows)
            return torch.bmm(weights_BS.unsqueeze(1), values_BSC).squeeze(1)

    return weighted_sum


attend_rows = attention_products.weighted_sum


def plain_inner(keys_BSA: Tensor, rows: int = 1) -> Callable[[Tensor], Tensor]:
    """Inner products whose gradients autograd adds up."""

    def energies(query_BA: Tensor) -> Tensor:
        with matmul.full_precision(query_BA):
            assert rows == 1
            return torch.bmm(query_BA.unsqueeze(1), keys_BSA.transpose(1, 2)).squeeze(1)

    return energies


def plain_cross_entropy(
    readout_NR: Tensor, weight_VR: Tensor, bias_V: Tensor, targets_N: Tensor, smoothing: float, candidates: object
) -> tuple[Tensor, Tensor]:
    """All logits at once, and autograd."""
    assert candidates is None
    logits_NV = F.linear(readout_NR, weight_VR, bias_V).float()
    total, nll = (
        F.cross_entropy(logits_NV, targets_N, label_smoothing=part, reduction="sum") for part in (smoothing, 0.0)
    )
    return total, nll.detach()


def plain_reversal(values_BSX: Tensor, reversal_BS: Tensor) -> Tensor:
    """A reversal whose gradient autograd scatters."""
    return values_BSX.gather(1, reversal_BS.unsqueeze(-1).expand(-1, -1, values_BSX.shape[-1]))


def plain_best(log_probs_NV: Tensor, totals_LK: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best extensions from a sort of the whole vocabulary."""
    (num_live, width), vocab_size = totals_LK.shape, log_probs_NV.shape[1]
    all_LC = (totals_LK.unsqueeze(-1) + log_probs_NV.unflatten(0, (num_live, width))).flatten(1)
    totals_LC, flat_LC = all_LC.topk(min(count, width * vocab_size))
    return totals_LC, flat_LC // vocab_size, flat_LC % vocab_size


@contextlib.contextmanager
def all_of(*patches: contextlib.AbstractContextManager[object]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield


ACCELERATIONS: dict[str, Off] = {
    "all kernels": lambda: native.path(native.PLAIN),
    "kernel: GRU step": lambda: patch.object(gru, "native", NO_KERNELS),
    "kernel: additive energies": lambda: patch.object(additive, "native", NO_KERNELS),
    "kernel: cross-entropy": lambda: patch.object(cross_entropy, "_KernelSoftmax", cross_entropy._FormulaSoftmax),
    "kernel: log-softmax and fold": lambda: patch.object(log_softmax, "native", NO_KERNELS),
    "best pieces by folding": lambda: patch.object(beam, "best_extensions", plain_best),
    "float32 products by oneDNN": lambda: patch.object(matmul, "_can_use_onednn", lambda *_: False),
    "rows padded in bfloat16": lambda: all_of(
        *(patch.object(module, "num_padding_rows", lambda *_: 0) for module in (matmul, deferred_gradients)),
    ),
    "inputs in one product": lambda: patch.object(loop_product, "LoopProducts", product_of_each_step),
    "deferred gradients of annotations": lambda: all_of(
        patch.object(attention, "WeightedSums", plain_sum),
        patch.object(attention, "InnerProducts", plain_inner),
    ),
    "cross-entropy in chunks": lambda: patch("nmt_cli.training.loss.cross_entropy", plain_cross_entropy),
    "gradient of the reversal": lambda: all_of(
        *(patch.object(module, "reverse_sequence", plain_reversal) for module in (encoder, step_layout))
    ),
    "waiting sentences join a search": lambda: patch.object(beam, "REFILL_DIVISOR", 1),
    "rows of a source share its memory": lambda: patch.object(attention.GlobalAttention, "can_share_sources", False),
}
TRAINING = [name for name in ACCELERATIONS if name not in ("waiting sentences join a search", "best pieces by folding",
            "rows of a source share its memory", "kernel: log-softmax and fold")]  # fmt: skip
SEARCH = [
    "all kernels", "kernel: GRU step", "kernel: additive energies", "kernel: log-softmax and fold",
    "best pieces by folding", "float32 products by oneDNN", "inputs in one product",
    "waiting sentences join a search", "rows of a source share its memory",
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="of which the median counts")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", nargs="+", choices=ACCELERATIONS, default=list(ACCELERATIONS), metavar="NAME")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="SETTING")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/accelerations.json"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    report: dict[str, dict[str, float]] = {name: {} for name in options.only}
    for setting in options.settings:
        run = SETTINGS[setting]()
        names = [name for name in options.only if name in (SEARCH if "search" in setting else TRAINING)]
        for name in names:
            ratios = paired_ratios(run, ACCELERATIONS[name], options.rounds)
            report[name][setting] = statistics.median(ratios)
            spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
            print(f"{setting:28} {name:36} {statistics.median(ratios):6.3f}  ({spread})", flush=True)
        options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def paired_ratios(run: Callable[[int], None], off: Off, rounds: int) -> list[float]:
    """The time without the acceleration over the time with it, in turn."""

    def seconds(number: int, region: contextlib.AbstractContextManager[object]) -> float:
        with region:
            began = time.process_time()
            run(number)
            return time.process_time() - began

    seconds(0, off()), seconds(0, contextlib.nullcontext())
    ratios = []
    for number in range(rounds):
        without, fast = off(), contextlib.nullcontext()
        if number % 2:
            slow_seconds, fast_seconds = seconds(number, without), seconds(number, fast)
        else:
            fast_seconds, slow_seconds = seconds(number, fast), seconds(number, without)
        ratios.append(slow_seconds / fast_seconds)
    return ratios


def recipe_training(bf16: bool) -> Callable[[int], None]:
    """Updates of the default recipe."""
    config = load_config(speed.RECIPE)
    vocab = config.tokenizer.vocab_size
    model = build_model(config.model, source_vocab_size=vocab, target_vocab_size=vocab)
    return updates(model, speed.training_batches({"vocab": vocab, "tokens": config.training.batch_size}), bf16)


def other_training(bf16: bool) -> Callable[[int], None]:
    """Updates of Luong's decoder: general attention, two layers of LSTM."""
    return updates(speed.our_model(speed.TRAINING_SIZES, LUONG_LSTM), speed.training_batches(), bf16)


def updates(model: Any, batches: list[Batch], bf16: bool) -> Callable[[int], None]:
    initialize(model, seed=1)
    loss, noise = TranslationLoss(label_smoothing=0.1), torch.Generator().manual_seed(1)
    update = speed.trainer(model, lambda batch: loss(model, batch, Noise(noise)).total, bf16)
    return lambda number: update(batches[number % len(batches)])


def search(change: speed.Change, beam_size: int) -> Callable[[int], None]:
    """Translation of 100 sentences."""
    model = speed.our_model(speed.DECODING_SIZES, change).requires_grad_(requires_grad=False)
    models = TrainedModels([model], device=torch.device("cpu"))
    groups = speed.sentences(100)

    def run(_: int) -> None:
        for group in groups:
            speed.search(models, group, beam_size)

    return run


SETTINGS: dict[str, Callable[[], Callable[[int], None]]] = {
    "training, recipe, fp32": partial(recipe_training, False),
    "training, recipe, bf16": partial(recipe_training, True),
    "training, Luong LSTM, fp32": partial(other_training, False),
    "training, Luong LSTM, bf16": partial(other_training, True),
    "search, default, beam 5": partial(search, speed.CONDITIONAL, 5),
    "search, default, greedy": partial(search, speed.CONDITIONAL, 1),
    "search, Luong LSTM, beam 5": partial(search, LUONG_LSTM, 5),
}


if __name__ == "__main__":
    main()
