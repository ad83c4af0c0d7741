"""A new configuration that fits a corpus: what `nmt init` checks, measures and writes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from nmt_cli.assembly.epoch_updates import updates_of_text
from nmt_cli.assembly.file_checks import refuse_invalid_languages, refuse_one_file
from nmt_cli.assembly.imported_pairs import imported_files
from nmt_cli.assembly.training_inputs import refuse_unfit_text, warn_of_exchanged_sides
from nmt_cli.config.schema import MAX_LICENCE
from nmt_cli.config.section import is_name
from nmt_cli.corpora.advice import MAX_CLEAN_SHARE, clean_command, filter_counts, fresh_prefix
from nmt_cli.corpora.filter_pairs import cleaned_paths
from nmt_cli.corpora.survey import survey
from nmt_cli.corpora.template import (
    DataPlan,
    Header,
    warn_of_few_pairs,
    warn_of_small_dev,
    write_configuration,
    write_with_held_out,
)
from nmt_cli.corpora.unequal_files import add_mismatch_place
from nmt_cli.data.lines import is_special_file
from nmt_cli.data.pairs import Corpus
from nmt_cli.system.console import format_count, log, warn
from nmt_cli.system.errors import InputError, UnequalLinesError


def configure_run(
    output: Path,
    languages: tuple[str, str],
    *,
    source: Sequence[str],
    target: Sequence[str],
    pairs: Sequence[str],
    dev: tuple[str | None, str | None],
    name: str | None,
    seed: int,
) -> None:
    """Write a configuration that fits a corpus, and the files of a dev set if none is given.

    Args:
        output: the configuration, which gives the run its name if `name` is None.
        languages: the codes of source and target.
        source: files of source lines.
        target: their translations, in the same order.
        pairs: files that `nmt import` reads, instead of `source` and `target`.
        dev: the two files of a dev set, or None twice.
        name: the name of the run.
        seed: for the pairs that are held out, and for the training.

    Raises:
        InputError: the files are unfit or do not belong together, a name is wrong, or an output exists already.
    """
    if bool(source or target) == bool(pairs):
        raise InputError("give --source and --target, or else --pairs with files that `nmt import` reads")
    _check_options(source, target, dev, languages, output)
    dev_corpus = Corpus(dev[0], dev[1]) if dev[0] is not None and dev[1] is not None else None
    files = [*source, *target]
    if dev_corpus is not None:
        refuse_one_file(dev_corpus.paths)
        files += dev_corpus.paths
    header = Header(run_name(output, name, "_".join(languages)), seed, *languages)
    refuse_unfit_text(files)
    if pairs:
        with imported_files(pairs, str(output.with_suffix("")), languages) as made:
            corpora = [Corpus(str(made.source), str(made.target))]
            _configure(output, replace(header, licence=_stated_licence(corpora)), corpora, dev_corpus)
    else:
        corpora = [Corpus(*paths) for paths in zip(source, target, strict=True)]
        for corpus in corpora:
            refuse_one_file(corpus.paths)
        warn_of_exchanged_sides(corpora, languages)
        try:
            _configure(output, replace(header, licence=_stated_licence(corpora)), corpora, dev_corpus)
        except UnequalLinesError as error:
            raise add_mismatch_place(error) from error
    log(f"configuration: {output}")
    _offer_cleaning(corpora, output, header, dev_corpus)
    config = shlex.quote(str(output))
    log(f"try: nmt check --config {config}; nmt train --config {config}")


def run_name(output: Path, name: str | None, languages: str) -> str:
    """Return the name of a run: `name`, or if it is None, the stem of `output`, or `languages` if the stem is "config".

    Raises:
        InputError: a run cannot have this name, or would write its own configuration over `output`.
    """
    named_by = "--name" if name is not None else f"-o {output}, which names the run too"
    name = name if name is not None else (output.stem if output.stem != "config" else languages)
    _check_name(name, named_by)
    if output.absolute() == Path("runs", name, "config.yaml").absolute():
        raise InputError(f"{output}: the run keeps its own configuration under this name. Choose another name")
    return name


def _configure(output: Path, header: Header, corpora: list[Corpus], dev: Corpus | None) -> None:
    """Write the configuration for the corpora. If `dev` is None, hold out a dev set, and write its files and those
    of the remaining pairs too."""
    text = survey(corpora)
    files = ", ".join(corpus.source for corpus in corpora)
    log(
        f"{format_count(text.num_pairs, 'pair')}, {text.words_per_line:.1f} words per target line, "
        f"{format_count(text.distinct_words, 'distinct word')}"
    )
    if text.num_whole < (2 if dev is None else 1):
        raise InputError(
            f"{files}: {format_count(text.num_whole, 'pair')} with text on both sides; there is nothing to train on"
        )
    if text.num_invalid >= max(3, text.num_pairs // 20):
        raise InputError(
            f"{', '.join(path for corpus in corpora for path in corpus.paths)}: {text.num_invalid:,} of "
            f"{text.num_pairs:,} pairs are not valid UTF-8, so a file is probably in another encoding, such as cp1252; "
            "`nmt import` finds it and writes UTF-8"
        )
    warn_of_few_pairs(text.num_whole)
    count_updates = partial(updates_of_text, corpora)
    if dev is not None:
        num_dev = survey([dev]).num_whole
        if not num_dev:
            raise InputError(f"{dev.source}: the dev set is empty: no pair has text on both sides")
        if text.num_invalid:
            warn(f"{text.num_invalid:,} pairs are not UTF-8; the configuration skips them")
        num_pairs = text.num_pairs - text.num_invalid
        plan = DataPlan(corpora, num_pairs, dev, "Yours; never filtered.", skips_invalid=text.num_invalid > 0)
        write_configuration(output, header, plan, text, count_updates)
        warn_of_small_dev(num_dev)
    else:
        write_with_held_out(output, header, corpora, text, count_updates)


def _stated_licence(corpora: Sequence[Corpus]) -> str | None:
    """Return the licence and attribution in the `nmt import` reports next to the corpora; None if missing or unfit."""
    texts: dict[str, None] = {}
    for corpus in corpora:
        try:
            report = json.loads(Path(f"{Path(corpus.source).with_suffix('')}.report.json").read_bytes())
            texts |= dict.fromkeys(map(str, report["attribution"]["texts"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    stated = "; ".join(texts)
    return stated if stated.isprintable() and 0 < len(stated) <= MAX_LICENCE else None


def _offer_cleaning(corpora: list[Corpus], output: Path, header: Header, dev: Corpus | None) -> None:
    """Warn if `nmt clean` would drop over MAX_CLEAN_SHARE per cent of a corpus, and log commands that clean first."""
    commands, files = [], []
    for corpus in corpora:
        files.append((corpus.source, corpus.target))
        counts = filter_counts(corpus.source, corpus.target)
        share = counts.share(counts.dropped)
        if share > MAX_CLEAN_SHARE:
            reasons = ", ".join(
                f"{rule} {counts.share(number):.2f} %" for rule, number in counts.dropped_by.most_common(3)
            )
            about = "" if counts.examined == counts.read else "about "
            number = round(counts.read * share / 100)
            warn(
                f"{corpus.source}: `nmt clean` would drop {about}{number:,} of {counts.read:,} pairs ({share:.2f} %; "
                f"most for {reasons})"
            )
            if not counts.kept:
                continue
            source, target, _ = cleaned_paths([corpus.source, corpus.target], fresh_prefix(corpus))
            files[-1] = str(source), str(target)
            commands.append(clean_command(corpus))
    if commands:
        commands.append(_init_command(files, output, header, dev))
        log(f"to clean first: {'; '.join(commands)}")


def _init_command(files: list[tuple[str, str]], output: Path, header: Header, dev: Corpus | None) -> str:
    """Return the `nmt init` command that writes a configuration for the cleaned files next to this configuration."""
    words = [word for pair in files for word in ("--source", pair[0], "--target", pair[1])]
    words += ["--source-lang", str(header.source_lang), "--target-lang", str(header.target_lang)]
    if dev is not None:
        words += ["--dev-source", dev.source, "--dev-target", dev.target]
    if header.seed != 1:
        words += ["--seed", str(header.seed)]
    words += ["--output", str(output.with_name(f"{output.stem}.clean{output.suffix}"))]
    return shlex.join(["nmt", "init", *words])


def _check_name(name: str, named_by: str) -> None:
    """Raise `InputError` if a run cannot have the name; the message says that `named_by` gave it."""
    if not is_name(name):
        raise InputError(
            f"{named_by}: {name!r} cannot be the name of a run, which is trained in runs/NAME. Take letters, digits, "
            "'.', '_' and '-'"
        )


def _check_options(
    source: Sequence[str],
    target: Sequence[str],
    dev: tuple[str | None, str | None],
    languages: tuple[str, str],
    output: Path,
) -> None:
    """Refuse options that are wrong, as far as this shows before any text is read."""
    if len(source) != len(target):
        raise InputError(
            f"--source names {len(source)} files and --target {len(target)}; give as many of one as of the other, in "
            "the same order"
        )
    if (dev[0] is None) != (dev[1] is None):
        raise InputError("--dev-source and --dev-target belong together: give both, or neither")
    if "-" in (*source, *target, *dev):
        raise InputError("standard input cannot be read twice; give files")
    refuse_invalid_languages(languages)
    if specials := [path for path in (*source, *target, *dev) if is_special_file(path)]:
        raise InputError(
            f"{', '.join(map(str, specials))}: is a pipe or a device, but this text is read more than once. Give a file"
        )
    check_output(output)


def check_output(output: Path) -> None:
    """Refuse a path to which no new configuration can be written.

    Raises:
        InputError: the path is standard output, ends in .gz, exists already, or its directory is missing.
    """
    if str(output) == "-":
        raise InputError(
            "-o -: the configuration must be a file, because the run takes its name from it. Give -o NAME.yaml"
        )
    if output.suffix == ".gz":
        raise InputError(f"{output}: a configuration is read as plain text; leave out .gz")
    if output.exists() or output.is_symlink():
        raise InputError(f"{output}: exists already and is not overwritten; choose another name, or move it away")
    if not output.parent.is_dir():
        raise InputError(f"{output}: there is no directory {output.parent}; make it first")
