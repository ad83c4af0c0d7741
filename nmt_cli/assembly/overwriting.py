"""Refuses outputs that would destroy what a command reads: its inputs, its models, and the data of these models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nmt_cli.data.lines import input_name
from nmt_cli.data.output import identity_of, is_open_already, is_stream
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.experiment import Experiment

PARTS_OF_A_MODEL = (
    *("config.yaml", "tokenizer", "checkpoints", "metrics.jsonl", "languages.json", "writing.json", "confidence.json"),
    *("improve.json", "measured.json", "cache", "logs", ".lock"),
)


def refuse_overwriting(
    output: Path | None, inputs: Iterable[str | Path | None], models: Sequence[Experiment] = ()
) -> None:
    """Refuse an output that is an input, data of one of the models, or a part of any model.

    Files are compared, not names, so links and other spellings of a path make no difference. None and `-` are standard
    streams. Pipes and devices can be read and written at once.

    Raises:
        InputError: the output is such a file, or the configuration of a model cannot be read.
    """
    _refuse_part_of_model(output)
    refuse_overwriting_data(output, inputs, models)


def refuse_overwriting_data(
    output: Path | None, inputs: Iterable[str | Path | None], models: Sequence[Experiment]
) -> None:
    """Refuse what `refuse_overwriting` does, but for a part of a model, which is to be written."""
    from nmt_cli.config.paths import paths_in
    from nmt_cli.config.section import PathKind

    written = identity_of(1 if is_stream(output) else str(output))
    if written is None:
        return
    for path in inputs:
        if written == identity_of(0 if is_stream(path) else str(path)):
            named = "Standard output" if is_stream(output) else f"The output {output}"
            raise InputError(
                f"{input_name(path)}: cannot be both input and output. {named} is the same file; choose another name"
            )
    if output is None or is_open_already(output):
        return  # a shell has emptied it before, or the command writes to its end
    for model in models:
        for data in paths_in(model.config):
            if data.kind is PathKind.DATA and written == identity_of(data.path):
                raise InputError(
                    f"{output}: is data of the model in {model.directory} ({data.key}: {data.path}), so it is not "
                    "overwritten; choose another name for the output"
                )


def _refuse_part_of_model(output: Path | None) -> None:
    """Refuse to replace a file that makes a model directory a model; pictures and reports may be put there."""
    if output is None or not output.is_file():
        return
    path = Path(os.path.realpath(output))
    for directory in list(path.parents)[:3]:
        belongs = path.relative_to(directory).parts[0] in PARTS_OF_A_MODEL
        if belongs and (directory / "checkpoints").is_dir() and (directory / "config.yaml").is_file():
            raise InputError(f"{output}: belongs to the model in {directory}; choose another name for the output")
