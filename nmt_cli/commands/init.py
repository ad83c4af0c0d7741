"""`nmt init`."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.commands.options import output_file
from nmt_cli.console import counted, log, warn
from nmt_cli.data.lines import is_special_file
from nmt_cli.errors import InputError, UnequalLinesError

if TYPE_CHECKING:
    from nmt_cli.data.pairs import Corpus
    from nmt_cli.preflight.configuration import Header


def init(
    *,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            metavar="FILE",
            help="Source sentences, one on each line. May be repeated. A name in .gz is decompressed.",
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", metavar="FILE", help="The translations: as many files, in the same order."),
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option(
            "--pairs",
            metavar="FILE",
            help="A file that `nmt import` reads, in the place of --source and --target. May be repeated.",
        ),
    ] = None,
    source_lang: Annotated[str, typer.Option("--source-lang", metavar="XX", help="Language code, such as en.")],
    target_lang: Annotated[str, typer.Option("--target-lang", metavar="YY", help="Language code, such as de.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            parser=output_file,
            help="The configuration to write. The file must not exist.",
        ),
    ],
    dev_source: Annotated[
        str | None,
        typer.Option(
            "--dev-source", metavar="FILE", help="Dev set. Without it, 5 % of the pairs are held out, at most 1000."
        ),
    ] = None,
    dev_target: Annotated[
        str | None, typer.Option("--dev-target", metavar="FILE", help="The translations of the dev set.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="Name of the run, which is trained in runs/NAME. The default is the name of the -o file.",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            min=0,
            max=2**31 - 1,
            metavar="N",
            help="Random seed for the pairs that are held out, and for the training.",
        ),
    ] = 1,
) -> None:
    """Write a commented configuration that fits your corpus.

    Example: nmt init --source a.en --target a.de --source-lang en --target-lang de -o en_de.yaml
    """
    if (source is None and target is None) == (pairs is None):
        raise InputError("give --source and --target, or else --pairs with files that `nmt import` reads")
    source, target = source or [], target or []
    _check_options(source, target, (dev_source, dev_target), (source_lang, target_lang), output)
    from nmt_cli.commands.import_ import imported
    from nmt_cli.commands.reading import refuse_one_file
    from nmt_cli.data.pairs import Corpus
    from nmt_cli.preflight.configuration import Header
    from nmt_cli.preflight.inputs import refuse_unfit_text, warn_of_exchanged_sides
    from nmt_cli.rules.parting import place_added

    files = [*source, *target, *([dev_source, dev_target] if dev_source and dev_target else [])]
    dev = Corpus(dev_source, dev_target) if dev_source is not None and dev_target is not None else None
    if dev is not None:
        refuse_one_file(dev.paths)
    named_by = "--name" if name is not None else f"-o {output}, which names the run too"
    name = name if name is not None else (output.stem if output.stem != "config" else f"{source_lang}_{target_lang}")
    _check_name(name, named_by)
    if output.absolute() == Path("runs", name, "config.yaml").absolute():
        raise InputError(f"{output}: the run keeps its own configuration under this name. Choose another name")
    header = Header(name, seed, source_lang, target_lang)
    refuse_unfit_text(files)
    if pairs is None:
        corpora = [Corpus(*paths) for paths in zip(source, target, strict=True)]
        for corpus in corpora:
            refuse_one_file(corpus.paths)
        warn_of_exchanged_sides(corpora, (source_lang, target_lang))
        try:
            _configure(output, header, corpora, dev)
        except UnequalLinesError as error:
            raise place_added(error) from error
    else:
        with imported(pairs, str(output.with_suffix("")), (source_lang, target_lang)) as made:
            corpora = [Corpus(str(made.source), str(made.target))]
            _configure(output, header, corpora, dev)
    log(f"configuration: {output}")
    _offer_cleaning(corpora, output, header, dev)
    config = shlex.quote(str(output))
    log(f"try: nmt check --config {config}; nmt train --config {config}")


def _configure(output: Path, header: Header, corpora: list[Corpus], dev: Corpus | None) -> None:
    """Write the configuration for these corpora, and the files of a dev set where there is none."""
    from nmt_cli.commands.counting import updates_of_text
    from nmt_cli.preflight.configuration import (
        Plan,
        warn_of_few_pairs,
        warn_of_small_dev,
        write_configuration,
        write_with_held_out,
    )
    from nmt_cli.preflight.survey import survey

    text = survey(corpora)
    files = ", ".join(corpus.source for corpus in corpora)
    log(
        f"{counted(text.num_pairs, 'pair')}, {text.words_a_line:.1f} words per target line, "
        f"{counted(text.distinct_words, 'distinct word')}"
    )
    if text.num_whole < (2 if dev is None else 1):
        raise InputError(
            f"{files}: {counted(text.num_whole, 'pair')} with text on both sides; there is nothing to train on"
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
        num_dev = survey([dev]).num_pairs
        if not num_dev:
            raise InputError(f"{dev.source}: the dev set is empty")
        if text.num_invalid:
            warn(f"{text.num_invalid:,} pairs are not UTF-8; the configuration skips them")
        num_pairs = text.num_pairs - text.num_invalid
        plan = Plan(corpora, num_pairs, dev, "Yours; never filtered.", skips_invalid=text.num_invalid > 0)
        write_configuration(output, header, plan, text, count_updates)
        warn_of_small_dev(num_dev)
    else:
        write_with_held_out(output, header, corpora, text, count_updates)


def _offer_cleaning(corpora: list[Corpus], output: Path, header: Header, dev: Corpus | None) -> None:
    """Say what `nmt clean` would drop, where that is more than a clean corpus loses, and how to begin with the rest."""
    from nmt_cli.preflight.advice import NOTICEABLE, clean_command, fresh_prefix, judged_part
    from nmt_cli.rules.corpus import cleaned_names

    commands, files = [], []
    for corpus in corpora:
        files.append((corpus.source, corpus.target))
        counts = judged_part(corpus.source, corpus.target)
        share = counts.share(counts.dropped)
        if share > NOTICEABLE:
            reasons = ", ".join(
                f"{rule} {counts.share(number):.2f} %" for rule, number in counts.dropped_by.most_common(3)
            )
            about = "" if counts.judged == counts.read else "about "
            number = round(counts.read * share / 100)
            warn(
                f"{corpus.source}: `nmt clean` would drop {about}{number:,} of {counts.read:,} pairs ({share:.2f} %; "
                f"most for {reasons})"
            )
            if not counts.kept:
                continue
            source, target, _ = cleaned_names([corpus.source, corpus.target], fresh_prefix(corpus))
            files[-1] = str(source), str(target)
            commands.append(clean_command(corpus))
    if commands:
        commands.append(_command(files, output, header, dev))
        log(f"better: {'; '.join(commands)}")


def _command(files: list[tuple[str, str]], output: Path, header: Header, dev: Corpus | None) -> str:
    """Return the command that configures the cleaned files beside this configuration."""
    words = [word for pair in files for word in ("--source", pair[0], "--target", pair[1])]
    words += ["--source-lang", header.source_lang, "--target-lang", header.target_lang]
    if dev is not None:
        words += ["--dev-source", dev.source, "--dev-target", dev.target]
    if header.seed != 1:
        words += ["--seed", str(header.seed)]
    words += ["--output", str(output.with_name(f"{output.stem}.clean{output.suffix}"))]
    return shlex.join(["nmt", "init", *words])


def _check_name(name: str, named_by: str) -> None:
    """Raise `InputError` where a run cannot have a name."""
    from nmt_cli.config.section import is_name

    if not is_name(name):
        raise InputError(
            f"{named_by}: {name!r} cannot be the name of a run, which is trained in runs/NAME. Take letters, digits, "
            "'.', '_' and '-'"
        )


def _check_options(
    source: list[str], target: list[str], dev: tuple[str | None, str | None], languages: tuple[str, str], output: Path
) -> None:
    """Refuse what can be seen to be wrong before any text is read."""
    from nmt_cli.commands.reading import refuse_odd_languages

    if len(source) != len(target):
        raise InputError(
            f"--source names {len(source)} files and --target {len(target)}; give as many of one as of the other, in "
            "the same order"
        )
    if (dev[0] is None) != (dev[1] is None):
        raise InputError("--dev-source and --dev-target belong together: give both, or neither")
    if "-" in (*source, *target, *dev):
        raise InputError("standard input cannot be read twice; give files")
    refuse_odd_languages(languages)
    if str(output) == "-":
        raise InputError(
            "-o -: the configuration must be a file, because the run takes its name from it. Give -o NAME.yaml"
        )
    if output.suffix == ".gz":
        raise InputError(f"{output}: a configuration is read as plain text; leave out .gz")
    if specials := [path for path in (*source, *target, *dev) if is_special_file(path)]:
        raise InputError(
            f"{', '.join(map(str, specials))}: is a pipe or a device, but this text is read more than once. Give a file"
        )
    if output.exists() or output.is_symlink():
        raise InputError(f"{output}: exists already and is not overwritten; choose another name, or move it away")
    if not output.parent.is_dir():
        raise InputError(f"{output}: there is no directory {output.parent}; make it first")
