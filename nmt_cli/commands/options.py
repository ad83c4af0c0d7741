"""Options that several commands share, so that they read the same everywhere."""

from pathlib import Path
from typing import Annotated, Optional

import typer

ConfigFile = Annotated[Path, typer.Option("--config", "-c", help="The configuration, a YAML file.", metavar="FILE")]
Overrides = Annotated[
    Optional[list[str]],  # noqa: UP045 (typer reads this at run time)
    typer.Option("--set", help="Override a key, such as training.max_steps=100. May be repeated.", metavar="KEY=VALUE"),
]
ModelDir = Annotated[Path, typer.Option("--model", "-m", help="The model directory.", metavar="DIR")]
ModelDirs = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Option(
        "--model", "-m", metavar="DIR",
        help="The model directory; several make an ensemble. Without it $NMT_MODEL, else the newest finished run "
        "below runs/.",
    ),
]  # fmt: skip
InputFile = Annotated[
    Optional[str],  # noqa: UP045
    typer.Argument(help="A text file, a sentence a line; - or nothing for standard input.", metavar="[FILE]"),
]
Checkpoint = Annotated[
    str, typer.Option("--checkpoint", help="Which weights: best, last, a step, or a name.", metavar="C")
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
Threads = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--threads", min=1, help="CPU threads; all cores unless told."),
]
OutputFile = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        "--output", "-o", help="Write here instead of to standard output; whole or not at all.", metavar="OUT"
    ),
]
