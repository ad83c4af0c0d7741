"""`nmt init`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.commands.options import output_file
from nmt_cli.data.pairs import Corpus
from nmt_cli.system.console import log
from nmt_cli.system.errors import InputError, UnequalLinesError

if TYPE_CHECKING:
    pass


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
    from nmt_cli.assembly.imported_pairs import imported
    from nmt_cli.assembly.inputs import refuse_one_file
    from nmt_cli.assembly.new_configuration import check_name, check_options, configure, offer_cleaning

    if (source is None and target is None) == (pairs is None):
        raise InputError("give --source and --target, or else --pairs with files that `nmt import` reads")
    source, target = source or [], target or []
    check_options(source, target, (dev_source, dev_target), (source_lang, target_lang), output)
    from nmt_cli.assembly.input_checks import refuse_unfit_text, warn_of_exchanged_sides
    from nmt_cli.corpora.template import Header
    from nmt_cli.corpora.unequal_files import place_added

    files = [*source, *target, *([dev_source, dev_target] if dev_source and dev_target else [])]
    dev = Corpus(dev_source, dev_target) if dev_source is not None and dev_target is not None else None
    if dev is not None:
        refuse_one_file(dev.paths)
    named_by = "--name" if name is not None else f"-o {output}, which names the run too"
    name = name if name is not None else (output.stem if output.stem != "config" else f"{source_lang}_{target_lang}")
    check_name(name, named_by)
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
            configure(output, header, corpora, dev)
        except UnequalLinesError as error:
            raise place_added(error) from error
    else:
        with imported(pairs, str(output.with_suffix("")), (source_lang, target_lang)) as made:
            corpora = [Corpus(str(made.source), str(made.target))]
            configure(output, header, corpora, dev)
    log(f"configuration: {output}")
    offer_cleaning(corpora, output, header, dev)
    config = shlex.quote(str(output))
    log(f"try: nmt check --config {config}; nmt train --config {config}")
