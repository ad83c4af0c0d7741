"""`nmt init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt_cli.commands.options import output_file
from nmt_cli.system.errors import InputError


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
    source_lang: Annotated[
        str | None,
        typer.Option(
            "--source-lang", metavar="XX", help="Language of the source, such as en. Needed without --direction."
        ),
    ] = None,
    target_lang: Annotated[
        str | None,
        typer.Option(
            "--target-lang", metavar="YY", help="Language of the target, such as de. Needed without --direction."
        ),
    ] = None,
    direction: Annotated[
        list[str] | None,
        typer.Option(
            "--direction",
            metavar="XX-YY=FILE[,FILE]...",
            help="For a model of several directions: a direction, such as vi-en, and its files, which nmt import can "
            "read. Replaces the options above. May be repeated.",
        ),
    ] = None,
    both: Annotated[
        bool, typer.Option("--both", help="With --direction: train each direction the other way round too.")
    ] = False,
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
    if direction:
        of_one = {
            "--source": source, "--target": target, "--pairs": pairs, "--source-lang": source_lang,
            "--target-lang": target_lang, "--dev-source": dev_source, "--dev-target": dev_target,
        }  # fmt: skip
        if given := [option for option, value in of_one.items() if value]:
            raise InputError(f"{', '.join(given)}: --direction names the languages and the files; leave it out")
        from nmt_cli.assembly.new_directions import configure_directions

        configure_directions(output, direction, both=both, name=name, seed=seed)
        return
    if both:
        raise InputError("--both: goes with --direction XX-YY=FILE")
    if source_lang is None or target_lang is None:
        raise InputError(
            "give --source-lang and --target-lang, or for a model of several directions --direction XX-YY=FILE"
        )
    from nmt_cli.assembly.new_configuration import configure_run

    configure_run(
        output,
        (source_lang, target_lang),
        source=source or (),
        target=target or (),
        pairs=pairs or (),
        dev=(dev_source, dev_target),
        name=name,
        seed=seed,
    )
