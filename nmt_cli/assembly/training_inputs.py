"""Checks of the inputs of a training: files, device, settings, and the run with whose weights it begins.

Each raises an `InputError` that names every problem, before any work is done.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nmt_cli.config.paths import paths_in
from nmt_cli.config.section import PathKind
from nmt_cli.data.lines import is_special_file, iter_lines, open_input
from nmt_cli.data.output import identity_of
from nmt_cli.data.pairs import Corpus, count_pairs
from nmt_cli.experiment import Experiment
from nmt_cli.formats.languages import Languages, order_of
from nmt_cli.formats.recognise import HEAD_BYTES, misread_lines
from nmt_cli.scoring import check_tokenizer
from nmt_cli.system.console import warn
from nmt_cli.system.errors import InputError, ModelError
from nmt_cli.system.files import why_not_writable
from nmt_cli.training.checkpoints import MODEL_FILE, load_parameters
from nmt_cli.training.metrics_log import check_tensorboard

if TYPE_CHECKING:
    from nmt_cli.config.schema import Config

IGNORED_TOKENIZER_KEYS = {"sampling_alpha", "max_training_lines"}
"""Keys of the section `tokenizer` that may differ from those of the run in `training.init_from`, whose tokenizers are
still taken over."""


_ENCODING_ADVICE = (
    "Most lines with characters beyond ASCII are like it, so the whole file is probably in another encoding, such as "
    "cp1252; `nmt import` finds it and writes UTF-8"
)


def check_inputs(experiment: Experiment, config: Config) -> None:
    """Refuse missing inputs and everything else in the configuration with which a training would stop.

    Raises:
        InputError: the message has every problem.
    """
    from nmt_cli.data.embeddings import check_embeddings
    from nmt_cli.system.distributed import find_device

    data = config.data
    pairs, text, paths = _texts(config)
    vectors = [path for path in dict.fromkeys(vectors_needed(experiment, config)) if path]
    size = config.model.embedding_size
    _raise_all(
        partial(check_directory, experiment.directory),
        partial(refuse_own_files, experiment, config),
        partial(_check_files, [*paths, *vectors]),
        partial(refuse_unfit_text, paths, invalid_utf8=data.invalid_utf8),
        partial(_check_monolingual, text, pairs),
        *(partial(_check_dev, dev.source, dev.target) for dev in data.dev_sets),
        partial(_refuse_tags, config),
        *(partial(check_embeddings, Path(path), size) for path in vectors if os.path.isfile(path)),
        partial(find_device, config.training.device),
        partial(check_tokenizer, config.scoring.tokenize, "scoring.tokenize"),
        *([check_tensorboard] if config.training.tensorboard else []),
        partial(_check_origin, experiment, config),
    )


def check_directory(directory: Path) -> None:
    """Refuse a path that is not a directory, cannot be made one, or may not be written to.

    Raises:
        InputError: the path is unfit.
    """
    there = directory
    try:
        while not os.path.lexists(there) and there != there.parent:
            there = there.parent
        reason = why_not_writable(there)
        if not there.is_dir():
            reason = "a symbolic link in it leads nowhere" if there.is_symlink() else "file exists"
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    if reason:
        raise InputError(f"{directory}: cannot be used as a model directory: {reason}; choose another")


def refuse_own_files(experiment: Experiment, config: Config) -> None:
    """Refuse a data file that the run would overwrite, because it is one that the run writes in its directory.

    Raises:
        InputError: there is such a file.
    """
    own = {identity_of(path): path for path in _own_files(experiment)}
    own.pop(None, None)
    for named in paths_in(config):
        path = own.get(identity_of(named.path))
        if named.kind is PathKind.DATA and path is not None:
            raise InputError(
                f"{named.key}: {named.path} would be overwritten, because a run writes to {path}. Move the text "
                "elsewhere, or choose another model_dir"
            )


def _own_files(experiment: Experiment) -> list[Path]:
    """Return the files that a run writes in its directory, except those in its checkpoints."""
    within = [*experiment.tokenizer_paths(), *experiment.word_pairs_paths, experiment.log_path]
    return [*experiment.files, *within, experiment.lock_path]


def check_text_files(config: Config) -> None:
    """Refuse text files of the configuration that are missing or cannot be read twice: a part of `check_inputs`.

    Raises:
        InputError: the message has every such file.
    """
    _check_files(_texts(config)[2])


def _texts(config: Config) -> tuple[list[str], list[str], list[str]]:
    """Return the paths of the files of all pairs, of the text in one language, and of both with the alignments."""
    data = config.data
    sets = [*data.train, *data.test, *data.dev_sets]
    pairs = [path for pair in sets for path in (pair.source, pair.target)]
    text = [] if data.monolingual is None else list(data.monolingual.paths)
    return pairs, text, [*pairs, *text, *(corpus.alignment for corpus in data.train if corpus.alignment)]


def check_test_files(config: Config) -> None:
    """Refuse files of test sets that are missing or cannot be read twice.

    Raises:
        InputError: the message has every such file.
    """
    _check_files([path for test in config.data.test for path in (test.source, test.target)])


def check_counts(config: Config) -> None:
    """Refuse a training corpus whose source, target and alignment differ in lines; `check_inputs` checks the dev set.

    Raises:
        InputError: the message has every such corpus.
    """
    pairs = [Corpus(c.source, c.target, alignment=c.alignment) for c in config.data.train]
    _raise_all(*(partial(count_pairs, corpus) for corpus in pairs))


def check_tokenizer_inputs(experiment: Experiment, config: Config) -> None:
    """Refuse inputs from which no tokenizer can be made: a part of `check_inputs`.

    Raises:
        InputError: the message has every problem.
    """
    paths = [path for corpus in config.data.train for path in (corpus.source, corpus.target)]
    _raise_all(
        partial(_check_files, paths),
        partial(refuse_unfit_text, paths, invalid_utf8=config.data.invalid_utf8),
        partial(_refuse_tags, config),
        partial(_check_origin, experiment, config),
    )


def refuse_unfit_text(paths: Iterable[str], *, invalid_utf8: str | None = None) -> None:
    """Refuse text that training would misread, by the first 64 KiB of each file.

    A file that is missing or damaged is passed over; other checks report it.

    Raises:
        InputError: a file is plainly no text in UTF-8, has CR line ends, or is in another encoding throughout. If
            `invalid_utf8` is "skip" or "replace", another encoding is only warned of.
    """
    problems = []
    for path in dict.fromkeys(paths):
        if not os.path.isfile(path):
            continue
        try:
            with open_input(path) as stream:
                misread = misread_lines(stream.read(16 * HEAD_BYTES))
        except InputError as error:
            problems.append(str(error))
            continue
        except (OSError, EOFError, zlib.error):  # of a damaged file, which whoever reads on says
            continue
        if misread is None:
            continue
        if misread.cause == "CR":
            problems.append(f"{path}: its lines end in CR only, so it would be one line; `nmt import` changes that")
        elif invalid_utf8 in ("skip", "replace"):
            warn(f"{path}:{misread.line}: is not valid UTF-8. {_ENCODING_ADVICE}")
        else:
            fix = "; fix the line, or set data.invalid_utf8 to skip or replace" if invalid_utf8 else ""
            problems.append(f"{path}:{misread.line}: is not valid UTF-8{fix}. {_ENCODING_ADVICE}")
    if problems:
        raise InputError("\n".join(problems))


def warn_of_exchanged_sides(corpora: Iterable[Corpus], languages: tuple[str, str]) -> None:
    """Warn if the source text looks like the target language and the target text like the source language.

    Few lines are read. A file that cannot be read is passed over; other checks report it.
    """
    for corpus in corpora:
        if not all(map(os.path.isfile, (corpus.source, corpus.target))):  # a pipe would wait for whoever writes
            continue
        try:
            with open_input(corpus.source) as source, open_input(corpus.target) as target:
                texts = [(line.decode(errors="replace") for line in iter_lines(side)) for side in (source, target)]
                order = order_of(texts[0], texts[1], Languages(*languages))
        except (InputError, OSError, EOFError, zlib.error):
            continue
        if order.is_swapped and order.is_certain:
            warn(
                f"{corpus.source} looks like {languages[1]} and {corpus.target} like {languages[0]}. If they are "
                "swapped, exchange the two file names"
            )


def problems_of(*checks: Callable[[], object]) -> list[str]:
    """Return the lines of every `InputError` that the checks raise, each line once."""
    problems = []
    for check in checks:
        try:
            check()
        except InputError as error:
            problems += str(error).splitlines()
    return list(dict.fromkeys(problems))


def _raise_all(*checks: Callable[[], object]) -> None:
    """Raise one `InputError` with the problems of all checks."""
    if problems := problems_of(*checks):
        raise InputError("\n".join(problems))


def _check_files(paths: Sequence[str]) -> None:
    """Refuse files that are not there, cannot be read, or can be read only once."""
    problems = []
    for path in dict.fromkeys(paths):
        try:
            if not Path(path).exists():
                problems.append(f"{path}: there is no such file")
            elif Path(path).is_dir():
                problems.append(f"{path}: is a directory; give a text file")
            elif is_special_file(path):
                problems.append(f"{path}: is a pipe or a device, but this text is read more than once. Give a file")
            elif not os.access(path, os.R_OK):
                problems.append(f"{path}: cannot be opened: permission denied")
        except OSError as error:  # in a directory that may not be entered
            problems.append(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}")
    if problems:
        raise InputError("\n".join(problems))


def _check_monolingual(text: Sequence[str], of_pairs: Sequence[str]) -> None:
    """Refuse a file of text in one language that is a side of the training, dev or test pairs."""
    known = {os.path.realpath(path): path for path in of_pairs}
    problems = [
        f"data.monolingual: {path} is the file {known[os.path.realpath(path)]} of data.train, data.dev or data.test. "
        "Name text there that has no translation"
        for path in text
        if os.path.realpath(path) in known
    ]
    if problems:
        raise InputError("\n".join(problems))


def _check_dev(source: str, target: str) -> None:
    """Refuse a dev set that is empty or has unequal numbers of lines, before tokenizers are trained for nothing."""
    from nmt_cli.training.validation import DevSet

    if os.path.isfile(source) and os.path.isfile(target):
        DevSet.read([Corpus(source, target)])


def _refuse_tags(config: Config) -> None:
    """Refuse training text that contains a tag of a direction, because the program itself adds the tags."""
    tags = [tag.encode() for tag in config.data.tags]
    paths = dict.fromkeys(path for corpus in config.data.train for path in (corpus.source, corpus.target))
    problems = []
    for path in paths if tags else ():
        try:
            with open_input(path) as stream:
                found = next((n, tag) for n, line in enumerate(iter_lines(stream), 1) for tag in tags if tag in line)
        except (StopIteration, InputError, OSError, EOFError, zlib.error):  # whoever reads on says it
            continue
        problems.append(
            f"{path}:{found[0]}: contains {found[1].decode()}, a tag by which a model of several directions is told "
            "the language. The program adds it, so take it out of the text"
        )
    if problems:
        raise InputError("\n".join(problems))


def tokenizer_origin(config: Config) -> Path | None:
    """Return the directory of the run whose tokenizers a training takes over, or None if it trains its own.

    The tokenizers of the run in `training.init_from` are taken over if the section `tokenizer` is the same, except for
    IGNORED_TOKENIZER_KEYS, and that run has all directions and tags of the new one. Otherwise the new run has a
    vocabulary of its own.

    Raises:
        InputError: `training.init_from` names no run.
    """
    if config.training.init_from is None:
        return None
    origin, _ = _origin_run(config.training.init_from)
    own, its = (c.tokenizer.model_dump(mode="json", exclude=IGNORED_TOKENIZER_KEYS) for c in (config, origin.config))
    own_data, its_data = config.data, origin.config.data
    has_all = {*own_data.directions} <= {*its_data.directions} and {*own_data.tags} <= {*its_data.tags}
    return origin.directory if has_all and own == its else None


def _origin_run(init_from: str) -> tuple[Experiment, Path]:
    """Return the run that `training.init_from` names, and its best checkpoint."""
    origin = Experiment(Path(init_from))
    if not origin.directory.is_dir():
        raise InputError(f"training.init_from: {origin.directory}: there is no such model directory")
    try:
        return origin, origin.checkpoints.resolve("best")
    except InputError as error:
        raise InputError(f"training.init_from: {error}") from None


def _check_origin(experiment: Experiment, config: Config) -> None:
    """Refuse a run in `training.init_from` that is missing or has other parameters than the configured model.

    A training that has begun no longer needs that run, so nothing is checked.
    """
    import torch

    from nmt_cli.model.build import build_model

    if config.training.init_from is None or experiment.has_begun:
        return

    origin, best = _origin_run(config.training.init_from)
    path = best / MODEL_FILE
    source, target = origin.tokenizers
    if config.model.tied_embeddings not in ("none", "target") and not source.has_same_model(target):
        raise InputError(
            f"training.init_from: model.tied_embeddings is {config.model.tied_embeddings}, which needs a joint "
            f"vocabulary, but {origin.directory} has one for each language. Choose the value that it has"
        )
    # With the vocabulary of the origin: only the other sizes have to agree.
    with torch.device("meta"):
        model = build_model(config.model, source_vocab_size=source.vocab_size, target_vocab_size=target.vocab_size)
    try:
        load_parameters(model, path)
    except ModelError as error:
        raise InputError(
            f"training.init_from: {error}. All but the vocabulary must be alike: take over the section model of "
            f"{origin.config_path}"
        ) from None


def vectors_needed(experiment: Experiment, config: Config) -> tuple[str | None, str | None]:
    """Return the files of pretrained vectors for source and target, None for each that is not needed.

    If the values come from another run or a checkpoint, the files only show which embeddings are frozen, so without
    freezing none is needed.
    """
    pretrained = config.model.pretrained
    has_values = config.training.init_from is not None or experiment.has_begun
    if not pretrained.freeze and has_values:
        return None, None
    return pretrained.source, pretrained.target
