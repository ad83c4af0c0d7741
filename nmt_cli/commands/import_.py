"""`nmt import`."""

from __future__ import annotations

from typing import Annotated

import typer


def import_(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Files with both languages, two files with one language each, or directories; may be compressed; - "
            "for standard input.",
        ),
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="PREFIX", help="Write PREFIX.XX, PREFIX.YY, PREFIX.report.json.")
    ],
    source_lang: Annotated[
        str | None,
        typer.Option(
            "--source-lang", metavar="XX", help="Language of the source, such as en. Needed unless --lang is given."
        ),
    ] = None,
    target_lang: Annotated[
        str | None,
        typer.Option(
            "--target-lang", metavar="YY", help="Language of the target, such as de. Needed unless --lang is given."
        ),
    ] = None,
    lang: Annotated[
        str | None,
        typer.Option("--lang", metavar="XX", help="Take the text in this language alone, and write PREFIX.XX."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="S,T", help="Columns of a table, source first: numbers or names."),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option("--encoding", metavar="E", help="Encoding of the text, if the program cannot find it by itself."),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="F",
            help="text, tsv, csv, tmx, xliff, po, jsonl, srt, vtt, html, xlsx or ods. Without it, the format is "
            "recognised.",
        ),
    ] = None,
    separator: Annotated[
        str | None, typer.Option("--separator", metavar="C", help="Character between the cells of a table, or tab.")
    ] = None,
    sheet: Annotated[str | None, typer.Option("--sheet", metavar="NAME", help="Sheet of a spreadsheet.")] = None,
    member: Annotated[str | None, typer.Option("--member", metavar="NAME", help="File in a zip archive.")] = None,
    with_unfinished: Annotated[
        bool,
        typer.Option("--with-unfinished", help="Take translations that the file calls unfinished, too."),
    ] = False,
) -> None:
    """Turn a table, translation memory, spreadsheet, subtitles or text in any encoding into two files of sentences.

    The command recognises the format by content and name, and prints what it recognised. It counts whatever it leaves
    out, with the reason, in PREFIX.report.json. If a file can be read in two ways, it writes nothing and names the
    options that decide.

    Example: nmt import fra-eng.zip -o tatoeba --source-lang en --target-lang fr
    """
    from nmt_cli.assembly.imported_pairs import import_corpus, languages_of
    from nmt_cli.formats.members import Settings

    settings = Settings(
        languages_of(source_lang, target_lang, lang),
        columns=columns,
        encoding=encoding,
        format=format_,
        sheet=sheet,
        member=member,
        with_unfinished=with_unfinished,
        separator={"tab": "\t", "\\t": "\t"}.get(separator or "", separator),
        is_single=lang is not None,
    )
    import_corpus(files, output, settings)
