"""`python -m benchmarks.cuda`: training on a GPU, with large and small batches.

Batches are made beforehand and the precision is bfloat16, with deterministic kernels as in `nmt train`. Prints a table
and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.speed import TRAINING_SIZES, captions, our_model
from nmt_cli.data.batch import Batch
from nmt_cli.system.distributed import World, make_deterministic
from nmt_cli.training.loss import TranslationLoss
from nmt_cli.training.optim import build_optimizer
from nmt_cli.training.update import BackwardPass, MicroBatch, Objective

TOKENS = (16_000, 1_000)
LOSS = TranslationLoss(label_smoothing=0.1)
Update = Callable[[Batch], float]
"""From a batch to its loss, which the host waits for."""


class Speed(NamedTuple):
    """Medians over rounds."""

    tokens_per_second: float
    """Target tokens, padding not counted."""
    updates_per_second: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/cuda.json"))
    parser.add_argument("--length", type=int, default=TRAINING_SIZES["length"], help="of a target, in pieces")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("benchmarks.cuda: there is no CUDA device that torch can use", file=sys.stderr)
        raise SystemExit(2)
    make_deterministic()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, targets of about {options.length} pieces")
    report = {}
    for tokens in TOKENS:
        sizes = {**TRAINING_SIZES, "tokens": tokens, "length": options.length}
        speed = measured(torch.device("cuda"), sizes, rounds=options.rounds)
        report[str(tokens)] = speed._asdict()
        print(
            f"batches of {tokens:6,} tokens: {speed.tokens_per_second:11,.0f} tokens/s  "
            f"{speed.updates_per_second:7.1f} updates/s"
        )
    options.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def measured(device: torch.device, sizes: Mapping[str, int], *, rounds: int, num_batches: int = 20) -> Speed:
    """Return the median speed of updates as `nmt train` makes them."""
    batches = [captions(seed, sizes) for seed in range(num_batches)]
    model = our_model(sizes).to(device)
    update = stepping(model, BackwardPass(Objective(model, LOSS), World(device)), device)
    timed(device, update, batches)
    seconds = statistics.median(timed(device, update, batches) for _ in range(rounds))
    return Speed(sum(batch.num_target_tokens for batch in batches) / seconds, len(batches) / seconds)


def stepping(model: torch.nn.Module, backward: BackwardPass, device: torch.device) -> Update:
    """Forward and backward pass, clipping, a look at loss and gradient, and the optimizer."""
    optimizer = build_optimizer("adam", model.parameters(), learning_rate=1e-4)

    def update(batch: Batch) -> float:
        backward.zero_grad()
        nll_sum = backward(MicroBatch(batch.to_async(device), batch.num_target_tokens, seed=1, bf16=True))
        norm_sum = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        nll, norm = torch.stack([nll_sum, norm_sum.double()]).tolist()
        assert math.isfinite(nll)
        assert math.isfinite(norm)
        optimizer.step()
        return float(nll)

    return update


def timed(device: torch.device, update: Update, batches: list[Batch]) -> float:
    began = time.perf_counter()
    for batch in batches:
        update(batch)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
