"""`nmt tokenizer`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nmt_cli.commands.options import ConfigFile, Overrides
from nmt_cli.experiment import Experiment
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    pass


def tokenizer(config: ConfigFile, set_: Overrides = None) -> None:
    """Train the SentencePiece tokenizers. With training.init_from, take the tokenizers of that run if they fit.

    Example: nmt tokenizer --config configs/multi30k_en_de.yaml
    """
    from nmt_cli.assembly.input_checks import check_tokenizer_inputs
    from nmt_cli.assembly.resume_checks import config_to_train
    from nmt_cli.assembly.run_lock import locked_run
    from nmt_cli.assembly.tokenizers import renew_tokenizers

    effective = config_to_train(config, set_ or ())
    experiment = Experiment(Path(effective.model_dir))
    with locked_run(experiment):
        if experiment.has_begun:
            raise InputError(
                f"{experiment.directory}: has a trained model already, and a model keeps its tokenizer; choose "
                "another model_dir"
            )
        check_tokenizer_inputs(experiment, effective)
        renew_tokenizers(experiment, effective)
