"""A new configuration for several directions: what `nmt init --direction` imports, holds out, measures and writes."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from nmt_cli.assembly.epoch_updates import updates_of_text
from nmt_cli.assembly.file_checks import refuse_invalid_languages
from nmt_cli.assembly.imported_pairs import imported_files
from nmt_cli.assembly.new_configuration import check_output, run_name
from nmt_cli.corpora.holdout import SplitCounts, SplitInput, hold_out
from nmt_cli.corpora.survey import survey
from nmt_cli.corpora.template import (
    DataPlan,
    Header,
    configuration,
    data_directory,
    warn_of_few_pairs,
    warn_of_small_dev,
)
from nmt_cli.data.lines import is_special_file
from nmt_cli.data.output import check_new, open_new_outputs
from nmt_cli.data.pairs import Corpus
from nmt_cli.system.console import log
from nmt_cli.system.errors import InputError
from nmt_cli.system.files import ensure_directory
from nmt_cli.text.direction import Direction


class _DirectionFiles(NamedTuple):
    """A direction of translation and the files with its pairs, as one option `--direction` names them."""

    direction: Direction
    files: tuple[str, ...]


def configure_directions(output: Path, given: Sequence[str], *, both: bool, name: str | None, seed: int) -> None:
    """Write a configuration for a model of several directions, with its training text and dev sets.

    The files of each direction are imported. From each, some pairs are held out as a dev set, and a sentence of any dev
    set occurs in no training text of any direction.

    Args:
        output: the configuration, which gives the run its name if `name` is None.
        given: the directions, each as `XX-YY=FILE[,FILE]...`.
        both: train each direction the other way round too.
        name: the name of the run.
        seed: for the pairs that are held out, and for the training.

    Raises:
        InputError: a direction or a file is wrong, or an output exists already.
    """
    texts = [_parse_direction(one) for one in given]
    directions = [text.direction for text in texts]
    if both:
        directions += [Direction(*reversed(direction)) for direction in directions]
    _refuse_repeats(directions)
    if len(directions) == 1:
        raise InputError(
            f"--direction {given[0]}: is the only one. Give further ones, or --both, or else --pairs with "
            "--source-lang and --target-lang for a model of one direction"
        )
    check_output(output)
    header = Header(run_name(output, name, "_".join(texts[0].direction)), seed, None, None)
    directory = data_directory(output)
    with ensure_directory(directory):
        _write(output, directory, header, texts, directions)
    config = shlex.quote(str(output))
    log(f"configuration: {output}")
    log(f"try: nmt check --config {config}; nmt train --config {config}")


def _parse_direction(given: str) -> _DirectionFiles:
    """Return the direction and the files that an option names."""
    languages, equals, files = given.partition("=")
    found = re.fullmatch(r"([^-]+)-([^-]+)", languages)
    names = tuple(name for name in files.split(",") if name)
    if not equals or found is None or not names:
        raise InputError(
            f"--direction {given}: must be XX-YY=FILE[,FILE]..., such as vi-en=vie-eng.zip; a language such as zh-TW "
            "is written zh_TW"
        )
    refuse_invalid_languages((found[1], found[2]))
    if found[1] == found[2]:
        raise InputError(f"--direction {given}: has the same language twice")
    for name in names:
        if name == "-" or is_special_file(name):
            raise InputError(f"--direction {given}: this text is read more than once; give files")
        if not os.path.exists(name):
            raise InputError(f"{name}: there is no such file")
    return _DirectionFiles(Direction(found[1], found[2]), names)


def _refuse_repeats(directions: Sequence[Direction]) -> None:
    """Refuse a direction that is given twice."""
    for number, direction in enumerate(directions):
        if direction in directions[:number]:
            raise InputError(
                f"--direction {direction}: is given twice, or once and the other way round with --both. Give all its "
                "files together, separated by commas"
            )


def _write(
    output: Path, directory: Path, header: Header, texts: Sequence[_DirectionFiles], directions: Sequence[Direction]
) -> None:
    """Import the texts into a directory, split them into training and dev sets, and write the configuration."""
    paths = {
        part: [[directory / f"{one.direction}.{part}.{ending}" for ending in one.direction] for one in texts]
        for part in ("train", "dev")
    }
    new = [path for of_part in paths.values() for pair in of_part for path in pair]
    check_new([output, *new])
    with ExitStack() as stack:
        corpora = []
        for text in texts:
            prefix = str(directory / f"{text.direction}.all")
            found = stack.enter_context(imported_files(text.files, prefix, text.direction))
            corpora.append(Corpus(str(found.source), str(found.target)))
        surveys = [survey([corpus]) for corpus in corpora]
        for text, one in zip(texts, surveys, strict=True):
            if one.num_whole < 2:
                raise InputError(
                    f"{', '.join(text.files)}: has too few pairs: at least 2 are needed, one to train on and one to "
                    "hold out"
                )
            warn_of_few_pairs(one.num_whole)
        with open_new_outputs([output, *new]) as (config_file, *files):
            both_sides = list(zip(files[::2], files[1::2], strict=True))
            undivided = [
                SplitInput([corpus], text.direction, one.num_whole, train=train, dev=dev)
                for corpus, text, one, train, dev in zip(
                    corpora, texts, surveys, both_sides[: len(texts)], both_sides[len(texts) :], strict=True
                )
            ]
            splits = hold_out(undivided, seed=header.seed)
            _log_splits(texts, splits)
            plan = _data_plan(texts, directions, paths, splits)
            count = partial(
                updates_of_text,
                [_oriented_corpus(corpora[n % len(texts)], n < len(texts)) for n in range(len(directions))],
            )
            reads_per_epoch = plan.reads_per_epoch
            content = configuration(
                header, plan, survey(corpora), lambda config, num_pairs: count(config, reads_per_epoch * num_pairs)
            )
            config_file.write(content.encode("utf-8"))


def _oriented_corpus(corpus: Corpus, is_forward: bool) -> Corpus:
    """Return the corpus, with its sides exchanged if `is_forward` is false."""
    return corpus if is_forward else Corpus(corpus.target, corpus.source)


def _data_plan(
    texts: Sequence[_DirectionFiles],
    directions: Sequence[Direction],
    paths: dict[str, list[list[Path]]],
    splits: Sequence[SplitCounts],
) -> DataPlan:
    """Return the corpora and pair counts for the configuration.

    Each text is used in its own direction and, if `directions` has it, in the reverse one. `paths` has the files by
    part (train or dev), text and side.
    """
    by_part: dict[str, list[Corpus]] = {}
    for part, of_part in paths.items():
        files = [Corpus(str(source), str(target)) for source, target in of_part]
        by_part[part] = [_oriented_corpus(files[n % len(texts)], n < len(texts)) for n in range(len(directions))]
    held_out = sum(split.held_out for split in splits)
    left_out = sum(split.left_out for split in splits)
    return DataPlan(
        by_part["train"],
        sum(split.training for split in splits),
        by_part["dev"],
        f"{held_out:,} pairs held out by the seed; {left_out:,} others with one of their sentences are in neither set.",
        directions=directions,
        smallest_direction_pairs=min(split.training for split in splits),
        reads_per_epoch=len(directions) // len(texts),
    )


def _log_splits(texts: Sequence[_DirectionFiles], splits: Sequence[SplitCounts]) -> None:
    """Log how each text was split into training and dev set.

    Raises:
        InputError: nothing is left to train on.
    """
    for text, split in zip(texts, splits, strict=True):
        if not split.training:
            raise InputError(
                f"{', '.join(text.files)}: nothing is left to train on when the sentences of all dev sets are held out"
            )
        log(
            f"{text.direction}: {split.training:,} pairs to train on, {split.held_out:,} held out as the dev set, "
            f"{split.left_out:,} left out because a side is also in a dev set"
        )
        warn_of_small_dev(split.held_out, "name them in the configuration under data.dev")
