"""`nmt encode` and `nmt decode`: text to pieces and back, as filters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.commands.options import InputFile, ModelDir, OutputFile
from nmt_cli.console import counted, warn
from nmt_cli.errors import InputError

if TYPE_CHECKING:
    from nmt_cli.data.tokenizer import Tokenizer

Side = Annotated[str, typer.Option("--side", metavar="SIDE", help="The language of the text: source or target.")]


def encode(file: InputFile = None, *, model: ModelDir, side: Side = "source", output: OutputFile = None) -> None:
    """Cut each line into the pieces of the model, with spaces between.

    Example: nmt encode file.txt --model runs/demo --side source
    """
    tokenizer = _tokenizer(model, side)
    _filter(file, output, model, " ", lambda text: " ".join(tokenizer.pieces(tokenizer.encode(text))))


def decode(file: InputFile = None, *, model: ModelDir, side: Side = "target", output: OutputFile = None) -> None:
    """Join the pieces of each line to text again.

    Example: nmt encode file.txt --model runs/demo --side target | nmt decode --model runs/demo
    """
    tokenizer = _tokenizer(model, side)
    num_foreign = 0

    def join(text: str) -> str:
        nonlocal num_foreign
        # Only the space separates pieces: other white space may stand in one.
        joined, more = tokenizer.join([piece for piece in text.split(" ") if piece])
        num_foreign += more
        return joined

    _filter(file, output, model, " ▁", join)
    if num_foreign:
        other = "target" if side == "source" else "source"
        warn(
            f"{counted(num_foreign, 'piece')} not in the {side} vocabulary, left as written; give --side {other} if "
            "they are that side's"
        )


def _tokenizer(model: Path, side: str) -> Tokenizer:
    from nmt_cli.experiment import Experiment, check_model_directory

    if side not in ("source", "target"):
        raise InputError(f"--side {side}: must be source or target")
    check_model_directory(model)
    return Experiment(model).tokenizers[0 if side == "source" else 1]


def _filter(file: str | None, output: Path | None, model: Path, mark: str, change: Callable[[str], str]) -> None:
    """Write every line changed, a long one segment by segment, which `mark` begins."""
    from nmt_cli.commands.overwriting import refuse_overwriting
    from nmt_cli.data.lines import decode_line, iter_lines, open_input
    from nmt_cli.data.output import open_output
    from nmt_cli.data.tokenizer import segments
    from nmt_cli.experiment import Experiment
    from nmt_cli.translation.windows import windows_of_lines

    refuse_overwriting(output, [file], [Experiment(model)])
    num_invalid = 0
    with open_input(file) as stream, open_output(output) as out:
        for window in windows_of_lines(iter_lines(stream)):
            for line in window:
                text, is_valid = decode_line(line)
                num_invalid += not is_valid
                separator = ""
                for changed in filter(None, map(change, segments(text, mark))):
                    out.write((separator + changed).encode("utf-8", errors="replace"))
                    separator = " "
                out.write(b"\n")
            out.flush()
    if num_invalid:
        warn(f"{counted(num_invalid, 'line')} not valid UTF-8; U+FFFD stands for their invalid bytes")
