"""`nmt encode` and `nmt decode`: text to pieces and back, as filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.commands.options import InputFile, ModelDir, OutputFile
from nmt_cli.system.console import counted, warn

if TYPE_CHECKING:
    pass

Side = Annotated[str, typer.Option("--side", metavar="SIDE", help="The language of the text: source or target.")]


def encode(file: InputFile = None, *, model: ModelDir, side: Side = "source", output: OutputFile = None) -> None:
    """Cut each line into the pieces of the model, with spaces between.

    Example: nmt encode file.txt --model runs/demo --side source
    """
    from nmt_cli.assembly.piece_text import rewrite_lines, tokenizer_of

    tokenizer = tokenizer_of(model, side)
    rewrite_lines(file, output, model, " ", lambda text: " ".join(tokenizer.pieces(tokenizer.encode(text))))


def decode(file: InputFile = None, *, model: ModelDir, side: Side = "target", output: OutputFile = None) -> None:
    """Join the pieces of each line to text again.

    Example: nmt encode file.txt --model runs/demo --side target | nmt decode --model runs/demo
    """
    from nmt_cli.assembly.piece_text import rewrite_lines, tokenizer_of

    tokenizer = tokenizer_of(model, side)
    num_foreign = 0

    def join(text: str) -> str:
        nonlocal num_foreign
        # Only the space separates pieces: other white space may stand in one.
        joined, more = tokenizer.join([piece for piece in text.split(" ") if piece])
        num_foreign += more
        return joined

    rewrite_lines(file, output, model, " ▁", join)
    if num_foreign:
        other = "target" if side == "source" else "source"
        warn(
            f"{counted(num_foreign, 'piece')} not in the {side} vocabulary, left as written; give --side {other} if "
            "they are that side's"
        )
