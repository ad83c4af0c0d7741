"""Checks of the files that a command line names: parallel inputs, and outputs that would overwrite other files."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from nmt_cli.data.lines import input_name, is_standard_input, open_input, read_text_lines, warn_of_invalid
from nmt_cli.data.output import identity_of, is_open_already, is_stream
from nmt_cli.experiment import Experiment
from nmt_cli.system.errors import InputError
from nmt_cli.system.files import no_space


def read_parallel(paths: Sequence[str | None]) -> list[list[str]]:
    """Return the lines of each input; the number of lines that are not valid UTF-8 is printed on stderr.

    Raises:
        InputError: an input cannot be read; standard input is named twice; the inputs are empty or differ in length.
    """
    from nmt_cli.scoring import check_line_counts

    refuse_standard_input_twice(paths)
    texts = [_read(path) for path in paths]
    check_line_counts([(input_name(path), len(text)) for path, text in zip(paths, texts, strict=True)])
    return texts


def refuse_standard_input_twice(paths: Sequence[str | None]) -> None:
    """Raise `InputError` where more than one of the inputs is standard input."""
    if sum(is_standard_input(path) for path in paths) > 1:
        raise InputError("standard input can be read only once: give files for the other inputs")


@contextmanager
def rereadable_paths(paths: Sequence[str]) -> Iterator[list[str]]:
    """Yield the paths, with a temporary copy in place of standard input, for work that reads a file more than once.

    Raises:
        InputError: standard input is named twice, or is closed.
        OSError: standard input cannot be read, or its copy cannot be written.
    """
    refuse_standard_input_twice(paths)
    if not any(map(is_standard_input, paths)):
        yield list(paths)
        return
    with TemporaryDirectory(prefix="nmt-") as directory:
        copy = Path(directory, input_name("-"))
        try:
            with open_input("-") as stream, copy.open("wb") as file:
                shutil.copyfileobj(stream, file)
        except OSError as error:
            if no_space(error):  # in a place that nobody has named
                error.filename = str(Path(directory).parent)
            raise
        yield [str(copy) if is_standard_input(path) else path for path in paths]


def refuse_one_file(pair: Sequence[str]) -> None:
    """Raise `InputError` if source and target both exist and are the same file."""
    source, target = map(Path, pair)
    if source.exists() and target.exists() and source.samefile(target):
        raise InputError(f"{source}: is given as source and as target. Give two files")


def refuse_invalid_languages(
    languages: Sequence[str], options: Sequence[str] = ("--source-lang", "--target-lang")
) -> None:
    """Raise `InputError` if a language code has other characters than ASCII letters, digits, `_` and `-`.

    `options` are the names, for the message, of the options that give the languages, in order.
    """
    for option, language in zip(options, languages, strict=True):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", language):
            raise InputError(f"{option} {language}: must be a language code, such as en or pt_BR")


def _read(path: str | None) -> list[str]:
    """Return the lines of an input, and warn of those that are not UTF-8."""
    lines, num_invalid = read_text_lines(path)
    if num_invalid:
        warn_of_invalid(f"{input_name(path)}: ", num_invalid)
    return lines


def refuse_overwriting(
    output: Path | None, inputs: Iterable[str | Path | None], models: Sequence[Experiment] = ()
) -> None:
    """Refuse an output that is an input, a data file in a model's configuration, or a part of any model directory.

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
    """Refuse an output that is an input or a data file in the configuration of one of the models.

    Unlike `refuse_overwriting` this allows a file of a model directory, for commands that write one.

    Raises:
        InputError: the output is such a file, or the configuration of a model cannot be read.
    """
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
        model = Experiment(directory)
        parts = [*model.files, *model.directories, model.lock_path, model.improvement_path]
        belongs = directory / path.relative_to(directory).parts[0] in parts
        if belongs and model.checkpoints.directory.is_dir() and model.config_path.is_file():
            raise InputError(f"{output}: belongs to the model in {directory}; choose another name for the output")
