"""Trained models in other forms: a page that translates offline, ONNX graphs, a model card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nmt_cli.assembly.file_checks import refuse_overwriting
from nmt_cli.assembly.model_options import named_models
from nmt_cli.data.output import is_stream, open_output
from nmt_cli.export.card import card
from nmt_cli.export.new_directory import check_new_directory
from nmt_cli.export.onnx import directory
from nmt_cli.system.console import command_line, log, warn
from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.assembly.model_options import ModelOptions
    from nmt_cli.experiment import Experiment

FORMATS = ("html", "onnx")
PAGE_ENDINGS = (".html", ".htm")
_NORMALIZATION_WARNINGS = {
    "html": "of decoding.normalize_input, the page does only capitals and missing full stops. Lines with numbers, "
    "emoji, unusual quotes or typing errors may be translated worse than by nmt translate",
    "onnx": "the export does not do decoding.normalize_input. Lines in capitals, for example, may be translated "
    "worse than by nmt translate",
}
"""Warnings, by format, of the input normalization that an export leaves out."""


def export_models(models: ModelOptions, output: Path | None, *, format_: str | None, precision: str | None) -> None:
    """Write models as an HTML page that translates offline, or one model as a directory with ONNX graphs.

    `format_` is html or onnx; None means html, for an output that ends in .html or .htm. `precision` None means int8 in
    a page and fp32 in ONNX graphs.

    Raises:
        InputError: the output is missing, or the output, the format, the precision or a model is unfit.
    """
    if output is None:
        raise InputError("-o is missing: give the page (FILE.html) or the directory to write")
    if str(output) == "-":
        raise InputError(
            "-o -: an export cannot go to standard output; give the page (FILE.html) or the directory to write"
        )
    is_page = output.suffix.lower() in PAGE_ENDINGS
    wanted = format_ or ("html" if is_page else "")
    if not wanted:
        raise InputError(f"{output}: give a name that ends in .html, or --format onnx for a directory")
    if wanted not in FORMATS:
        raise InputError(f"--format {format_}: must be one of {', '.join(FORMATS)}")
    checkpoint = models.checkpoint
    chooses = wanted == "onnx" or models.source_lang or models.target_lang
    experiments = models.experiments() if chooses else named_models(models.directories)
    refuse_overwriting(output, [], experiments)
    if wanted == "html":
        write_page(experiments, output, checkpoint=checkpoint, precision=precision or "int8")
    elif len(experiments) > 1:
        raise InputError("--format onnx: takes one --model; give each model a directory of its own")
    else:
        write_onnx(experiments[0], output, checkpoint=checkpoint, precision=precision or "fp32")
    if any(experiment.config.decoding.normalize_input for experiment in experiments):
        warn(_NORMALIZATION_WARNINGS[wanted])


def write_card(model_dirs: Sequence[Path], output: Path | None, checkpoint: str) -> None:
    """Write the model card of one or several models, in Markdown, to a file or (`output` None) to standard output."""
    experiments = named_models(model_dirs)
    refuse_overwriting(output, [], experiments)
    text = card(experiments, checkpoint)
    with open_output(output) as file:
        file.write(text.encode("utf-8", errors="backslashreplace"))
    if output is not None and not is_stream(output):
        log(f"model card -> {output}")


def write_page(
    experiments: list[Experiment], output: Path, *, checkpoint: str = "best", precision: str = "int8"
) -> None:
    """Write an HTML page that holds the models and translates offline, and log its size in MB."""
    from nmt_cli.assembly.normalization import open_profile
    from nmt_cli.assembly.trained_model import load_model
    from nmt_cli.export.page import exporting

    exporting.check_request(experiments, output, precision)
    loaded = [
        (
            experiment,
            load_model(experiment, checkpoint).model,
            [
                open_profile(one) if one.config.decoding.normalize_input else None
                for one in experiment.of_each_direction()
            ],
        )
        for experiment in experiments
    ]
    exported = exporting.export(loaded, output, checkpoint=checkpoint)
    parts = ", ".join(f"{model.title} ({len(model.packed) / 1e6:,.1f} MB)" for model in exported.models)
    log(f"a page of {exported.size / 1e6:,.1f} MB that translates offline, {parts} -> {output}")


def write_onnx(experiment: Experiment, output: Path, *, checkpoint: str, precision: str) -> None:
    """Write a directory with the graphs of a model, its tokenizer, its defaults, a card and a program that translates.

    Raises:
        InputError: the directory is not new or empty, the precision is unknown, or the extra `onnx` is missing.
    """
    from nmt_cli.assembly.trained_model import load_model

    directory.check_request(precision)
    check_new_directory(output)
    model, _ = load_model(experiment, checkpoint)
    sizes = directory.export(experiment, model, output, precision=precision, card=card([experiment], checkpoint))
    models = sum(size for name, size in sizes.items() if name.endswith(".onnx"))
    log(f"{precision}, {models / 1e6:,.1f} MB in two graphs, {sum(sizes.values()) / 1e6:,.1f} MB in all -> {output}")
    log(f"try: echo 'A sentence.' | {command_line('python', output / 'translate.py')}")
