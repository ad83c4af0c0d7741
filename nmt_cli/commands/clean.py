"""`nmt clean`."""

from __future__ import annotations

from typing import Annotated

import typer

from nmt_cli.commands.options import SourceText


def clean(
    source: SourceText,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET", help="The translation, line by line. Without it, SOURCE is text in one language."
        ),
    ] = None,
    *,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="PREFIX",
            help="Write the pairs to PREFIX plus the endings of SOURCE and TARGET, and PREFIX.dropped.tsv. Needed, "
            "except with --dry-run.",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="RULE", help="Only count what this rule finds. May be repeated."),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            "--drop", metavar="RULE", help="Drop what this rule finds, where it is only counted. May be repeated."
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without", metavar="FILE",
            help="Drop each line (of pairs: each source) that FILE has too, such as a test set. May be repeated.",
        ),
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option(
            "--tag", metavar="TAG", help="Pairs: put TAG and a space before each source line, as for back-translation."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and write nothing.")] = False,
) -> None:  # fmt: skip
    """Write the good pairs of a corpus, or the good lines of one file, and list the others with the reason.

    The rules: empty, encoding (broken characters), mixed-encodings, copy (of the source), swapped, wrong-language,
    out-of-step (the files are shifted against each other), leak (of --without), too-long, length-ratio, markup,
    numbers, duplicate; and only counted: invisible, many-targets (of one source), tokenised. The originals are never
    changed. PREFIX.dropped.tsv has line number, rule, source and target.

    The languages and the words that go together are learned from the corpus itself, which is read twice.

    Without TARGET the rules are empty, encoding, too-long, leak (of --without), duplicate; and only counted: invisible.

    Example: nmt clean train.en train.de -o clean
    """
    from nmt_cli.assembly.cleaning import clean_corpus

    clean_corpus(
        [source] if target is None else [source, target],
        output,
        keep=keep or (),
        drop=drop or (),
        without=without or (),
        tag=tag,
        dry_run=dry_run,
    )
