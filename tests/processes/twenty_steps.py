"""Twenty updates in float64, of one process or of several: `python twenty_steps.py DIRECTORY ACCUMULATE`, in the
environment that torchrun makes. The parameters after them are in DIRECTORY, the loss of each step on standard output.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

import numpy as np
import torch

from nmt_cli.config.model import AttentionConfig, DecoderConfig, DropoutConfig, EncoderConfig, ModelConfig
from nmt_cli.data.batch import BatchMaker
from nmt_cli.data.sampler import Sampler
from nmt_cli.data.store import PairStore
from nmt_cli.model.build import build_model, initialize
from nmt_cli.system.distributed import open_world
from nmt_cli.system.storage import save_tensors
from nmt_cli.training.checkpoints import Checkpoints, parameters_of
from nmt_cli.training.loss import TranslationLoss
from nmt_cli.training.metrics_log import MetricsLog
from nmt_cli.training.optim import Schedule, build_optimizer
from nmt_cli.training.recovery import Recovery
from nmt_cli.training.state import Intervals, StoppingCriteria, TrainingState
from nmt_cli.training.trainer import Trainer
from nmt_cli.training.update import BackwardPass, BatchLoader, GradientAccumulator, Objective
from nmt_cli.training.weights import Weights

VOCAB_SIZE, NUM_PAIRS, STEPS = 30, 200, 20
NEVER = 1_000_000
QUIET = DropoutConfig(**dict.fromkeys(DropoutConfig.model_fields, 0.0))


class Pairs(PairStore):
    """Random pairs, of which some batches have one alone, too few for two processes."""

    def __init__(self) -> None:
        random = Random(1)

        def sentence() -> list[int]:
            return [random.randrange(4, VOCAB_SIZE) for _ in range(random.choice([2, 4, 9, 30]))]

        self._pairs = [(sentence(), sentence()) for _ in range(NUM_PAIRS)]
        self.lengths = [np.array([len(pair[side]) for pair in self._pairs]) for side in (0, 1)]

    def ids(self, number: int) -> tuple[list[int], list[int]]:
        return self._pairs[number]


def main() -> None:
    directory, accumulate = Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    pairs = Pairs()
    with open_world() as world:
        config = ModelConfig(
            embedding_size=6,
            layer_norm=True,
            encoder=EncoderConfig(hidden_size=5),
            decoder=DecoderConfig(hidden_size=8),
            attention=AttentionConfig(size=6),
            dropout=QUIET,
            lexical_model=True,
        )
        model = build_model(config, source_vocab_size=VOCAB_SIZE, target_vocab_size=VOCAB_SIZE).double()
        initialize(model, seed=1)
        optimizer = build_optimizer("adam", model.parameters(), learning_rate=0.01)
        weights = Weights(model, optimizer, ema_decay=0.9)
        sampler = Sampler(
            *pairs.lengths,
            bounds=(0, NUM_PAIRS),
            target_pieces=[int(pairs.lengths[1].sum())],
            weights=[1.0],
            batch_size=45,
            batch_type="tokens",
            seed=1,
        )
        backward = BackwardPass(Objective(model, TranslationLoss(label_smoothing=0.1)), world)
        (directory / "checkpoints").mkdir(exist_ok=True)
        metrics = MetricsLog(directory / "metrics.jsonl" if world.is_primary else None)
        stopping = StoppingCriteria(max_steps=STEPS, max_epochs=None, patience=None)
        intervals = Intervals(None, NEVER, 1, 1, 1, "loss", 1.0, 1)
        state = TrainingState.first(weights.trained[0], bf16=False, text="", accumulate=accumulate)
        recovery = Recovery(
            Checkpoints(directory / "checkpoints"), {}, weights, metrics, first=state, stopping=stopping,
            intervals=intervals, rewinds=False, clips_gradients=True, world=world,
        )  # fmt: skip
        trainer = Trainer(
            weights, BatchLoader(sampler, BatchMaker(pairs, (), seed=1), world),
            GradientAccumulator(backward, world, seed=1), recovery,
            schedule=Schedule("constant", 0.01), clip_grad_norm=1.0, stopping=stopping, intervals=intervals,
            validator=None, metrics=metrics, world=world,
        )  # fmt: skip
        trainer.finish(trainer.run())
        if world.is_primary:
            save_tensors(parameters_of(model), directory / "parameters.safetensors")
            lines = (directory / "metrics.jsonl").read_text().splitlines()
            print(json.dumps([record["loss"] for record in map(json.loads, lines) if record["event"] == "train"]))


if __name__ == "__main__":
    main()
