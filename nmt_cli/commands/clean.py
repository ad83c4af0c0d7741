"""`nmt clean`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.commands.options import SourceText
from nmt_cli.corpora.filters import FILTERS, LINE_FILTERS, dropping_filters
from nmt_cli.system.console import counted, log, warn
from nmt_cli.system.errors import InputError, UnequalLinesError

if TYPE_CHECKING:
    pass


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
            "--tag", metavar="TAG", help="Pairs: put TAG and a blank before each source line, as for back-translation."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and write nothing.")] = False,
) -> None:  # fmt: skip
    """Write the good pairs of a corpus, or the good lines of one file, and list the others with the reason.

    The rules: empty, encoding (broken characters), mixed-encodings, copy (of the source), swapped, wrong-language,
    out-of-step (the files are shifted against each other), leak (of --without), too-long, length-ratio, markup,
    numbers, duplicate; and only counted: invisible, many-targets (of one source), tokenised. The originals are never
    changed. PREFIX.dropped.tsv has line number, rule, source and target.

    The languages and the words that go together are learnt from the corpus itself, which is read twice.

    Without TARGET the rules are empty, encoding, too-long, known (the line stands in a file that --without names),
    duplicate, and invisible.

    Example: nmt clean train.en train.de -o clean
    """
    from nmt_cli.assembly.cleaning import check_inputs, check_options, cleaned_paths, judge, noun_of, tell, write
    from nmt_cli.assembly.input_checks import refuse_unfit_text
    from nmt_cli.corpora.unequal_files import place_added

    check_options(target, tag)
    texts = [source] if target is None else [source, target]
    rules = LINE_FILTERS if target is None else FILTERS
    dropping = dropping_filters(keep or (), drop or (), rules)
    check_inputs(texts, without or ())
    made = [] if output is None else cleaned_paths(texts, output, may_exist=dry_run)
    if not made and not dry_run:
        raise InputError("-o PREFIX is missing: name the new files, such as -o clean, or only count with --dry-run")
    refuse_unfit_text(texts, invalid_utf8="skip")
    try:
        if dry_run:
            tell(judge(texts, without or (), dropping, lambda *_: None), dropping, rules)
            return
        counts = write(texts, without or (), made, dropping, tag=tag)
    except UnequalLinesError as error:
        raise place_added(error) from error
    tell(counts, dropping, rules)
    noun = noun_of(texts)
    log(f"{', '.join(map(str, made[:-1]))}: {counted(counts.kept, noun)}; dropped {noun}s: {made[-1]}")
    if counts.examined and not counts.kept:
        warn(f"no {noun} is left. Look at the rules above, and switch off the wrong ones with --keep RULE")
