"""`nmt inspect`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.system.errors import InputError

if TYPE_CHECKING:
    pass


def inspect(
    directory: Annotated[
        Path | None,
        typer.Argument(
            help="The model directory. Without it, nmt takes $NMT_MODEL, or else the newest finished run below runs/.",
            metavar="DIR",
        ),
    ] = None,
    model: Annotated[Path | None, typer.Option("--model", "-m", help="The same as DIR.", metavar="DIR")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the contents of a model directory: architecture, training, scores, sizes.

    Example: nmt inspect runs/demo
    """
    from nmt_cli.assembly.description import report_of
    from nmt_cli.assembly.named_models import named_models

    named = [path for path in (directory, model) if path is not None]
    if len(named) > 1:
        raise InputError("give one model directory, as DIR or with --model")
    (experiment,) = named_models(named)
    report = report_of(experiment)
    if as_json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
        return
    for section, values in report.items():
        if not isinstance(values, dict):
            print(f"{section:12} {values}")
            continue
        print(section)
        for key, value in values.items():
            print(f"  {key:22} {f'{value:,}' if isinstance(value, int) else value}")
