"""`nmt encode` and `nmt decode`: text to pieces and back, as filters."""

from __future__ import annotations

from typing import Annotated

import typer

from nmt_cli.commands.options import InputFile, ModelDir, OutputFile, PiecesFile

Side = Annotated[str, typer.Option("--side", metavar="SIDE", help="The language of the text: source or target.")]


def encode(file: InputFile = None, *, model: ModelDir = None, side: Side = "source", output: OutputFile = None) -> None:
    """Cut each line into pieces (subwords, the tokens of the model), with spaces between.

    Example: nmt encode file.txt --model runs/demo --side source
    """
    from nmt_cli.assembly.piece_text import write_pieces

    write_pieces(file, output, model, side)


def decode(
    file: PiecesFile = None, *, model: ModelDir = None, side: Side = "target", output: OutputFile = None
) -> None:
    """Join the pieces of each line to text again. Where the text had ▁, it has a blank now.

    Example: nmt encode file.txt --model runs/demo --side target | nmt decode --model runs/demo
    """
    from nmt_cli.assembly.piece_text import write_decoded_text

    write_decoded_text(file, output, model, side)
