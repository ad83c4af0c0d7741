"""Text cut into the pieces of a model, and pieces joined to text again, line by line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nmt_cli.assembly.file_checks import refuse_overwriting
from nmt_cli.assembly.model_options import named_model
from nmt_cli.data.lines import decode_line, input_name, iter_lines, open_input, warn_of_invalid
from nmt_cli.data.output import open_output
from nmt_cli.data.tokenizer import segments
from nmt_cli.experiment import Experiment, check_model_directory
from nmt_cli.system.console import format_count, warn
from nmt_cli.system.errors import InputError
from nmt_cli.translation.windows import windows_of_lines

if TYPE_CHECKING:
    from nmt_cli.data.tokenizer import Tokenizer


def write_pieces(file: str | None, output: Path | None, model_dir: Path | None, side: str) -> None:
    """Write the pieces of each line, with spaces between.

    Raises:
        InputError: there is no such side or model, or the output is the input or a part of the model.
    """
    model = named_model(model_dir)
    tokenizer = _tokenizer_of(model, side)
    _rewrite_lines(file, output, model, " ", lambda text: " ".join(tokenizer.pieces(tokenizer.encode(text))))


def write_decoded_text(file: str | None, output: Path | None, model_dir: Path | None, side: str) -> None:
    """Write the text of each line of pieces, and warn of words that are no pieces of the vocabulary.

    Raises:
        InputError: there is no such side or model, or the output is the input or a part of the model.
    """
    model, num_foreign = named_model(model_dir), 0
    tokenizer = _tokenizer_of(model, side)

    def join(text: str) -> str:
        nonlocal num_foreign
        # Only the space separates pieces: other white space may stand in one.
        joined, more = tokenizer.join([piece for piece in text.split(" ") if piece])
        num_foreign += more
        return joined

    _rewrite_lines(file, output, model, " ▁", join)
    if num_foreign:
        other = "target" if side == "source" else "source"
        warn(
            f"{format_count(num_foreign, 'piece')} not in the {side} vocabulary, left as written; give --side {other} "
            "if they are that side's"
        )


def _tokenizer_of(model: Path, side: str) -> Tokenizer:
    """Return the tokenizer of one side of a model."""
    if side not in ("source", "target"):
        raise InputError(f"--side {side}: must be source or target")
    check_model_directory(model)
    return Experiment(model).tokenizers[0 if side == "source" else 1]


def _rewrite_lines(file: str | None, output: Path | None, model: Path, mark: str, change: Callable[[str], str]) -> None:
    """Write each line as `change` returns it; a long line is cut before some `mark`s, and changed part by part."""
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
        warn_of_invalid(f"{input_name(file)}: ", num_invalid)
