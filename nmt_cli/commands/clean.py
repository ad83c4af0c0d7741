"""`nmt clean`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt_cli.commands.options import SourceText
from nmt_cli.console import counted, log, warn
from nmt_cli.errors import InputError, UnequalLinesError

if TYPE_CHECKING:
    from nmt_cli.rules.catalogue import Rule
    from nmt_cli.rules.corpus import Judged, Tally

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


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
    from nmt_cli.preflight.inputs import refuse_unfit_text
    from nmt_cli.rules.catalogue import LINE_RULES, RULES, rules_that_drop
    from nmt_cli.rules.parting import place_added

    _check_options(target, tag)
    texts = [source] if target is None else [source, target]
    rules = LINE_RULES if target is None else RULES
    dropping = rules_that_drop(keep or (), drop or (), rules)
    _check_inputs(texts, without or ())
    made = [] if output is None else cleaned_paths(texts, output, may_exist=dry_run)
    if not made and not dry_run:
        raise InputError("-o PREFIX is missing: name the new files, such as -o clean, or only count with --dry-run")
    refuse_unfit_text(texts, invalid_utf8="skip")
    try:
        if dry_run:
            _tell(_judge(texts, without or (), dropping, lambda *_: None), dropping, rules)
            return
        counts = _write(texts, without or (), made, dropping, tag=tag)
    except UnequalLinesError as error:
        raise place_added(error) from error
    _tell(counts, dropping, rules)
    noun = _noun(texts)
    log(f"{', '.join(map(str, made[:-1]))}: {counted(counts.kept, noun)}; dropped {noun}s: {made[-1]}")
    if counts.judged and not counts.kept:
        warn(f"no {noun} is left. Look at the rules above, and switch off the wrong ones with --keep RULE")


def _noun(texts: Sequence[str]) -> str:
    return "line" if len(texts) == 1 else "pair"


def _check_options(target: str | None, tag: str | None) -> None:
    if target is None and tag is not None:
        raise InputError("--tag: marks the sources of pairs; give SOURCE and TARGET, or leave it out")
    if tag is not None and (not tag or tag.split() != [tag]):
        raise InputError(f"--tag {tag!r}: must be one word without blanks, such as <BT>")
    if tag is not None and any("\ud800" <= letter <= "\udfff" for letter in tag):
        raise InputError(f"--tag {tag!r}: is not valid UTF-8; give one word, such as <BT>")


def cleaned_paths(texts: Sequence[str], prefix: str, *, may_exist: bool = False) -> list[Path]:
    """Return the files that a cleaning writes: one for each text, and the list of what was dropped.

    Raises:
        InputError: a file is an input, or is there already and may not, or its directory is missing.
    """
    from nmt_cli.commands.overwriting import refuse_overwriting
    from nmt_cli.data.output import check_new, check_prefix
    from nmt_cli.rules.corpus import cleaned_names

    made = cleaned_names(texts, prefix)
    check_prefix(prefix, example=f"-o clean for {cleaned_names(texts, 'clean')[0]}")
    for path in made:
        refuse_overwriting(path, texts)
    if not may_exist:
        check_new(made)
    return made


def _check_inputs(texts: Sequence[str], without: Sequence[str]) -> None:
    """Refuse what cannot be read twice or is one file."""
    from nmt_cli.commands.reading import refuse_one_file
    from nmt_cli.data.lines import input_name, is_special_file, is_standard_input

    for path in (*texts, *without):
        if is_standard_input(path) or is_special_file(path):
            raise InputError(f"{input_name(path)}: can be read only once, but cleaning reads twice. Give a file")
    if len(texts) > 1:
        refuse_one_file(texts)


def _judge(
    texts: Sequence[str], without: Sequence[str], dropping: frozenset[str], take: Callable[[Judged, str | None], object]
) -> Tally:
    """Give each pair or line to `take` with the rule that drops it, or None, and return the counts."""
    from nmt_cli.rules.corpus import Tally, first_pass, judged_pairs
    from nmt_cli.rules.judge import Judge
    from nmt_cli.rules.lines import judged_lines

    counts = Tally()
    if len(texts) == 1:
        judged = judged_lines(texts[0], without)
    else:
        known = first_pass(texts, without)
        judge = Judge(known.sample)
        counts.not_looked_for = judge.not_looked_for
        judged = judged_pairs(texts, known, judge)
    for pair in judged:
        take(pair, counts.add(pair, dropping))
    counts.read = counts.judged
    return counts


def _write(
    texts: Sequence[str], without: Sequence[str], made: list[Path], dropping: frozenset[str], *, tag: str | None
) -> Tally:
    """Write all files, or none."""
    from nmt_cli.data.output import open_new_outputs

    mark = b"" if tag is None else tag.encode() + b" "
    with open_new_outputs(made) as files:

        def take(pair: Judged, reason: str | None) -> None:
            if reason is not None:
                files[-1].write(_dropped_line(pair, reason, len(texts)))
                return
            for file, line in zip(files, (mark + pair.source, pair.target)[: len(texts)], strict=False):
                file.write(line + b"\n")

        return _judge(texts, without, dropping, take)


def _dropped_line(pair: Judged, reason: str, num_sides: int) -> bytes:
    """Return the line about a dropped pair, or a dropped line of text in one language.

    Backslash, tab and line ends are escaped, and U+FFFD stands for bytes that are not UTF-8.
    """
    sides = (pair.source, pair.target)[:num_sides]
    texts = (text.decode("utf-8", errors="replace").translate(_ESCAPES) for text in sides)
    return "\t".join((str(pair.number), reason, *texts)).encode() + b"\n"


def _tell(counts: Tally, dropping: frozenset[str], rules: tuple[Rule, ...]) -> None:
    """Write a table of the counts of each rule."""
    from nmt_cli.rules.catalogue import LINE_RULES, TOO_LITTLE

    noun = "line" if rules is LINE_RULES else "pair"
    log(
        f"{counted(counts.read, noun)} read, {counts.kept:,} kept ({counts.share(counts.kept):.2f} %), "
        f"{counts.dropped:,} dropped ({counts.share(counts.dropped):.2f} %)"
    )
    log(f"{'rule':<16}{'found':>12}{'per cent':>10}{'dropped':>12}")
    for rule in rules:
        if rule.name in counts.not_looked_for:
            log(f"{rule.name:<16}{'-':>12}{'-':>10}{'-':>12}  not looked for: {TOO_LITTLE}")
            continue
        found = counts.found[rule.name]
        dropped = f"{counts.dropped_by[rule.name]:,}" if rule.name in dropping else "kept"
        log(f"{rule.name:<16}{found:>12,}{counts.share(found):>10.2f}{dropped:>12}  {rule.description}")
