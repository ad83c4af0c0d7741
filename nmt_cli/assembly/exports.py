"""Exports of trained models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nmt_cli.export.card import card
from nmt_cli.export.new_directory import check_new_directory
from nmt_cli.export.onnx import directory
from nmt_cli.system.console import command_line, log

if TYPE_CHECKING:
    from nmt_cli.experiment import Experiment

FORMATS = ("html", "onnx")
PAGE_ENDINGS = (".html", ".htm")


def write_page(
    experiments: list[Experiment], output: Path, *, checkpoint: str = "best", precision: str = "int8"
) -> None:
    """Write a page that translates offline, and say how large it is."""
    from nmt_cli.assembly.model import load_model
    from nmt_cli.export.page import exporting

    exporting.check_request(experiments, output, precision)
    loaded = [(experiment, load_model(experiment, checkpoint).model) for experiment in experiments]
    exported = exporting.export(loaded, output, checkpoint=checkpoint)
    parts = ", ".join(f"{model.title} ({len(model.packed) / 1e6:,.1f} MB)" for model in exported.models)
    log(f"a page of {exported.size / 1e6:,.1f} MB that translates offline, {parts} -> {output}")


def write_onnx(experiment: Experiment, output: Path, *, checkpoint: str, precision: str) -> None:

    from nmt_cli.assembly.model import load_model

    directory.check_request(precision)
    check_new_directory(output)
    model, _ = load_model(experiment, checkpoint)
    sizes = directory.export(experiment, model, output, precision=precision, card=card([experiment], checkpoint))
    models = sum(size for name, size in sizes.items() if name.endswith(".onnx"))
    log(f"{precision}, {models / 1e6:,.1f} MB in two graphs, {sum(sizes.values()) / 1e6:,.1f} MB in all -> {output}")
    log(f"try: echo 'A sentence.' | {command_line('python', output / 'translate.py')}")
